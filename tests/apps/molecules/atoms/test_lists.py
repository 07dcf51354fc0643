"""Cells with lists of values."""

import math

import numpy as np
import pytest

from gattn.apps.molecules.atoms.labels import read_list, read_lists


def test_read_list_returns_the_values_of_a_cell():
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


def test_read_list_of_a_cell_without_a_flat_list_raises_error():
    for cell in ("0.5", "[__import__('os')]", 5.0):
        with pytest.raises(ValueError, match="expected a list"):
            read_list(cell)
    for cell in ("[1, [2]]", "[{}]"):
        with pytest.raises(ValueError, match="numbers or texts"):
            read_list(cell)


def test_read_lists_returns_label_tuples_with_the_index_of_their_row():
    lists = read_lists([["[1, 2]", ""], ["", ""], ["[3]", "['x']"]], ["a", "b"])
    assert lists.values == [(1, None), (2, None), (3, "x")]
    assert lists.owners.tolist() == [0, 0, 2]
    assert lists.problems == ["", "", ""]


def test_read_lists_reports_rows_with_unequal_or_invalid_lists():
    lists = read_lists([["[1, 2]", "[1]"], ["[1]", "x"], ["[4]", "[5]"]], ["a", "b"])
    assert lists.values == [(4, 5)]
    assert lists.problems[0].endswith("it has 2 values of a, 1 values of b")
    assert lists.problems[1].startswith("b: expected a list")
