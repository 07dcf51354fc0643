"""Descriptor columns of the user: reading, standardisation, effect on every part of a model."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import cross_val_score

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.descriptor_columns import DescriptorColumns, split_descriptors
from gattn.apps.molecules.explanations import write_explanations
from gattn.apps.molecules.inputs import DescribedInputs, featurise, make_pieces
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.run.model_io import read_model
from gattn.apps.tables.csv_table import TableRow, open_table
from gattn.apps.tables.numbers import NumberFormat
from tests.apps.cli.molecule_table import read_rows

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
def test_every_model_reads_the_columns(model):
    estimator = fitted(model, **(LONG if model != "gp" else {}))
    moved = TABLE.assign(heat=TABLE.heat + 20)
    rise = estimator.predict(moved) - estimator.predict(TABLE)
    assert estimator.descriptors_columns_ == ["heat", "pH"]
    assert rise.mean() > 0.5  # The true difference is 1.


def test_only_the_order_of_values_matters_and_not_their_unit(gp):
    scaled = TABLE.assign(heat=1e6 * TABLE.heat - 5)
    other = MoleculeRegressor(**TINY, model="gp").fit(scaled, Y)
    assert np.allclose(other.predict(scaled), gp.predict(TABLE), atol=1e-6)


def test_a_missing_value_is_the_mean_of_the_training_part():
    inputs = featurise(SMILES).inputs
    predictor = fitted().predictor_
    mean = predictor.state()[0]["extra_mean"]
    both = [
        DescribedInputs(inputs, torch.stack([column, torch.full((48,), 7.0).double()], 1))
        for column in (torch.full((48,), torch.nan).double(), mean[0].expand(48))
    ]
    first, second = (predictor.predict(each).mean for each in both)
    assert torch.equal(first, second)


def test_a_column_without_values_changes_nothing(gp):
    empty = TABLE.assign(pH=np.nan)
    with_empty = MoleculeRegressor(**TINY, model="gp").fit(empty, Y).predict(empty)
    assert np.isfinite(with_empty).all()


def test_saved_models_need_the_same_columns(gp, tmp_path):
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


def test_classes_validation_and_scikit_learn():
    model = MoleculeClassifier(**TINY, model="gp")
    scores = cross_val_score(model, TABLE, Y > 0, cv=3, scoring="roc_auc")
    assert scores.mean() > 0.9
    held_out = TABLE.smiles.str.len() > 6
    validation = (TABLE[held_out], Y[held_out] > 0)
    model.fit(TABLE[~held_out], Y[~held_out] > 0, validation=validation)
    assert model.score(*validation) > 0.7


def test_embeddings_describe_the_molecule_alone():
    network = fitted("attention", **LONG)
    assert np.array_equal(network.embed(TABLE), network.embed(SMILES))


def test_a_bad_smiles_keeps_the_other_rows_with_their_values(gp):
    broken = TABLE.copy()
    broken.loc[3, "smiles"] = "C1CC"
    with pytest.warns(UserWarning, match="1 SMILES could not be read"):
        predicted = gp.predict(broken)
    expected = gp.predict(TABLE)
    assert np.isnan(predicted[3])
    assert np.allclose(np.delete(predicted, 3), np.delete(expected, 3))


def test_pieces_share_the_values_among_processes():
    rows = [(text, [float(i)]) for i, text in enumerate(["C", "C1CC", "CC", "CCC"])]
    pieces = make_pieces(
        lambda inputs: inputs.extra_descriptors.flatten().tolist(), rows,
        smiles=lambda row: row[0], descriptors=lambda row: row[1], columns=1, chunk=3,
    )  # fmt: skip
    assert [piece.result for piece in pieces] == [[0.0, 2.0], [3.0]]
    (empty,) = make_pieces(
        lambda inputs: inputs.extra_descriptors.shape, [],
        smiles=lambda row: row[0], descriptors=lambda row: row[1], columns=2,
    )  # fmt: skip
    assert empty.result == (0, 2)


@pytest.mark.parametrize("model", ["attention", "gp", "stacked"])
def test_explanations_give_the_contribution_of_each_column(model, tmp_path):
    estimator = fitted(model, **(LONG if model != "gp" else {}))
    rows = TABLE[:2]
    explained = estimator.explain(rows)
    centre = TABLE.assign(heat=np.nan)[:2]
    expected = estimator.predict(rows) - estimator.predict(centre)
    assert [float(e.descriptors[0]) for e in explained] == pytest.approx(list(expected), abs=1e-6)
    masked = estimator.explain(rows, method="masking")
    assert [e.prediction for e in masked] == pytest.approx(list(estimator.predict(rows)), abs=1e-6)
    write_explanations(tmp_path, [0, 1], {"a": explained}, columns=["heat", "pH"], pictures=0)
    table = read_rows(tmp_path / "descriptors.csv")
    assert [(row["row"], row["descriptor"]) for row in table[:2]] == [("0", "heat"), ("0", "pH")]


def test_cells_of_a_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('smiles,T,pH\nC,"25,5",7\nCC,,7\nCCC,warm,7\nCCCC,1e999,7\nC,1\n')
    table = open_table(path)
    columns = DescriptorColumns.of(table, ["T"], NumberFormat(decimal=",", censored="bound"))
    rows = list(columns.checked(table.rows()))
    assert columns.values(rows[0]) == [25.5]
    assert np.isnan(columns.values(rows[1])).all()
    assert [row.problem for row in rows] == [
        "", "", "T must be a finite number or empty; it is 'warm'",
        "T must be a finite number or empty; it is '1e999'", "2 cells but the header has 3",
    ]  # fmt: skip
    assert columns.read(TableRow(1, ["C", ">5", "7"]))[1]
    nothing = DescriptorColumns.of(table, [], NumberFormat())
    assert list(nothing.checked(table.rows())) == list(table.rows())


def test_tables_of_smiles_alone_have_no_descriptors():
    for table in (SMILES, np.array(SMILES), np.array(SMILES)[:, None], TABLE[["smiles"]]):
        _, values, names = split_descriptors(table)
        assert (values.shape, names) == ((0, 0), [])


def test_values_far_outside_of_the_training_range_are_named(tmp_path):
    training = TABLE.assign(empty=np.nan)
    estimator = MoleculeRegressor(**TINY, model="gp").fit(training, Y)
    low, high = HEAT.min(), HEAT.max()
    width = high - low
    values = torch.tensor([[low - width, 7, 1], [300.0, 1e3, 1], [np.nan] * 3])
    flags = estimator.predictor_.outside(values).tolist()
    assert flags == [[True, False, False], [False, True, False], [False] * 3]
    estimator.save(tmp_path / "model")
    table = tmp_path / "new.csv"
    table.write_text("smiles,heat,pH,empty\nCCO,1e4,1e3,\nCCO,300,7,\nxx,1e4,7,\n")
    predict_table(tmp_path / "model", table, tmp_path / "out.csv", workers=1)
    rows = read_rows(tmp_path / "out.csv")
    assert [row["outside"] for row in rows] == ["heat|pH", "", ""]
    assert rows[2]["error"]
