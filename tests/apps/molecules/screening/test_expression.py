"""Expressions over columns: precedence, types, missing cells, and errors."""

import math

import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.screening.expression import parse_condition, parse_value

COLUMNS = ["prediction", "std", "upper", "set", "my column", "input", "class"]
ROW = ["7.5", "0.5", "inf", "active", "3", "", "a\\b"]


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("prediction > 7", True),
        ("prediction>7.5", False),
        ("prediction >= 7.5", True),
        ("5 < prediction < 8", True),
        ("5 < prediction < 7", False),
        ("prediction > 7 and std < 0.5", False),
        ("prediction > 9 or std <= .5", True),
        ("prediction > 9 or std > 1 or prediction == 75e-1", True),
        ("not prediction > 9", True),
        ("not (prediction > 7 and std < 1)", False),
        ("prediction > 9 and std > 9 or std < 1", True),
        ("prediction > 9 and (std > 9 or std < 1)", False),
        ("prediction - 2 * std == 6.5", True),
        ("-prediction < -7", True),
        ("abs(-prediction) == 7.5", True),
        ("prediction - 1 - 1 == 5.5", True),
        ("8 / 2 / 2 == 2", True),
        ("1 / 0 > 1e300", True),
        ("-1 / 0 < -1e300", True),
        ("upper > 1e300", True),
        ("set == 'active'", True),
        ('set != "idle"', True),
        ("set < 'b'", True),
        ("class == 'a\\b'", True),
        ("`my column` == 3", True),
        ("std < `my column`", True),
        # A comparison with an empty cell, or of a number with a text, is false.
        ("input == ''", False),
        ("input != 'a'", False),
        ("input > 0", False),
        ("input != 0", False),
        ("set > 0", False),
        ("set <= 0", False),
        ("0 / 0 == 0", False),
    ],
)
def test_conditions(expression, result):
    assert parse_condition("where", expression, COLUMNS)(ROW) is result


@pytest.mark.parametrize(
    ("expression", "result"),
    [("prediction", 7.5), ("-prediction", -7.5), ("prediction - 2*std", 6.5), ("(1 + 2) * 3", 9)],
)
def test_values(expression, result):
    assert parse_value("by", expression, COLUMNS)(ROW) == result


def test_a_value_of_a_text_is_missing():
    assert math.isnan(parse_value("by", "set", COLUMNS)(ROW))
    assert math.isnan(parse_value("by", "input + 1", COLUMNS)(ROW))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "not a valid expression"),
        ("prediction", "must be a condition such as 'prediction > 7'; got 'prediction'"),
        ("prediction >", "not a valid expression"),
        ("prediction = 7", "use =="),
        ("prediction > 7 & std < 1", "use and"),
        ("activity > 7", "no column 'activity'; the columns are prediction, std"),
        ("`a b` > 7", "no column 'a b'"),
        ("prediction > 7 std", "not a valid expression"),
        ("(prediction > 7", "not a valid expression"),
        ("prediction > 7)", "not a valid expression"),
        ("std and prediction > 7", "needs a condition"),
        ("not std", "needs a condition"),
        ("set + 'a' == 'b'", "needs a number"),
        ("'a' < 3", "'<' needs two numbers or two texts"),
        ("(std > 1) > 2", "'>' needs two numbers or two texts"),
        ("abs prediction > 7", "not a valid expression"),
        ("abs > 7", "not supported"),
        ("7x > 3", "not a valid expression"),
        ("__import__('os') > 1", "no column '__import__'"),
        ("_0 > 1", "no column '_0'"),
        ("prediction.real > 1", "not supported"),
        ("prediction[0] > 1", "not supported"),
        ("prediction(0) > 1", "not supported"),
        ("2 ** 99 > 1", "not supported"),
        ("1j > 1", "not supported"),
        ("lambda: 1", "no column 'lambda'"),
        ("not " * 480 + "std > 1", "nested"),
        ("-" * 1900 + "std > 1", "nested"),
        ("std > 1 or " * 300 + "std > 1", "more than 2,000 characters"),
    ],
)
def test_error_names_the_fault(expression, message):
    with pytest.raises(SettingsError) as raised:
        parse_condition("where", expression, COLUMNS)
    assert str(raised.value).startswith("where")
    assert message in str(raised.value)


def test_a_number_is_not_compared_with_a_text():
    for expression in ('prediction > "5"', "'5' < `my column`", "prediction == '7.5'"):
        with pytest.raises(SettingsError, match="compares a number with the text"):
            parse_condition("where", expression, COLUMNS, ["prediction"])
    assert parse_condition("where", "`my column` == '3'", COLUMNS, ["prediction"])(ROW)


def test_a_condition_is_no_value():
    with pytest.raises(SettingsError, match="by must be a number such as 'prediction'; got"):
        parse_value("by", "prediction > 7", COLUMNS)
    with pytest.raises(SettingsError, match="by must be a number"):
        parse_value("by", "'text'", COLUMNS)
