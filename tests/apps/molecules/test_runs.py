"""Steps of a run: labels from cells, settings from files, splits, search over settings."""

import re

import numpy as np
import pytest

from gattn.apps.molecules.runs.config import RunSettings, override
from gattn.apps.molecules.runs.labels import read_labels
from gattn.apps.molecules.runs.source import read_source

SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]


def test_task_auto_is_inferred_from_the_labels():
    for cells, setting, task, y in (
        (["0", "1", ""], "auto", "classification", [0, 1, None]),
        (["yes", "no", "yes"], "auto", "classification", ["yes", "no", "yes"]),
        (["<10", ">=10", "<10"], "auto", "classification", ["<10", ">=10", "<10"]),
        (["0", "1", "2"], "auto", "regression", [0.0, 1.0, 2.0]),
        (["5", "6", "n/a"], "auto", "regression", [5.0, 6.0, None]),
        (["1", "2", "1"], "classification", "classification", [1, 2, 1]),
        (["1_0", "2_0", "1_0"], "classification", "classification", ["1_0", "2_0", "1_0"]),
    ):
        labels = read_labels([[cell] for cell in cells], ["y"], setting)
        assert labels.task.name == task
        values = [None if value is None or value != value else value for value in labels.y[:, 0]]
        assert values == y
        assert labels.problems == [""] * 3


MANY = [str(n + 0.5) for n in range(40)]


def test_labels_that_are_not_plain_numbers_raise_error_unless_skipped():
    for extra, message in (
        (["1,008"], "1 label with another decimal or .*, for example '1,008' in line 41 .use"),
        (["3,25"], r"1 label with another decimal .* Write plain numbers: .* would bias the"),
        ([">10", "<0.5"], "for example '>10' in line 41. --loss-function bounded-mse trains on"),
        (["3.2 nM", "3.2 ± 0.1", "3-Dec-20"], "3 labels .*'3.2 nM' in line 41 .write a plain"),
        (["[0.1, 2]"], r"'\[0.1, 2\]' in line 41 .*--atom-target and --bond-target read lists"),
        (["inf"], "must be finite; it is 'inf' in line 41"),
        (["see note", "see note", "other"], "3 of 43 labels are texts, for example 'see note' in"),
    ):
        cells = [[cell] for cell in [*MANY, *extra]]
        with pytest.raises(ValueError, match=message):
            read_labels(cells, ["y"])
        labels = read_labels(cells, ["y"], skip_bad=True)
        assert labels.counts["y"]["left_out"] == len(extra) == len(labels.lost)
        assert np.isnan(labels.y[40:]).all()
        assert np.isfinite(labels.y[:40]).all()


def test_text_labels_in_one_of_several_targets_are_left_out():
    cells = [[c, "see note" if i % 4 == 0 else c] for i, c in enumerate(MANY)]
    labels = read_labels(cells, ["a", "b"])
    assert labels.problems == [""] * 40
    assert np.isfinite(labels.y[:, 0]).all()
    assert [labels.counts[name]["left_out"] for name in "ab"] == [0, 10]
    with pytest.raises(ValueError, match="column 'b': 10 of 40 labels are texts"):
        read_labels([[b] for _, b in cells], ["b"])
    # A column with several different texts is an error, because they do not mark one kind of row.
    cells[0][1] = "other"
    with pytest.raises(ValueError, match="column 'b': 10 of 40 labels are texts"):
        read_labels(cells, ["a", "b"])


@pytest.mark.parametrize(
    "words", [["inconclusive"], ["n.d.", "n.d."], ["?"], ["see note", "TRUE"], ["inconclusive"] * 9]
)
def test_labels_of_zero_one_and_texts_raise_error_that_asks_for_the_task(words):
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


def test_labels_that_do_not_fit_the_task_raise_error_that_describes_them():
    for cells, task, message in (
        (["0", "1", "2"] * 4, "classification", r"it has 3: 0 \(4 labels, first in line 1\), 1"),
        (["yes", "no", "maybe"] * 4, "classification", r"3: 'maybe' \(4 labels, first in line 3"),
        ([*["yes", "no"] * 4, "maybe"], "auto", "'maybe'; for classes use --task multiclass"),
        (["none", "toxic"] * 4, "classification", "'none' in 4 cells: read as missing values, so"),
        (["none", "toxic"] * 4, "auto", "it has 1: 'toxic' .*'none' in 4 cells: read as missing"),
        (["1", "1"], "auto", "two different labels or more; it has 1: 1"),
        (["3", "3"], "auto", "labels or more; every label is 3"),
        (["2", "1e200"], "auto", "must be finite; it is '1e200' in line 2, beyond float32"),
        (["a", "b", "c"], "auto", "no numbers: 'a', 'b', 'c'; for classes use --task multiclass"),
        (["a", "b", "a"], "regression", "'a', 'b'; for classes use --task classification"),
    ):
        with pytest.raises(ValueError, match=message):
            read_labels([[cell] for cell in cells], ["y"], task)


def test_words_that_are_read_as_missing_classes_give_a_note():
    labels = read_labels([[c] for c in ["active", "inactive", "NA", "none"] * 3], ["y"])
    assert labels.task.name == "classification"
    assert labels.notes == (
        "Column 'y': 'NA' in 3 cells, 'none' in 3 cells: read as missing values, not as a class.",
    )
    assert labels.counts["y"] == {"read": 6, "missing": 6, "left_out": 0, "censored": 0}


def test_equal_labels_are_accepted_for_an_evaluation():
    for cell, task in (("3", "regression"), ("1", "classification")):
        labels = read_labels([[cell], [cell]], ["y"], task, learnable=False)
        assert labels.y.tolist() == [[float(cell)], [float(cell)]]


def test_targets_of_numbers_and_classes_together_raise_error():
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
def test_row_whose_decimal_comma_splits_a_number_raises_error(tmp_path, row, message):
    path = tmp_path / "a.csv"
    path.write_text("smiles,a,b\n" + "".join(f"{s},{n},{n}\n" for n, s in enumerate(SMILES)) + row)
    settings = RunSettings(data=str(path), target=("a", "b"))
    if message:
        with pytest.raises(ValueError, match=message):
            read_source(settings)
        return
    source = read_source(settings)
    assert [bad.row for bad in source.bad] == [30]


def test_invalid_settings_of_molecule_training_raise_error():
    for options, message in (
        ({"epoch": 3}, "unknown setting epoch"),
        ({"seed": 2**70}, "seed must be a whole number, at least 0 and at most 2147483647"),
        ({"target": ("y",)}, "without DATA"),
        ({"data": "a.csv", "target": ("y", "y")}, "listed once"),
        ({"heads": 7}, "must divide width"),
    ):
        with pytest.raises(ValueError, match=message):
            override(None, options)
