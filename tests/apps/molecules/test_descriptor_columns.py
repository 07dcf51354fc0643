"""Descriptor columns of the user: reading, standardisation, effect on every part of a model."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.inputs import featurise
from gattn.apps.run.model_io import read_model

TINY: dict[str, Any] = {"epochs": 2, "width": 16, "heads": 2, "layers": 1}
SMILES = [f"{'C' * (1 + n % 8)}{'ON'[n % 2]}" for n in range(48)]
HEAT = np.random.default_rng(0).normal(300.0, 20.0, 48)
LONG = {"epochs": 40, "batch_size": 8, "learning_rate": 1e-2}
PH = np.random.default_rng(1).normal(7.0, 2.0, 48)
TABLE = pd.DataFrame({"smiles": SMILES, "heat": HEAT, "pH": PH})
Y = (HEAT - 300) / 20


@cache
def fitted(model="gp", **options):
    return MoleculeRegressor(**{**TINY, **options}, model=model).fit(TABLE, Y)


@pytest.fixture(scope="module")
def gp():
    return fitted()


@pytest.mark.parametrize("model", ["stacked", "attention", "gp"])
def test_predictions_of_every_model_depend_on_descriptor_columns(model):
    estimator = fitted(model, **(LONG if model != "gp" else {}))
    moved = TABLE.assign(heat=TABLE.heat + 20)
    rise = estimator.predict(moved) - estimator.predict(TABLE)
    assert estimator.descriptors_columns_ == ["heat", "pH"]
    assert rise.mean() > 0.5  # The true difference is 1.


def test_unit_of_a_descriptor_column_does_not_change_predictions(gp):
    scaled = TABLE.assign(heat=1e6 * TABLE.heat - 5)
    other = MoleculeRegressor(**TINY, model="gp").fit(scaled, Y)
    assert np.allclose(other.predict(scaled), gp.predict(TABLE), atol=1e-6)


def test_loaded_model_raises_error_for_other_descriptor_columns(gp, tmp_path):
    gp.save(tmp_path / "model")
    loaded = MoleculeRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(TABLE), gp.predict(TABLE))
    assert read_model(tmp_path / "model")[1]["descriptors_columns"] == ["heat", "pH"]
    for rows, message in (
        (SMILES, "needs the descriptor columns heat, pH after .*; got SMILES alone"),
        (TABLE[["smiles", "pH", "heat"]], "in this order; got pH, heat"),
        (TABLE.assign(heat="warm"), "heat, pH.* must contain numbers.*row 0, column 0 is .warm'"),
        (TABLE.assign(heat=np.inf), "heat, pH.*row 0, column 0 is inf"),
    ):
        with pytest.raises(ValueError, match=message):
            loaded.predict(rows)
    with pytest.raises(ValueError, match="reads the descriptor columns heat, pH; got no desc"):
        next(loaded.predictions(SMILES))
    with pytest.raises(ValueError, match="trained with 2 descriptor columns; got 0"):
        loaded.predictor_.predict(featurise(SMILES).inputs)
    alone = MoleculeRegressor(**TINY, model="gp").fit(SMILES, Y)
    with pytest.raises(ValueError, match="SMILES alone; got the descriptor columns heat"):
        alone.predict(TABLE)
    assert loaded.predict([]).shape == (0,)
