"""Notes on a baseline that is better than the model, and on a coverage below its level."""

import math

import pytest

from gattn.apps.cli.console import show_metrics
from gattn.apps.run.notes import baseline_note, coverage_note


def measured(share, test=400, val=100, task="regression", **intervals):
    intervals = {"coverage": 0.9, "held": share, "mean_width": 1.0, **intervals}
    counts = {"test": test, "val": val}
    return {"task": task, "test": {"rmse": 1.0}, "intervals": intervals, "molecules": counts}


@pytest.mark.parametrize("other", [{"rmse": 0.8, "r2": 0.1}, {"rmse": 2.0, "r2": 0.6}])
def test_note_names_a_baseline_that_is_better_and_its_metric(other):
    (note,) = baseline_note({"rmse": 1.0, "r2": 0.5}, {"kernel_ridge": other})
    assert note.startswith("On the test part, ")
    metric = "RMSE" if other["rmse"] < 1 else "R²"
    assert f"a baseline is better: kernel ridge by {metric}" in note


@pytest.mark.parametrize("value", [1.0, 2.0, math.nan, None])
def test_model_without_a_better_baseline_gives_no_note(value):
    assert baseline_note({"rmse": 1.0, "r2": None}, {"mean": {"rmse": value, "r2": None}}) == []
    assert baseline_note({"rmse": 1.0}, {}) == []


@pytest.mark.parametrize(("share", "low"), [(0.9, False), (0.801, False), (0.799, True)])
def test_coverage_three_standard_errors_below_the_requested_coverage_gives_a_note(share, low):
    # 0.9 - 3 * sqrt(0.9 * 0.1 * (1 / 400 + 1 / 102)) = 0.8002
    assert bool(coverage_note(measured(share), "molecules")) == low


def test_coverage_of_few_labelled_rows_gives_no_note():
    # With 8 labelled rows, chance explains any such share; with 400 rows it does not.
    assert coverage_note(measured(0.6, rows=8), "molecules") == []
    assert coverage_note(measured(0.7, calibration_rows=3), "molecules") == []
    assert coverage_note(measured(math.nan, rows=0), "molecules") == []
    assert coverage_note({"molecules": {"test": 3}}, "molecules") == []


def test_terminal_shows_notes_on_baselines_and_coverage(capsys):
    metrics = measured(0.02) | {"baselines": {"kernel_ridge": {"rmse": 0.5}}}
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert "a baseline is better: kernel ridge by RMSE (0.500 against 1.00)." in output
    assert "The intervals contain 2.0% of the labels of the test part instead of 90%" in output
    show_metrics(measured(0.9) | {"baselines": {"mean": {"rmse": 5.0}}}, "molecules")
    output = capsys.readouterr().out
    assert "baseline" not in output
    assert "chance" not in output
