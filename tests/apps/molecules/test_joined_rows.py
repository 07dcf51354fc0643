"""Models of rows with several molecules, with and without an order."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.row_format import RowFormat

PAIR = RowFormat(molecules=2)
TINY: dict[str, Any] = {"epochs": 2, "width": 16, "heads": 2, "layers": 1, "trees": 10}
SOLVENTS = ["O", "CCO", "c1ccccc1", "CC#N"]
SOLUTES = ["C" * n + end for n in range(1, 9) for end in ("", "O")]
ROWS = [(solute, solvent) for solvent in SOLVENTS for solute in SOLUTES]
Y = np.array([len(a) + 3.0 * SOLVENTS.index(b) for a, b in ROWS])
TEXTS = [f"{a} + {b}" for a, b in ROWS]


@cache
def fitted(**settings) -> MoleculeRegressor:
    return MoleculeRegressor(molecules_per_row=2, **{**TINY, **settings}).fit(ROWS, Y)


def test_row_of_two_molecules_is_one_graph_with_both_molecules():
    joined = featurise(["CO + c1ccccc1", "N + O"], row_format=PAIR).inputs
    single = featurise(["CO", "c1ccccc1", "N", "O"]).inputs
    assert joined.molecule_sizes is not None
    assert joined.molecule_sizes.tolist() == [[2, 6], [1, 1]]
    assert joined.molecules.smiles == ["CO + c1ccccc1", "N + O"]
    graphs, parts = joined.molecules.arrays, single.molecules.arrays
    x, edge_index, edge_attr = graphs.one(0)
    (x1, edges1, attr1), (x2, edges2, attr2) = parts.one(0), parts.one(1)
    assert torch.equal(x, torch.cat([x1, x2]))
    assert torch.equal(edge_index, torch.cat([edges1, edges2 + 2], 1))
    assert torch.equal(edge_attr, torch.cat([attr1, attr2]))
    assert torch.equal(joined.counts[0], single.counts[:2].flatten())
    assert torch.equal(joined.descriptors, single.descriptors.reshape(2, -1))
    batch = batch_inputs(joined)
    assert batch.ptr.tolist() == [0, 2, 8, 9, 10]
    assert batch.batch.tolist() == [0] * 2 + [1] * 6 + [2, 3]
    assert torch.equal(joined[[1]].molecules.arrays.x, graphs.x[8:])
    assert len(joined[:0].molecules) == 0
    assert joined[:0].counts.shape == (0, 4096)


def test_invalid_molecule_of_a_pair_leaves_out_only_its_row():
    parsed = featurise(["C + O", "C1CC + O", "C + ", "C", ""], row_format=PAIR)
    assert parsed.row_index.tolist() == [0]
    messages = ["molecule 1: not valid SMILES", "molecule 2: the SMILES is empty", "has 1"]
    for error, message in zip(parsed.errors[1:], [*messages, "is empty"], strict=True):
        assert message in error


def test_loaded_model_of_two_molecules_gives_the_same_predictions_as_the_saved_model(tmp_path):
    model = fitted(model="gp")
    assert model.score(ROWS, Y) > 0.99
    model.save(tmp_path / "model")
    loaded = MoleculeRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(ROWS), model.predict(ROWS))
    network = fitted(model="attention")
    network.save(tmp_path / "network")
    again = MoleculeRegressor.load(tmp_path / "network")
    assert np.array_equal(again.predict(ROWS), network.predict(ROWS))
    assert again.predictor_.molecules == 2
    assert again.embed(ROWS[:3]).shape == (3, 2 * 5 * 16)


def test_predict_reads_rows_of_two_molecules_from_tuples_frames_arrays_or_texts():
    model = fitted(model="gp")
    expected = model.predict(ROWS)
    frame = pd.DataFrame(ROWS, columns=["solute", "solvent"])
    for rows in (frame, frame.to_numpy(), TEXTS, list(map(list, ROWS))):
        assert np.array_equal(model.predict(rows), expected)
    with pytest.raises(ValueError, match="trained on SMILES alone"):
        model.predict(frame.assign(T=300.0))
    with_heat = MoleculeRegressor(molecules_per_row=2, model="gp").fit(
        frame.assign(T=np.arange(64.0)), Y
    )
    assert with_heat.descriptors_columns_ == ["T"]
    assert np.isfinite(with_heat.predict(frame.assign(T=3.0))).all()


@pytest.mark.bits
@pytest.mark.usefixtures("uneven_products")
def test_ignore_stereo_gives_stereoisomers_the_same_prediction():
    texts = ["C[C@H](N)O", "C[C@@H](N)O", "CC(N)O"]
    model = MoleculeRegressor(ignore_stereo=True, **TINY).fit(SOLUTES, np.arange(16))
    assert len(set(model.predict(texts))) == 1
    assert len(set(MoleculeRegressor(**TINY).fit(SOLUTES, np.arange(16)).predict(texts))) > 1
