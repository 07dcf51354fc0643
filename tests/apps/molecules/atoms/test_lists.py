"""Cells with lists of values."""

import math

import numpy as np
import pytest

from gattn.apps.molecules.atoms.labels import read_list, read_lists


def test_a_cell_with_a_list_gives_its_values():
    for cell, values in (
        ("[1, 2.5, null]", [1, 2.5, None]),
        ("(1, 'a')", [1, "a"]),
        ("['<1', '>2', '3']", ["<1", ">2", "3"]),
        ("[0.1 -0.2\n 3e-4]", ["0.1", "-0.2", "3e-4"]),
        ("[]", []),
        ("[true, false]", [1, 0]),
        ("[1e999, -Infinity]", [math.inf, -math.inf]),
        (f"[{10**400}]", [math.inf]),
        ("[1, 'NA']", [1, None]),
        ("", None),
        ("NA", None),
        (np.array([0.5, math.nan]), [0.5, None]),
    ):
        assert read_list(cell) == values


def test_cells_that_are_no_lists_are_errors():
    for cell in ("0.5", "[__import__('os')]", 5.0):
        with pytest.raises(ValueError, match="expected a list"):
            read_list(cell)
    for cell in ("[1, [2]]", "[{}]"):
        with pytest.raises(ValueError, match="numbers or texts"):
            read_list(cell)


def test_labels_of_lists_are_joined_with_the_row_of_each():
    lists = read_lists([["[1, 2]", ""], ["", ""], ["[3]", "['x']"]], ["a", "b"])
    assert lists.values == [(1, None), (2, None), (3, "x")]
    assert lists.owners.tolist() == [0, 0, 2]
    assert lists.problems == ["", "", ""]


def test_lists_of_a_row_that_differ_in_length_or_cannot_be_read_are_its_problem():
    lists = read_lists([["[1, 2]", "[1]"], ["[1]", "x"], ["[4]", "[5]"]], ["a", "b"])
    assert lists.values == [(4, 5)]
    assert lists.problems[0].endswith("it has 2 values of a, 1 values of b")
    assert lists.problems[1].startswith("b: expected a list")
