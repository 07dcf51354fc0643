"""Selection of rows by expressions: precedence, types, missing cells, ranking and errors."""

import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.screening.screen import RowQuery

COLUMNS = ["prediction", "std", "upper", "set", "my column", "input", "class"]
ROW = ["7.5", "0.5", "inf", "active", "3", "", "a\\b"]


def test_row_query_selects_a_row_if_its_where_condition_is_true():
    for expression, result in (
        ("prediction > 7", True),
        ("5 < prediction and prediction < 8", True),
        ("prediction > 7 and std < 0.5", False),
        ("prediction > 9 or std > 1 or prediction == 75e-1", True),
        ("not (prediction > 7 and std < 1)", False),
        ("prediction > 9 and (std > 9 or std < 1)", False),
        ("prediction - 2 * std == 6.5", True),
        ("prediction --1 > 8", True),
        ("abs(-prediction) == 7.5", True),
        ("upper > 1e300", True),
        ("set = 'active'", True),
        ("class == 'a\\b'", True),
        ("`my column` == '3'", True),
        ("std < `my column`", True),
        # A comparison with an empty cell, or of a number with a text, is false.
        ("input > 0", False),
        ("set > 0", False),
    ):
        assert RowQuery(COLUMNS, where=expression).best([ROW]) == [0] * result


def test_row_query_ranks_rows_by_a_number_and_omits_rows_without_a_number():
    rows = [[text, "1", "", "", "", "", ""] for text in ("3", "x", "9", "", "3", "5")]
    assert RowQuery(COLUMNS, by="prediction", top=3).best(rows) == [2, 5, 0]
    assert RowQuery(COLUMNS, by="-prediction * 2*std", top=9).best(rows) == [0, 4, 5, 2]
    assert RowQuery(COLUMNS, where="prediction > 3", by="std", top=9).best(rows) == [2, 5]
    assert RowQuery(COLUMNS, by="set", top=10**30).best(rows) == []


def test_invalid_condition_of_where_raises_error_with_its_reason():
    for expression, message in (
        ("prediction", "must be a condition such as 'prediction > 7'; got 'prediction'"),
        ("prediction >", "not a valid expression"),
        ("5 < prediction < 7", "a chain of comparisons"),
        ("prediction > '5'", "a number has no quotes"),
        ("set == ''", "no comparison selects empty cells"),
        ('set != ""', "no comparison selects empty cells"),
        ("(set) == 'active'", "a text is compared with a column"),
        ("prediction > 7 & std < 1", "use and"),
        ("activity > 7", "no column 'activity'; the columns are prediction, std"),
        ("__import__('os') > 1", "no column '__import__'"),
        ("load_extension('x') > 1", "no column 'load_extension'"),
        ("prediction[0] > 1", "'[' has no meaning"),
        ("std > 1; drop table rows", "';' has no meaning"),
        ("-" * 5000 + "std > 1", "not a valid expression"),
    ):
        with pytest.raises(SettingsError) as raised:
            RowQuery(COLUMNS, where=expression)
        assert str(raised.value).startswith("where: ")
        assert message in str(raised.value)


def test_ranking_by_a_condition_raises_error():
    with pytest.raises(SettingsError, match="by: must be a number such as prediction; got"):
        RowQuery(COLUMNS, by="prediction > 7", top=1)


def test_condition_compares_text_with_cells_that_are_not_utf_8():
    rows = [[*ROW[:3], text, *ROW[4:]] for text in ("caf\udce9", "Ünï")]
    assert RowQuery(COLUMNS, where="set == 'Ünï'").best(rows) == [1]
    assert RowQuery(COLUMNS, where="set != 'Ünï'").best(rows) == [0]
