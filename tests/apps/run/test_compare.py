"""Tests of the comparison of runs on the same test rows."""

import csv
import hashlib
import json

import numpy as np
import pytest
import torch

from gattn.apps.run.compare import compare_runs, differences_plot
from gattn.apps.run.model_io import RunError, write_model

LABELS = np.random.default_rng(0).normal(size=200)


def write_run(folder, errors, labels=LABELS, task="regression", column="measured"):
    folder.mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps({"task": task}))
    path = folder / "predictions.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "part", column, "prediction"])
        writer.writerow([999, "val", labels[0], labels[1]])
        for row, (label, error) in enumerate(zip(labels, errors)):
            writer.writerow([row, "test", label, error if task != "regression" else label + error])
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    write_model(folder, {"a": torch.zeros(1)}, {}, files)
    return folder


def test_comparison_reports_difference_interval_and_p_value_of_model_errors(tmp_path):
    random = np.random.default_rng(1)
    noise = random.normal(size=200)
    runs = [
        write_run(tmp_path / name, size * noise + shift)
        for name, size, shift in (("a", 1, 0), ("b", 1.2, 0), ("c", 1, 0))
    ]
    first, worse, same = compare_runs(runs)
    rmse = np.sqrt(np.square(noise).mean())
    assert first.error == pytest.approx(rmse)
    assert worse.difference == pytest.approx(0.2 * rmse)
    assert 0 < worse.low < worse.difference < worse.high
    assert worse.p < 1e-6
    assert (same.difference, same.p) == (0, 1)
    rows = [(one.run[-1], *one[3:6]) for one in (worse, same)]
    assert differences_plot("a", rows).startswith(b"\x89PNG")


def test_comparison_of_cross_validations_has_the_corrected_variance(tmp_path):
    for run, offset in (("a", np.zeros(5)), ("b", np.array([0.1, 0.2, 0.1, 0.2, 0.15]))):
        for fold in range(5):
            write_run(tmp_path / run / f"fold-{fold}", np.full(200, 1 + offset[fold]))
    first, other = compare_runs([tmp_path / "a", tmp_path / "b"])
    assert (first.error, other.error) == pytest.approx((1, 1.15))
    each = np.array([0.1, 0.2, 0.1, 0.2, 0.15])
    half = 2.776445 * each.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    assert other.difference == pytest.approx(each.mean())
    assert other.low == pytest.approx(each.mean() - half, rel=1e-5)
    assert other.p == pytest.approx(0.011056, rel=1e-3)


def test_comparison_of_classifiers_reports_the_fraction_of_wrong_predictions(tmp_path):
    labels = np.array(["x", "y"] * 100)
    wrong = np.where(np.arange(200) < 50, "z", labels)
    arguments = {"labels": labels, "task": "classification", "column": "label"}
    right = write_run(tmp_path / "a", labels, **arguments)
    other = write_run(tmp_path / "b", wrong, **arguments)
    assert [one.error for one in compare_runs([right, other])] == [0, 0.25]


def test_comparison_of_missing_changed_or_incomparable_models_raises_error(tmp_path):
    zeros = np.zeros(200)
    first, other = (
        write_run(tmp_path / name, zeros, labels)
        for name, labels in (("a", LABELS), ("b", LABELS + 1))
    )
    with pytest.raises(ValueError, match="different test parts"):
        compare_runs([first, other])
    with pytest.raises(ValueError, match="at least two runs"):
        compare_runs([first])
    with pytest.raises(RunError, match="contains no run"):
        compare_runs([first, tmp_path / "missing"])
    (other / "predictions.csv").write_text("changed")
    with pytest.raises(RunError, match="was changed"):
        compare_runs([first, other])
    (other / "predictions.csv").unlink()
    with pytest.raises(RunError, match="reads runs of molecules and of nodes"):
        compare_runs([first, other])
