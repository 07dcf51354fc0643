"""Tests of numbers in cells: the kind of each cell, and the number format and the message for a
column.
"""

import math
from typing import Any

import numpy as np
import pytest

from gattn.apps.tables.numbers import NumberFormat, classify, read_numbers

KINDS = {
    "plain": ("1.5", "-3", "+3", ".5", "5.", "1e5", "1E-3", " 7 ", "20210312"),
    "missing": ("", " ", "NA", "n/a", "#N/A", "NaN", "-nan", "None", "null", "<NA>"),
    "infinite": ("inf", "-Infinity", "∞", "1e400"),
    "censored": (">10", "<0.5", ">=3", "≤ 3", "~3", "<<1", "≈3", "=>3", "> 1,008"),
    "separated": (
        *("1.008.500", "1 008", "1'008", "1’008", "1\u202f008", "1,008.5", "1.008.500,5"),
        *("3,25", "0,123", "1234,567", "12,3456", "-1,5e-3", ",5", "1,008", "-12,345", "999,000"),
    ),
    "odd": (
        *("3.2 ± 0.1", "45 %", "3.2 nM", "5µM", "5 °C", "10 mg/mL", "3-5", "3 to 5", "0x1F"),
        *("1.2x10^-3", "10\u00b3", "2021-03-12", "12.03.2021", "3-Dec-20", "12:30", "−3.2"),
        *("1_000", "１２", "1,2,3", "1.2.3", "1,00,000", "(3.2)", "=3", "$3", "--3", '="1.0"'),
        *("1.2D-3", "1e 3", "1.5/2.5", "10+", "> 3 nM", ">−3"),
    ),
    "text": ("see note", "see note 3", "-", "?", "nd", "CHEMBL25", "A1", "3-methylbutane"),
}
NAN = math.nan
READINGS: tuple[tuple[dict[str, Any], dict[str, float | None]], ...] = (
    ({"thousands": ","}, {"1,008": 1008, "-1,008.5": -1008.5, "3,25": None, "0,123": None}),
    ({"decimal": ","}, {"1,008": 1.008, "-3,25": -3.25, "1.5": None, "7": 7}),
    ({"decimal": ",", "thousands": "."}, {"1.008,5": 1008.5, "1.008": 1008, "1.5": None}),
    ({"thousands": " "}, {"1\u202f008\u00a0500.5": 1008500.5}),
    ({"thousands": "'"}, {"1’008": 1008, "1'008": 1008}),
    ({"decimal": ",", "thousands": "'"}, {"1'008,5": 1008.5}),
    ({"censored": "bound"}, {"> 10": 10, "<0.5": 0.5, "~3": 3, ">1,008": None}),
    ({"censored": "bound", "thousands": ","}, {">1,008": 1008}),
    ({"censored": "drop"}, {">1,008": NAN, "3": 3}),
    ({"censored": "limit"}, {">10": NAN, "~3": 3, ">1,008": None}),
)
ADVICE = (
    (("48", "960", "1,008"), "separated", "(use --thousands ,)"),
    (("1,008", "1500"), "separated", "(use --decimal , or --thousands ,)"),
    (("48", "3.25", "1,008"), "separated", "(use --thousands ,)"),
    (("1,008", "1,008,500"), "separated", "(use --thousands ,)"),
    (("3,25", "1,008"), "separated", "(use --decimal ,)"),
    (("3,25", "1.008", "7"), "separated", "(use --decimal , --thousands .)"),
    (("1.008.500", "1.008"), "separated", "(use --decimal , --thousands .)"),
    (("1 008", "960"), "separated", "--thousands ' '"),
    (("1'008", "0.5"), "separated", """--thousands ''"'"''"""),
    (("1,008", "2,345"), "separated", "(use --decimal , or --thousands ,)"),
    (("3,25", "1,008.5"), "separated", None),
    ((">10", "<0.5", "3"), "censored", None),
    ((">1,008", "960"), "censored", None),
    (("3.2 nM", "4"), "odd", None),
    (("inf", "3"), "infinite", None),
)


def same(a, b):
    return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))


def test_cells_are_classified_and_only_plain_infinite_or_missing_numbers_are_parsed():
    for kind, cells in KINDS.items():
        for cell in cells:
            value = NumberFormat().parse(cell)
            assert classify(cell).kind == kind, cell
            if kind in ("plain", "missing", "infinite"):
                expected = float(cell.replace("∞", "inf")) if kind != "missing" else NAN
                assert same(value, expected), cell
            else:
                assert value is None, cell


def test_number_format_reads_cells_by_its_decimal_thousands_and_censored_settings():
    for settings, cells in READINGS:
        for cell, value in cells.items():
            assert same(NumberFormat(**settings).parse(cell), value), (settings, cell)


def test_invalid_or_contradictory_settings_of_a_number_format_raise_error():
    for settings, message in (
        ({"decimal": ";"}, "decimal must be one of '.', ','; got ';'"),
        ({"thousands": "_"}, "thousands must be one of"),
        ({"thousands": "."}, "both are '.'"),
        ({"censored": "keep"}, "censored must be one of 'refuse', 'drop', 'bound'"),
    ):
        with pytest.raises(ValueError, match=message):
            NumberFormat(**settings)


def test_note_on_a_column_names_its_number_format_and_the_option():
    for cells, kind, options in ADVICE:
        (pattern,) = read_numbers(cells).patterns
        assert (pattern.kind, cells[pattern.place]) == (kind, pattern.example)
        sentence = pattern.sentence("in line {}".format, "label")
        assert f"for example {pattern.example!r} in line {pattern.place}" in sentence
        assert ("--" not in sentence) if options is None else (options in sentence), cells
    for cells, option in ((["1.5", "2"], "--decimal ."), (["1.008", "2,5"], "--thousands .")):
        (pattern,) = read_numbers(cells, NumberFormat(decimal=",")).patterns
        assert option in pattern.sentence("in line {}".format)


def test_read_numbers_counts_missing_invalid_and_dropped_cells():
    cells = ["48", "960", "1,008", "12,345.5", "-3", "", "see note"]
    column = read_numbers(cells, NumberFormat(thousands=","))
    np.testing.assert_array_equal(column.values, [48, 960, 1008, 12345.5, -3, NAN, NAN])
    assert (column.missing, column.labelled, column.unread) == (1, 6, (6,))
    assert [pattern.kind for pattern in column.patterns] == ["text"]
    assert column.recognised() == ()
    column = read_numbers([">10", "", "3"], NumberFormat(censored="drop"))
    assert (column.dropped, column.missing, column.unread) == (1, 1, ())
    column = read_numbers([])
    assert (column.values.shape, column.patterns, column.unread) == ((0,), (), ())
