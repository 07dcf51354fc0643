"""Tests of numbers in cells: the pattern of each cell, and the number format and the message for a
column.
"""

import math

import numpy as np
import pytest

from gattn.data.tables.numbers import (
    NumberFormat,
    classify,
    command_option,
    python_argument,
    read_numbers,
)

KINDS = {
    "plain": [
        "1.5",
        "-3",
        "+3",
        ".5",
        "5.",
        "1e5",
        "−3.2",
        "–3.2",
        "1E-3",
        " 7 ",
        "20210312",
        "2e−4",
    ],
    "missing": ["", " ", "NA", "n/a", "#N/A", "NaN", "-nan", "None", "null", "<NA>"],
    "infinite": ["inf", "-Infinity", "∞", "1e400"],
    "censored": [
        *(">10", "<0.5", ">=3", "≤ 3", "~3", "ca. 3", "approx 3", "c. 3", "> 1,008 nM", "<<1"),
        *("≈3", ">−3", "=>3", "> 1 ± 0.2"),
    ],
    "thousands": [
        *("1.008.500", "1 008", "1'008", "1’008", "1\u202f008", "1\u00a0008,5", "1,008.5"),
        *("1,00,000", "1,008,500", "1.008.500,5", "-1 008"),
    ],
    "decimal": ["3,25", "0,123", "1234,567", "12,3456", "-1,5e-3", ",5"],
    "comma": ["1,008", "-12,345", "999,000"],
    "plus_minus": ["3.2 ± 0.1", "3.2+-0.1", "3.2 +/- 0.1", "3,2±0,1", "3.2 ± 0.1 nM"],
    "percent": ["45 %", "45%", "4,5 %"],
    "unit": ["3.2 nM", "5µM", "5 μM", "12 months", "10 mg/mL", "5 °C", "3.2 log units"],
    "range": ["3-5", "3 – 5", "3 to 5", "3..5"],
    "power": ["1.2x10^-3", "1.2 × 10⁻³", "5*10**2"],
    "hexadecimal": ["0x1F", "0Xff"],
    "date": [
        *("2021-03-12", "12/03/2021", "3-Dec-20", "3-Dec", "12.03.2021", "2021-03-12T10:00:00Z"),
        *("12:30", "2021/3/12", "Mar 3, 2021", "1 Sep", "03-12-21", "2021-03"),
    ],
    "text": [
        *("see note", "-", "nd", "CHEMBL25", "May", "1" * 50 + " " * 90_000 + "x"),
    ],
    "odd": [
        *("1_000", "１２", "٣", "1,2,3", "1.2.3", "1 2", "(3.2)", "3.2*", "=3", "$3", "--3"),
        "1,2345,678",
    ],
}


@pytest.mark.parametrize(("kind", "cell"), [(k, c) for k, cells in KINDS.items() for c in cells])
def test_every_cell_has_one_pattern(kind, cell):
    assert classify(cell).kind == kind
    value = NumberFormat().parse(cell)
    if kind == "missing":
        assert value is not None
        assert math.isnan(value)
    elif kind == "infinite":
        assert value is not None
        assert math.isinf(value)
    elif kind == "plain":
        assert value == float(cell.replace("−", "-").replace("–", "-"))
    else:
        assert value is None


@pytest.mark.parametrize(
    ("settings", "cell", "value"),
    [
        ({"thousands": ","}, "1,008", 1008),
        ({"thousands": ","}, "-1,008.5", -1008.5),
        ({"thousands": ","}, "12,34,567", 1234567),
        ({"thousands": ","}, "3,25", None),
        ({"thousands": ","}, "0,123", None),
        ({"thousands": ","}, "12,3456", None),
        ({"decimal": ","}, "1,008", 1.008),
        ({"decimal": ","}, "−3,25", -3.25),
        ({"decimal": ","}, "1.5", None),
        ({"decimal": ","}, "7", 7),
        ({"decimal": ",", "thousands": "."}, "1.008,5", 1008.5),
        ({"decimal": ",", "thousands": "."}, "1.008", 1008),
        ({"decimal": ",", "thousands": "."}, "1.5", None),
        ({"thousands": " "}, "1\u202f008\u00a0500.5", 1008500.5),
        ({"thousands": "'"}, "1’008", 1008),
        ({"decimal": ",", "thousands": "'"}, "1'008,5", 1008.5),
        ({"censored": "bound"}, "> 10", 10),
        ({"censored": "bound"}, "<0.5", 0.5),
        ({"censored": "bound", "thousands": ","}, ">1,008", 1008),
        ({"censored": "bound"}, ">1,008", None),
        ({"censored": "drop"}, ">1,008", math.nan),
        ({"uncertainty": "drop"}, "3.2 ± 0.1", 3.2),
        ({"uncertainty": "drop", "unit": "nM"}, "3.2 ± 0.1 nM", 3.2),
        ({"unit": "nM"}, "3.2nM", 3.2),
        ({"unit": "nM"}, "3.2 µM", None),
        ({"unit": "nM"}, "3.2", 3.2),
        ({"unit": "µM"}, "3.2 μM", 3.2),
        ({"unit": "%"}, "45 %", 45),
        ({"unit": "%", "decimal": ","}, "4,5%", 4.5),
    ],
)
def test_settings_read_exactly_what_a_cell_states(settings, cell, value):
    parsed = NumberFormat(**settings).parse(cell)
    assert parsed == value or (parsed is not None and math.isnan(parsed) and math.isnan(value))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decimal": ";"}, "decimal must be one of '.', ','; got ';'"),
        ({"thousands": "_"}, "thousands must be one of"),
        ({"thousands": "."}, "both are '.' .* decimal sign ','"),
        ({"decimal": ",", "thousands": ","}, "both are ','"),
        ({"censored": "keep"}, "censored must be one of 'refuse', 'drop', 'bound'"),
        ({"unit": "1"}, "unit must be letters or %"),
    ],
)
def test_settings_that_contradict_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        NumberFormat(**settings)


@pytest.mark.parametrize(
    ("cells", "kind", "options"),
    [
        (["48", "960", "1,008", "1,056"], "thousands", "--thousands ,"),
        (["3.25", "1,008"], "thousands", "--thousands ,"),
        (["1,008", "1,008,500"], "thousands", "--thousands ,"),
        (["3,25", "1,008"], "decimal", "--decimal ,"),
        (["3,25", "1.008", "7"], "decimal", "--decimal , --thousands . reads it"),
        (["1.008.500", "1.008"], "thousands", "--decimal , --thousands . reads it"),
        (["1 008", "960"], "thousands", "--thousands ' '"),
        (["1'008", "0.5"], "thousands", """--thousands "'\""""),
        (["1,008", "2,345"], "comma", "use --decimal , or --thousands ,"),
        (["1,008", "1500"], "comma", "use --decimal , or --thousands ,"),
        (["3,25", "1,008.5"], "thousands", None),
        ([">10", "<0.5", "3"], "censored", "use --censored drop or --censored bound"),
        (["3.2 ± 0.1", "4"], "plus_minus", "--uncertainty drop reads it"),
        (["45 %", "50 %"], "percent", "--unit % reads them"),
        (["3.2 nM", "4"], "unit", "--unit nM reads it"),
        (["3.2 nM", "4 µM", "5 nM"], "unit", None),
        (["2021-03-12", "2021-04-12"], "date", None),
        (["inf", "3"], "infinite", None),
    ],
)
def test_a_column_names_its_pattern_and_the_option_that_reads_it(cells, kind, options):
    column = read_numbers(cells)
    pattern = next(pattern for pattern in column.patterns if pattern.kind == kind)
    assert cells[pattern.place] == pattern.example
    sentence = pattern.sentence("in line {}".format, command_option, "label")
    assert f"for example {pattern.example!r} in line {pattern.place}" in sentence
    if options is None:
        assert "--" not in sentence
    else:
        assert options in sentence


def test_points_among_decimal_commas_are_named():
    column = read_numbers(["1.5", "2"], NumberFormat(decimal=","))
    sentence = column.patterns[0].sentence("in line {}".format, command_option)
    assert "for example '1.5' in line 0 (--decimal . reads it)" in sentence
    column = read_numbers(["1.008", "2,5"], NumberFormat(decimal=","))
    sentence = column.patterns[0].sentence("in line {}".format, command_option)
    assert "for example '1.008' in line 0 (--decimal , --thousands . reads it)" in sentence


def test_what_an_option_reads_is_read_to_the_end():
    cells = ["48", "960", "1,008", "12,345.5", "−3", "", "see note"]
    column = read_numbers(cells, NumberFormat(thousands=","))
    expected = [48, 960, 1008, 12345.5, -3, math.nan, math.nan]
    np.testing.assert_array_equal(column.values, expected)
    assert (column.missing, column.labelled, column.unread) == (1, 6, (6,))
    assert [pattern.kind for pattern in column.patterns] == ["text"]
    assert column.recognised() == ()


def test_mixed_units_have_no_option():
    column = read_numbers(["3.2 nM", "4 µM", "5 nM", "6"])
    (pattern,) = column.patterns
    assert pattern.count == 3
    assert not pattern.settings
    assert "units are mixed: nM 2 times, μM 1 times; convert them" in pattern.detail
    column = read_numbers(["3.2 nM", "4 µM"], NumberFormat(unit="nM"))
    assert column.unread == (1,)
    assert "the unit is set to 'nM', but the column has" in column.patterns[0].detail


def test_many_endings_are_texts():
    column = read_numbers([f"1{letter}" for letter in "abcdefgh"])
    assert [pattern.kind for pattern in column.patterns] == ["text"]


def test_shares_beside_percents_are_not_mixed():
    column = read_numbers(["45 %", "0.45"], NumberFormat(unit="%"))
    assert column.unread == (1,)
    assert column.patterns[0].kind == "bare"
    assert column.values[0] == 45
    assert math.isnan(column.values[1])


def test_a_cell_of_two_patterns_counts_for_both():
    column = read_numbers([">1,008", "960"])
    assert [(p.kind, p.count) for p in column.patterns] == [("censored", 1), ("thousands", 1)]
    assert column.unread == (0,)


def test_dropped_values_are_counted():
    column = read_numbers([">10", "", "3"], NumberFormat(censored="drop"))
    assert (column.dropped, column.missing, column.unread) == (1, 1, ())


def test_points_that_may_be_thousands_are_a_doubt():
    column = read_numbers(["48", "960", "1.008", "1.200"])
    assert column.values.tolist() == [48, 960, 1.008, 1.2]
    (doubt,) = column.doubts
    sentence = doubt.sentence("in line {}".format, command_option, "label")
    assert (
        "2 labels have a point that may separate thousands, for example '1.008' in line 2"
        in sentence
    )
    assert "it was read as 1.008; --decimal , --thousands . reads them" in sentence
    for cells in (["48.000", "960.000", "1.200"], ["48", "960", "1.2"], ["48", "1960", "1.200"]):
        assert not read_numbers(cells).doubts


def test_an_empty_column_is_ordinary():
    column = read_numbers([])
    assert column.values.shape == (0,)
    assert not column.patterns
    assert not column.unread
    assert read_numbers(["", "NA"]).missing == 2


def test_arguments_are_written_for_python():
    pattern = read_numbers(["3,25"]).patterns[0]
    assert "(decimal=',' reads it)" in pattern.sentence("in row {}".format, python_argument)
    assert "(" not in pattern.sentence("in row {}".format)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("(0.164)", "odd"), ("$1.0", "odd"), ("1_006", "odd"), ("1e 3", "odd"), ("1.5/2.5", "odd"),
        ("1.5;2.5", "odd"), ("'1.0", "odd"), ('="1.0"', "odd"), ("1.0D+03", "odd"),
        ("1.2D-3", "odd"), ("\uff15.\uff12", "odd"), ("10+", "odd"), ("10\u00b3", "power"),
        ("3 m\u00b3", "unit"), ("see note 3", "text"), ("?", "text"), ("--", "text"),
        ("A1", "text"),
    ],
)  # fmt: skip
def test_digits_in_a_way_that_is_not_read_are_no_text(text, kind):
    assert classify(text).kind == kind
    column = read_numbers([*map(str, range(100)), text])
    assert [pattern.kind for pattern in column.recognised()] == [kind] * (kind != "text")
