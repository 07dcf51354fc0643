"""Cells with lists of values, and the tasks of their labels."""

import math

import numpy as np
import pytest

from gattn.apps.molecules.atoms.labels import coding_of, read_cells
from gattn.apps.molecules.atoms.lists import read_list


def test_lists_are_read():
    for cell, values in (
        ("[1, 2.5, null]", [1, 2.5, None]),
        ("(1, 'a')", [1, "a"]),
        ("['<1', '>2', '3']", ["<1", ">2", 3.0]),
        ("[0.1 -0.2\n 3e-4]", [0.1, -0.2, 3e-4]),
        ("[]", []),
        ("[true, false]", [True, False]),
        ("[1e999, -Infinity]", ["inf", "-inf"]),
        ("", None),
        ("NA", None),
        (np.array([0.5, math.nan]), [0.5, None]),
    ):
        assert read_list(cell) == values


def test_cells_that_are_no_lists_are_errors():
    for cell, message in (
        ("0.5", "expected a list"),
        ("[1, [2]]", "numbers or texts"),
        ("[{}]", "numbers or texts"),
        ("[__import__('os')]", "expected a list"),
        (5.0, "expected a list"),
    ):
        with pytest.raises(ValueError, match=message):
            read_list(cell)


def task(*cells, **options):
    return coding_of(read_cells({"atom": {"a": cells}}), **options)


def test_task_follows_from_the_labels():
    assert task("[0, 1]", "[1]").task == "classification"
    assert task("[0, 1, 2]").task == "regression"
    assert task("['x', 'y']").classes == (("x", "y"),)
    several = task("[0, 2]", "[1.0]", task="multiclass")
    assert (several.task, several.classes, several.width) == ("multiclass", ((0, 1, 2),), 3)


def test_labels_that_cannot_be_learned_are_errors():
    for cells, options, message in (
        (["[]", ""], {}, "has no label at all"),
        (["[1, 'x', 4]"], {}, "must have numbers; it has 'x'"),
        (
            ["[0, 1]", "['x', 1]"],
            {},
            "every number is 0 or 1, but some labels are texts, such as 'x'",
        ),
        (["['<1', 2, 3]"], {}, "must have numbers; it has '<1'"),
        (["[0, 1, 2]"], {"task": "classification"}, "at most 2 classes; it has 3"),
    ):
        with pytest.raises(ValueError, match=message):
            task(*cells, **options)


def test_targets_of_different_tasks_are_an_error():
    cells = read_cells({"atom": {"a": ["[0, 1]"]}, "bond": {"b": ["[0.5, 2]"]}})
    with pytest.raises(ValueError, match="a: classification, b: regression"):
        coding_of(cells)
    with pytest.raises(ValueError, match="targets must have different names; got a, a"):
        read_cells({"atom": {"a": ["[1]"]}, "bond": {"a": ["[1]"]}})
    with pytest.raises(ValueError, match="b must have 1 rows, as a; got 2"):
        read_cells({"atom": {"a": ["[1]"], "b": ["[1]", "[2]"]}})
    assert read_cells({"atom": {"a": ["1", "[1]"]}}).problems[0].startswith("a: expected a list")
