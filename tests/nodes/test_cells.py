"""Attributes that hold several values for a node."""

import numpy as np
import pandas as pd
import pytest

from gattn.nodes.attributed import GraphError
from gattn.nodes.cells import flat_table


def test_lists_of_numbers_become_columns_with_gaps_where_there_is_none():
    table = pd.DataFrame({"at": [(1, 2), None, np.array([3.0, 4.0])], "age": [1, 2, 3]})
    flat, notes = flat_table(table)
    assert flat.columns.tolist() == ["at.0", "at.1", "age"]
    assert flat["at.1"].fillna(-1).tolist() == [2, -1, 4]
    assert notes == []


def test_lists_of_texts_become_one_text_and_tables_are_left_out():
    table = pd.DataFrame({"tags": [["old", "red"], [], None], "viz": [{"x": 1}, None, {}]})
    flat, notes = flat_table(table)
    assert flat["tags"].tolist() == ["old red", "", None]
    assert flat.columns.tolist() == ["tags"]
    assert "'tags' holds lists of texts" in notes[0]
    assert "'viz' holds tables" in notes[1]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1], [1, 2]], "as many numbers for every node; the first has 1, that in row 1 has 2"),
        ([[1], 7], "must hold lists only; got 7"),
        ([[1], [object()]], "must hold lists of numbers or of texts"),
    ],
)
def test_other_lists_are_refused(cells, message):
    with pytest.raises(GraphError, match=f"attribute 'a' .*{message}"):
        flat_table(pd.DataFrame({"a": cells}))
    with pytest.raises(GraphError, match="two are called 'b'"):
        flat_table(pd.DataFrame([[1, 2]], columns=["b", "b"]))
