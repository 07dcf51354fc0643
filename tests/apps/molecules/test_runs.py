"""Steps of a run: labels from cells, settings from files, splits, search over settings."""

import re

import numpy as np
import pytest
import torch

from gattn.apps.fitting.settings import read_toml, write_toml
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs.config import RunSettings, override
from gattn.apps.molecules.runs.labels import read_labels
from gattn.apps.molecules.runs.source import read_source
from gattn.apps.molecules.runs.tuning import tune
from gattn.apps.run.model_io import RunError
from gattn.apps.tables.numbers import NumberFormat

SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]


@pytest.mark.parametrize(
    ("cells", "task", "y"),
    [
        (["0", "1", ""], "classification", [0, 1, None]),
        (["1.0", "0.0", "NA"], "classification", [1, 0, None]),
        (["yes", "no", "yes"], "classification", ["yes", "no", "yes"]),
        (["0", "1", "2"], "regression", [0.0, 1.0, 2.0]),
        (["-1e-3", " 2 ", "nan"], "regression", [-0.001, 2.0, None]),
        (["5", "6", "n/a"], "regression", [5.0, 6.0, None]),
    ],
)
def test_the_task_is_read_from_the_labels(cells, task, y):
    labels = read_labels([[cell] for cell in cells], ["y"])
    assert labels.task == task
    values = [None if value is None or value != value else value for value in labels.y[:, 0]]
    assert values == y
    assert labels.problems == [""] * 3


def test_whole_numbers_are_classes_where_that_is_asked():
    labels = read_labels([["1"], ["2"], ["1"]], ["y"], "classification")
    assert labels.y[:, 0].tolist() == [1, 2, 1]


def test_infinity_and_numbers_of_python_alone_are_names_of_classes():
    for cells in (["inf", "1"], ["1_0", "2_0"]):
        labels = read_labels([[cell] for cell in cells], ["y"], "classification")
        assert labels.y[:, 0].tolist() == cells


def test_a_row_without_any_label_is_a_problem_and_one_with_a_label_is_none():
    labels = read_labels(
        [["1", "2"], ["y", "x"], ["z", "3"], ["2", "4"]], ["a", "b"], skip_bad=True
    )
    assert labels.problems == [
        "",
        "a must be a number or empty; it is 'y'; b must be a number or empty; it is 'x'",
        *["", ""],
    ]
    assert np.isnan(labels.y[1]).all()
    assert labels.y[2, 1] == 3
    assert [(lost.row, lost.target, lost.text) for lost in labels.lost] == [
        (1, "a", "y"), (1, "b", "x"), (2, "a", "z"),
    ]  # fmt: skip


MANY = [str(n + 0.5) for n in range(40)]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            ["1,008"],
            "may have a thousands separator .* for example '1,008' in line 41 .--thousands ,",
        ),
        (
            ["3,25"],
            r"1 label looks like a number with a decimal comma.*no combination of decimal sign",
        ),
        (["1.008.500"], r"thousands separator, for example '1.008.500'"),
        (["1 008"], "--thousands ' ' reads it"),
        (
            [">10", "<0.5"],
            "for example '>10' in line 41. Use --loss-function bounded-mse, which trains on",
        ),
        (["~3"], "1 label is a censored value, for example '~3'"),
        (["3.2 nM", "3.2 ± 0.1", "3-Dec-20"], "3 labels .*'3.2 nM' in line 41 .write a plain"),
        (["inf"], "must be finite; it is 'inf' in line 41"),
        (
            ["see note", "see note", "other"],
            "3 of 43 labels are texts, for example 'see note' in line 41",
        ),
        (["１２", "1_000", "٣"], "3 labels have an unsupported number format"),
    ],
)
def test_a_loss_that_depends_on_the_value_is_an_error(extra, message):
    message = message.replace(
        "may have a thousands separator .*", "looks like a number with a th.*"
    )
    cells = [[cell] for cell in [*MANY, *extra]]
    with pytest.raises(ValueError, match=message):
        read_labels(cells, ["y"])
    labels = read_labels(cells, ["y"], skip_bad=True)
    assert labels.counts["y"]["left_out"] == len(extra) == len(labels.lost)
    assert np.isnan(labels.y[40:]).all()
    assert np.isfinite(labels.y[:40]).all()


def test_the_advice_on_censored_labels_names_each_option_once():
    cells = [[cell] for cell in [*MANY, ">10"]]
    with pytest.raises(ValueError, match="1 label is a censored value") as error:
        read_labels(cells, ["y"])
    text = str(error.value)
    assert text.endswith(
        "in line 41. Use --loss-function bounded-mse, which trains on them as limits. "
        "Alternatives: --censored bound uses the bound as the value, although the real value is "
        "beyond it; --censored drop (or --skip-bad-labels) leaves them out, so that the model does "
        "not learn from these extreme values"
    )
    with pytest.raises(
        ValueError, match="Use --censored drop, which computes the metrics"
    ) as error:
        read_labels(cells, ["y"], learnable=False)
    assert "bounded-mse" not in str(error.value)
    with pytest.raises(ValueError, match="No label is a measured value; --censored bound uses"):
        read_labels([[">1"], ["<2"], [">3"]], ["y"], "regression")
    with pytest.raises(ValueError, match=r"or range\)\. .*leave them out\. Use --loss"):
        read_labels([*cells, ["3.2 nM"]], ["y"])


@pytest.mark.parametrize(
    ("settings", "cell", "value"),
    [
        ({"thousands": ","}, "1,008", 1008),
        ({"thousands": " "}, "1\u202f008", 1008),
        ({"thousands": "'"}, "1'008", 1008),
        ({"censored": "bound"}, ">10", 10),
        ({"censored": "drop"}, ">10", np.nan),
        ({}, "20210312", 20210312),
    ],
)
def test_an_option_reads_the_pattern(settings, cell, value):
    labels = read_labels([[c] for c in [*MANY, cell]], ["y"], style=NumberFormat(**settings))
    np.testing.assert_equal(labels.y[40, 0], value)
    assert labels.lost == ()


def test_a_decimal_comma_is_read_in_every_cell():
    cells = [[f"{n},25"] for n in range(9)] + [["7"]]
    with pytest.raises(ValueError, match=r"like numbers with decimal commas.*--decimal , read"):
        read_labels(cells, ["y"])
    labels = read_labels(cells, ["y"], style=NumberFormat(decimal=","))
    assert labels.y[:, 0].tolist() == [*(n + 0.25 for n in range(9)), 7]


def test_what_an_option_does_to_labels_is_noted():
    cells = [[c] for c in [*MANY, ">10", "<3"]]
    (note,) = read_labels(cells, ["y"], style=NumberFormat(censored="drop")).notes
    assert note == "Column 'y': 2 censored labels treated as missing (--censored drop)."
    (note,) = read_labels(cells, ["y"], style=NumberFormat(censored="bound")).notes
    assert note == "Column 'y': the bound of 2 censored labels is used as the value."


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["20210312", "20210413", "20210514", "20210615", "20210716", "20210817"], "like dates"),
        ([str(n) for n in range(7, 20)], "count the rows"),
        (["0", "1", "2"] * 5, "labels 0, 1, 2 are read as numbers; --task multiclass"),
    ],
)
def test_numbers_that_may_mean_something_else_are_noted(cells, message):
    (note,) = read_labels([[cell] for cell in cells], ["y"]).notes
    assert re.search(message, note)


def test_one_text_in_a_column_is_left_out_and_told():
    labels = read_labels([[c] for c in [*MANY, "see note"]], ["y"])
    assert labels.problems[40] == "y must be a number or empty; it is 'see note'"
    assert labels.notes == (
        "Column 'y': 1 label left out, the first 'see note' in line 41, which is not a number.",
    )


def test_a_text_that_costs_no_row_is_left_out_whatever_its_share():
    cells = [[c, "see note" if i % 4 == 0 else c] for i, c in enumerate(MANY)]
    labels = read_labels(cells, ["a", "b"])
    assert labels.problems == [""] * 40
    assert np.isfinite(labels.y[:, 0]).all()
    assert labels.counts == {
        "a": {"read": 40, "missing": 0, "left_out": 0, "censored": 0},
        "b": {"read": 30, "missing": 0, "left_out": 10, "censored": 0},
    }
    with pytest.raises(ValueError, match="column 'b': 10 of 40 labels are texts"):
        read_labels([[b] for _, b in cells], ["b"])
    # A column with several different texts is an error, because they do not mark one kind of row.
    cells[0][1] = "other"
    with pytest.raises(ValueError, match="column 'b': 10 of 40 labels are texts"):
        read_labels(cells, ["a", "b"])


@pytest.mark.parametrize(
    "words", [["inconclusive"], ["n.d.", "n.d."], ["?"], ["see note", "TRUE"], ["inconclusive"] * 9]
)
def test_zero_and_one_among_texts_ask_for_the_task(words):
    cells = [[c] for c in ["0", "1"] * 20 + words]
    first = re.escape(repr(words[0]))
    message = (
        f"every number is 0 or 1.*{first} in line 41.*--task classification or --task regression"
    )
    with pytest.raises(ValueError, match=message):
        read_labels(cells, ["y"])
    if len(words) > 2:
        with pytest.raises(ValueError, match="9 of 49 labels are texts"):
            read_labels(cells, ["y"], "classification")
        return
    for task in ("classification", "regression"):
        labels = read_labels(cells, ["y"], task)
        assert labels.y[:40, 0].tolist() == [0, 1] * 20
        assert labels.counts["y"]["left_out"] == len(words)


@pytest.mark.parametrize(
    ("cells", "task", "message"),
    [
        (["0", "1", "2"] * 4, "classification", r"it has 3: 0 \(4 labels, first in line 1\), 1"),
        (
            ["yes", "no", "maybe"] * 4,
            "classification",
            r"3: 'maybe' \(4 labels, first in line 3",
        ),
        (
            [*["yes", "no"] * 4, "maybe"],
            "auto",
            "3 different texts: 'yes', 'no', 'maybe'; for classes use --task multiclass",
        ),
        (
            ["none", "toxic"] * 4,
            "classification",
            "'none' in 4 cells: read as missing values, so rename a class",
        ),
        (["none", "toxic"] * 4, "auto", "it has 1: 'toxic' .*'none' in 4 cells: read as missing"),
        (["NA", "NA"], "auto", r"no label at all \('NA' in 2 cells: read as missing values\)"),
    ],
)
def test_what_is_wrong_with_classes_is_named_with_counts(cells, task, message):
    with pytest.raises(ValueError, match=message):
        read_labels([[cell] for cell in cells], ["y"], task)


def test_a_word_for_a_missing_class_is_told():
    labels = read_labels([[c] for c in ["active", "inactive", "NA", "none"] * 3], ["y"])
    assert labels.task == "classification"
    assert labels.notes == (
        "Column 'y': 'NA' in 3 cells, 'none' in 3 cells: read as missing values, not as a class.",
    )
    assert labels.counts["y"] == {"read": 6, "missing": 6, "left_out": 0, "censored": 0}


def test_censored_values_of_two_kinds_are_classes():
    labels = read_labels([[c] for c in ["<10", ">=10"] * 3], ["y"])
    assert labels.task == "classification"


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["", "NA"], "'y' has no label at all"),
        (["1", "1"], "two classes; it has 1: 1"),
        (["3", "3"], "constant: every label is 3"),
        (["1", "inf"], "must be finite; it is 'inf' in line 2"),
        (["2", "-1e999"], "must be finite; it is '-1e999' in line 2"),
        (["2", "1e200"], "must be finite; it is '1e200' in line 2, beyond float32"),
        (
            ["a", "b", "c"],
            r"no numbers \(decimals have a point\) and 3 different texts.*: 'a', 'b'",
        ),
    ],
)
def test_labels_that_cannot_be_learnt(cells, message):
    with pytest.raises(ValueError, match=message):
        read_labels([[cell] for cell in cells], ["y"])


def test_two_kinds_of_text_are_no_numbers_but_classes():
    with pytest.raises(
        ValueError, match="no numbers: 'a', 'b'; for classes use --task classification"
    ):
        read_labels([["a"], ["b"], ["a"]], ["y"], "regression")


def test_labels_to_be_judged_by_may_be_alike():
    assert read_labels([["3"], ["3"]], ["y"], "regression", learnable=False).y.tolist() == [
        [3],
        [3],
    ]
    assert read_labels([["1"]], ["y"], "classification", learnable=False).y.tolist() == [[1]]


def test_targets_of_two_tasks():
    with pytest.raises(ValueError, match="they are a: regression, b: classification"):
        read_labels([["0.5", "0"], ["1.5", "1"]], ["a", "b"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("CCF,1,008,2", "'1,008' in column 'a' looks like one number"),
        ("CCF,3,1,25", "looks like one number"),
        ("CCF,1,2,note", ""),  # this row has two labels and one cell too many
        ("CCF,1,2,3,4", ""),
    ],
)
def test_a_number_that_the_separator_cuts_is_an_error(tmp_path, row, message):
    path = tmp_path / "a.csv"
    path.write_text("smiles,a,b\n" + "".join(f"{s},{n},{n}\n" for n, s in enumerate(SMILES)) + row)
    if message:
        with pytest.raises(ValueError, match=message):
            read_source(str(path), "smiles", ["a", "b"], "auto")
        return
    source = read_source(str(path), "smiles", ["a", "b"], "auto")
    assert [bad.row for bad in source.bad] == [30]


def test_settings_come_back_from_their_file(tmp_path):
    options = {"data": "a.csv", "target": ("y", "z"), "epochs": 7, "split": "scaffold",
               "model": "attention", "encoding": "latin-1", "decimal": ",", "thousands": ".",
               "censored": "drop", "unit": "nM", "skip_bad_labels": True}  # fmt: skip
    settings = override(None, options)
    write_toml(tmp_path / "config.toml", settings)
    assert read_toml(RunSettings, tmp_path / "config.toml") == settings
    again = override(tmp_path / "config.toml", {"epochs": 8, "coverage": 0.8})
    assert (again.model.epochs, again.model.model) == (8, "attention")
    assert (again.coverage, again.split, again.target) == (0.8, "scaffold", ("y", "z"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "unknown setting epoch"),
        ({"split": "magic"}, "split must be"),
        ({"coverage": 1.0}, "coverage"),
        ({"tune": -1}, "tune"),
        ({"workers": 0}, "workers"),
        ({"seed": 2**70}, "seed must be a whole number, at least 0 and at most 2147483647"),
        ({"target": ("y",)}, "without DATA"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands must be different signs"),
        ({"data": "a.csv", "target": ("y", "y")}, "listed once"),
        ({"heads": 7}, "must divide width"),
        ({"tune": 2, "width": 96}, "tune searches width among 64, 128, 256 .*; got 96"),
        ({"tune": 2, "layers": 1}, "tune searches layers from 2 to 6 .*; got 1"),
        ({"tune": 2, "width": 128, "heads": 128}, "which heads must divide; got heads 128"),
    ],
)
def test_settings_that_cannot_be(options, message):
    with pytest.raises(ValueError, match=message):
        override(None, options)


def test_a_search_goes_on_where_it_was_left(tmp_path):
    pytest.importorskip("optuna")
    small = {"epochs": 1, "width": 64, "layers": 2, "heads": 8}
    estimator = MoleculeRegressor(**small, model="attention")
    labelled = estimator.read(SMILES, np.arange(30.0))
    train, val = labelled[torch.arange(24)], labelled[torch.arange(24, 30)]
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    whole.mkdir()
    parted.mkdir()
    lines = []
    best = tune(estimator, train, val, 3, whole, lines.append)
    assert set(best) == {"width", "layers", "dropout", "learning_rate"}
    assert [line.split(":")[0] for line in lines[:3]] == [f"trial {n} of 3" for n in (1, 2, 3)]
    tune(estimator, train, val, 1, parted)
    again = []
    assert tune(estimator, train, val, 3, parted, again.append) == best
    assert again == lines[1:]
    path = whole / "tuning.json"
    path.write_text(path.read_text().replace('"layers": ', '"layers": 1'))
    with pytest.raises(RunError, match=r"tuning\.json was changed .*: remove it"):
        tune(estimator, train, val, 3, whole)


@pytest.mark.parametrize("cell", ["(0.3)", "$1.0", "1_006", "1e 3", "1.2D-3", "10\u00b3"])
def test_one_label_of_odd_digits_among_many_is_an_error(cell):
    cells = [[f"{i / 7:.3f}"] for i in range(110)] + [[cell]]
    with pytest.raises(ValueError, match=r"column 'y': 1 label .*: write plain numbers"):
        read_labels(cells, ["y"])
    assert read_labels(cells, ["y"], skip_bad=True).y.shape == (111, 1)


def test_two_whole_numbers_as_labels_are_noted():
    labels = read_labels([[str(1 + i % 2)] for i in range(40)], ["y"])
    assert labels.task == "regression"
    assert any("--task classification reads them as two classes" in note for note in labels.notes)
