"""Attributes with several values per node."""

import re

import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes.values import flat_table


def test_lists_of_numbers_become_columns_with_missing_cells():
    table = pd.DataFrame({"at": [(1, 2), None, np.array([3.0, 4.0])], "age": [1, 2, 3]})
    flat, notes, unreadable = flat_table(table)
    assert flat.columns.tolist() == ["at.0", "at.1", "age"]
    assert flat["at.1"].fillna(-1).tolist() == [2, -1, 4]
    assert (notes, unreadable) == ([], {})


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["[0.126, -0.132, 1e-3]", "[1, 2, 3]", ""], [[0.126, -0.132, 1e-3], [1, 2, 3], None]),
        (["array([1, 2], dtype=float32)", "tensor([3., 4.])"], [[1, 2], [3, 4]]),
        (["0,0,1,0", "1,0,0,1", "NA"], [[0, 0, 1, 0], [1, 0, 0, 1], None]),
        (["0 1 0", "1 1 0.5"], [[0, 1, 0], [1, 1, 0.5]]),
        (["0,5", "1,5"], None),
        (["1,008,000", "2,000,000"], None),
        (["079 123 45 67", "044 321 76 54"], None),
        (["1,5 2,5 3,5", "0,5 1,5 2,5"], None),
        (["1,2,3", "4,5"], None),
    ],
)
def test_texts_with_lists_of_numbers_become_columns_and_other_texts_are_unchanged(cells, numbers):
    table, notes, unreadable = flat_table(pd.DataFrame({"x": cells}))
    assert not unreadable
    if numbers is None:
        assert table["x"].tolist() == cells
        assert not notes
        return
    width = len(numbers[0])
    assert list(table) == [f"x.{place}" for place in range(width)]
    rows = [[np.nan] * width if one is None else one for one in numbers]
    np.testing.assert_array_equal(table.to_numpy(), rows)
    assert "lists of numbers" in notes[0]


def test_lists_of_texts_become_one_text_and_dictionaries_are_ignored():
    table = pd.DataFrame({"tags": [["old", "red"], [], None], "viz": [{"x": 1}, None, {}]})
    flat, notes, unreadable = flat_table(table)
    assert flat["tags"].tolist() == ["old red", "", None]
    assert flat.columns.tolist() == ["tags"]
    assert "'tags' contains lists of texts" in notes[0]
    assert "'viz' contains dictionaries" in notes[1]
    assert not unreadable


def test_invalid_lists_are_reported_and_other_columns_are_read():
    for cells, message in (
        ([[1], [1, 2]], "the same number of values for every node; the list of node 0 has 1, the"),
        ([[1], 7], "must have only lists; got 7"),
        ([[1], [object()]], "must have lists of numbers or lists of texts"),
    ):
        flat, _, unreadable = flat_table(pd.DataFrame({"a": cells, "b": [1, 2][: len(cells)]}))
        assert flat.columns.tolist() == ["b"]
        assert re.search(f"attribute 'a' .*{message}", unreadable["a"])
