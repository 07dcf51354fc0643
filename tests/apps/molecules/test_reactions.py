"""Condensed graphs of reaction, and the fingerprints and descriptors of reactions."""

import re

import numpy as np
import pytest
import torch
from torch import Tensor

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.inputs import featurise, mapped_atoms
from gattn.apps.molecules.row_format import RowFormat
from gattn.data import ATOM_FEATURES, BOND_FEATURES

FORMAT = RowFormat(reaction=True)
SWAP = "[CH3:1][Br:2].[OH-:3]>>[CH3:1][OH:3].[Br-:2]"
d, b = len(ATOM_FEATURES), len(BOND_FEATURES)


def graph_of(text: str, row_format: RowFormat = FORMAT) -> tuple[Tensor, Tensor, Tensor]:
    return featurise([text], row_format=row_format).inputs.molecules.arrays.one(0)


def edges_of(edge_index: Tensor) -> set[tuple[int, ...]]:
    return set(map(tuple, edge_index.t().tolist()))


def test_mapped_atoms_of_a_reaction_are_one_node_with_bonds_of_both_sides():
    x, edge_index, edge_attr = graph_of(SWAP)
    assert x.shape == (3, 2 * d)
    assert edges_of(edge_index) == {(0, 1), (1, 0), (0, 2), (2, 0)}
    sides = featurise(["CBr.[OH-]", "CO.[Br-]"]).inputs.molecules.arrays
    (before, _, bond), (after, _, other) = sides.one(0), sides.one(1)
    order = [0, 2, 1]  # These are the nodes of the atoms of the products.
    assert torch.equal(x[:, :d], before)
    assert torch.equal(x[order, d:], after - before[order])
    broken, formed = (
        int((edge_index == torch.tensor([[0], [node]])).all(0).nonzero()) for node in (1, 2)
    )
    assert torch.equal(edge_attr[broken], torch.cat([bond[0], -bond[0]]))
    assert torch.equal(edge_attr[formed], torch.cat([torch.zeros(b), other[0]]))


def test_reaction_prediction_does_not_depend_on_map_numbers_or_order():
    model = MoleculeRegressor(reaction=True, model="attention", epochs=1, width=16, heads=2)
    model.fit(REACTIONS, np.arange(len(REACTIONS)))
    other = "[OH-:7].[Br:5][CH3:4]>>[Br-:5].[OH:7][CH3:4]"
    assert model.predict([SWAP]) == pytest.approx(model.predict([other]), abs=1e-5)
    reverse = ">>".join(reversed(SWAP.split(">>")))
    assert model.predict([SWAP]) != pytest.approx(model.predict([reverse]), abs=1e-4)


def test_reaction_fingerprint_contains_reactants_and_their_change():
    inputs = featurise([SWAP], row_format=FORMAT).inputs
    left, right = featurise(["CBr.[OH-]", "CO.[Br-]"]).inputs.counts.short()
    counts = inputs.counts[0].short().reshape(3, -1)
    assert torch.equal(counts[0], left)
    assert torch.equal(counts[1] - counts[2], right - left)
    assert not (counts[1] * counts[2]).any()
    sides = featurise(["CBr.[OH-]", "CO.[Br-]"]).inputs.descriptors
    expected = torch.cat([sides[0], sides[1] - sides[0]])
    assert torch.equal(inputs.descriptors[0], expected)


def test_featurise_skips_only_rows_with_invalid_reactions():
    texts = {
        "C>>C": "no atom has the same map number",
        "[CH4:1]>>[NH3:1]": "atom map number 1 is C in the reactants, but N in the products",
        "[CH3:1][CH3:1]>>[CH4:1]": "atom map number 1 is used twice in the reactants",
        "[CH4:1]>>[CH3:1][CH3:1]": "atom map number 1 is used twice in the products",
        "[CH4:1]>>[CH4:1](": "products: not valid SMILES",
        "C(>>C)": "reactants: not valid SMILES.*; products: not valid SMILES",
    }
    parsed = featurise([SWAP, *texts], row_format=FORMAT)
    assert parsed.row_index.tolist() == [0]
    for error, expected in zip(parsed.errors[1:], texts.values()):
        assert re.search(expected, error), error


def test_mapped_hydrogens_of_a_reaction_are_counted_at_heavy_atoms_and_are_no_nodes():
    assert mapped_atoms("[H:1][CH2:2][13CH3:3]") == [("C", 2), ("C", 3)]
    text = "[H:1][CH3:2].[Cl:3]>>[H:1][Cl:3].[CH3:2]"
    parsed = featurise([text], row_format=FORMAT)
    assert parsed.errors == [""]
    assert len(parsed.inputs.molecules.arrays.x) == 2


def test_map_numbers_with_leading_zeros_or_many_digits_pair_atoms_of_a_reaction():
    text = "[H:1][CH3:002].[Cl:99999999999]>>[H:1][Cl:99999999999].[CH3:2]"
    parsed = featurise([text], row_format=FORMAT)
    assert parsed.errors == [""]
    assert len(parsed.inputs.molecules.arrays.x) == 2


REACTIONS = [
    f"[CH3:1]{'C' * n}[Br:2].[{x}-:3]>>[CH3:1]{'C' * n}[{x}:3].[Br-:2]"
    for n in range(12)
    for x in ("OH", "NH2", "SH")
]


def test_loaded_model_of_reactions_gives_the_same_predictions_as_the_saved_model(tmp_path):
    y = np.arange(len(REACTIONS), dtype=float)
    model = MoleculeRegressor(reaction=True, epochs=2, width=16, heads=2, add_h=True)
    model.fit(REACTIONS, y).save(tmp_path / "model")
    loaded = MoleculeRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(REACTIONS[:4]), model.predict(REACTIONS[:4]))
    assert model.embed(REACTIONS[:2]).shape == (2, 5 * 16)
    with pytest.raises(ValueError, match="this model reads reactions"):
        model.explain(REACTIONS[:1])
    gp = MoleculeRegressor(reaction=True, model="gp").fit(REACTIONS, y % 3)
    assert gp.score(REACTIONS, y % 3) > 0.95  # The label depends only on the nucleophile.
