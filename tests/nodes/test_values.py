"""Attributes with several values per node."""

import re

import numpy as np
import pandas as pd
import pytest

from gattn.nodes.values import flat_table


def test_lists_of_numbers_become_columns_with_gaps_where_there_is_none():
    table = pd.DataFrame({"at": [(1, 2), None, np.array([3.0, 4.0])], "age": [1, 2, 3]})
    flat, notes, unreadable = flat_table(table)
    assert flat.columns.tolist() == ["at.0", "at.1", "age"]
    assert flat["at.1"].fillna(-1).tolist() == [2, -1, 4]
    assert (notes, unreadable) == ([], {})


def test_lists_of_texts_become_one_text_and_tables_are_left_out():
    table = pd.DataFrame({"tags": [["old", "red"], [], None], "viz": [{"x": 1}, None, {}]})
    flat, notes, unreadable = flat_table(table)
    assert flat["tags"].tolist() == ["old red", "", None]
    assert flat.columns.tolist() == ["tags"]
    assert "'tags' contains lists of texts" in notes[0]
    assert "'viz' contains dictionaries" in notes[1]
    assert not unreadable


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [[1], [1, 2]],
            "the same number of values for every node; the list of node 0 has 1, the list of "
            "node 1 has 2",
        ),
        ([[1], 7], "must have only lists; got 7"),
        ([[1], [object()]], "must have lists of numbers or lists of texts"),
    ],
)
def test_other_lists_are_unreadable_and_the_others_are_read(cells, message):
    flat, _, unreadable = flat_table(pd.DataFrame({"a": cells, "b": [1, 2][: len(cells)]}))
    assert flat.columns.tolist() == ["b"]
    assert re.search(f"attribute 'a' .*{message}", unreadable["a"])


def test_attributes_of_one_name_are_unreadable():
    flat, _, unreadable = flat_table(pd.DataFrame([[1, 2, 3]], columns=["b", "b", "c"]))
    assert flat.columns.tolist() == ["c"]
    assert unreadable == {"b": "attributes must have different names; several are called 'b'"}
    table = pd.DataFrame({"x": [[1, 2]], "x.0": [3]})
    assert list(flat_table(table)[2]) == ["x.0"]
