"""Tests of the weights of rows: their effect on every part of a model, and the column
of weights in a table.
"""

from typing import Any

import numpy as np
import pytest

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.runs.config import RunSettings, override
from gattn.apps.molecules.runs.source import error_weights, read_source
from gattn.apps.molecules.runs.stages import train_run

TINY: dict[str, Any] = {"epochs": 40, "width": 16, "heads": 2, "layers": 1, "trees": 10}
TINY |= {"batch_size": 8, "learning_rate": 1e-2}
SMILES = [f"{'C' * n}{end}" for n in range(1, 25) for end in "ON"]
LENGTH = np.array([float(len(text)) for text in SMILES])
WRONG = np.arange(len(SMILES)) % 3 == 0


def test_low_sample_weights_for_wrong_labels_lower_the_prediction_error():
    y = np.where(WRONG, 60.0, LENGTH)
    weights = np.where(WRONG, 1e-3, 1.0)
    plain = MoleculeRegressor(model="gp").fit(SMILES, y)
    careful = MoleculeRegressor(model="gp").fit(SMILES, y, sample_weight=weights)
    errors = [np.abs(each.predict(SMILES) - LENGTH).mean() for each in (plain, careful)]
    assert errors[1] < 0.4 * errors[0]
    scaled = MoleculeRegressor(model="gp").fit(SMILES, y, sample_weight=8 * weights)
    assert np.allclose(scaled.predict(SMILES), careful.predict(SMILES))


def test_fit_accepts_sample_weights_with_limits_or_a_validation_set(tmp_path):
    weights = np.linspace(0.5, 2, len(SMILES))
    limits = np.array([f">{y}" if y > 20 else y for y in LENGTH], dtype=object)
    short = {**TINY, "epochs": 4}
    bounds = MoleculeRegressor(**short, loss_function="bounded-mse")
    bounds.fit(SMILES, limits, sample_weight=weights).save(tmp_path / "model")
    loaded = MoleculeRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(SMILES), bounds.predict(SMILES))
    classes = [text[-1] for text in SMILES]
    classifier = MoleculeClassifier(**short).fit(
        SMILES[8:], classes[8:], sample_weight=weights[8:], validation=(SMILES[:8], classes[:8])
    )
    assert classifier.score(SMILES, classes) > 0.8


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0], r"must be \[48\]"), ([0.0] * 48, "above 0; row 0 is 0"), ([np.nan] * 48, "row 0 is")],
)
def test_invalid_sample_weights_raise_error(weights, message):
    with pytest.raises(ValueError, match=message):
        MoleculeRegressor(**TINY).fit(SMILES, LENGTH, sample_weight=weights)


def test_weight_column_is_read_and_rows_without_a_weight_are_left_out(tmp_path):
    table = tmp_path / "weights.csv"
    lines = [f"{s},{y},{1 + i % 2}" for i, (s, y) in enumerate(zip(SMILES, LENGTH))]
    table.write_text("\n".join(["smiles,y,w", *lines, "CCCCF,5,", "CCCCCF,6,0"]) + "\n")
    changes = {"data": str(table), "target": ("y",), "weight_column": "w", "skip_bad_labels": True}
    source = read_source(RunSettings(**changes))
    assert source.weights is not None
    assert source.weights[:3].tolist() == [1, 2, 1]
    rule = "w must be a number above 0; it is"
    assert [row.reason for row in source.bad] == [f"{rule} ''", f"{rule} '0'"]
    changes |= {**TINY, "epochs": 1, "workers": 1}
    metrics = train_run(override(None, changes), tmp_path / "run")
    assert metrics["molecules"]["left_out"] == 2


def test_weights_from_standard_errors_of_labels_lower_the_prediction_error():
    errors = np.where(WRONG, 20.0, 0.1)
    y = LENGTH + errors * np.random.default_rng(0).normal(size=len(SMILES))
    plain = MoleculeRegressor(model="gp").fit(SMILES, y)
    careful = MoleculeRegressor(model="gp").fit(SMILES, y, sample_weight=error_weights(y, errors))
    rmse = [np.sqrt(np.mean((each.predict(SMILES) - LENGTH) ** 2)) for each in (plain, careful)]
    assert rmse[1] < 0.5 * rmse[0]


def test_error_column_gives_weights_to_the_rows_of_one_target(tmp_path):
    table = tmp_path / "errors.csv"
    table.write_text("smiles,y,z,e,w\nC,0,1,0,1\nCC,10,2,1,2\nCCC,5,3,-1,1\nCCCC,5,4,,1\n")
    read = {"data": str(table), "error_column": "e", "skip_bad_labels": True}
    source = read_source(RunSettings(**read, target=("y",), weight_column="w"))
    assert source.weights is not None
    assert source.weights[0] == 1.0
    assert 0 < source.weights[1] < 2
    rule = "e must be a number of at least 0; it is"
    assert [row.reason for row in source.bad] == [f"{rule} '-1'", f"{rule} ''"]
    with pytest.raises(ValueError, match="errors e needs one target of numbers; got y, z"):
        read_source(RunSettings(**read, target=("y", "z")))
