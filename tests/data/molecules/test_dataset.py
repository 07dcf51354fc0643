"""Molecules: features match their names, and every bad row is reported."""

import math

import numpy as np
import pytest
import torch
import torch.utils.data
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_smiles

from gattn.data import (
    ATOM_FEATURES,
    BOND_FEATURES,
    Molecules,
    batch_molecules,
    read_smiles,
    smiles_to_data,
)

AWKWARD = ["C", "[Na+].[Cl-]", "[13CH3]O", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", r"F/C=C/F"]
AWKWARD += [r"F/C=C\F", "c1ccc2[nH]ccc2c1", "[O-][N+](=O)c1ccccc1", "C#N", "FS(F)(F)(F)(F)F"]
AWKWARD += ["FP(F)(F)(F)F", "[U]", "*C", "CC[Hg]C", "[H][H]", "N->[Cu]"]


@pytest.mark.parametrize("smiles", AWKWARD)
def test_numbers_of_atoms_and_bonds_equal_those_of_pyg(smiles):
    graph, theirs = smiles_to_data(smiles), from_smiles(smiles)
    assert graph.x.shape == (theirs.num_nodes, len(ATOM_FEATURES))
    assert graph.edge_attr.shape == (theirs.num_edges, len(BOND_FEATURES))
    ours = {tuple(edge) for edge in graph.edge_index.t().tolist()}
    assert ours == {tuple(edge) for edge in theirs.edge_index.t().tolist()}
    assert torch.equal(graph.edge_index[:, ::2], graph.edge_index[:, 1::2].flip(0))
    assert torch.equal(graph.edge_attr[::2], graph.edge_attr[1::2])


@pytest.mark.parametrize("smiles", AWKWARD)
def test_each_one_hot_feature_has_exactly_one_value(smiles):
    graph = smiles_to_data(smiles)
    for names, rows in ((ATOM_FEATURES, graph.x), (BOND_FEATURES, graph.edge_attr)):
        assert len(set(names)) == len(names) == rows.shape[1]
        fields = {name.partition("=")[0] for name in names if "=" in name}
        assert fields
        for field in fields:
            columns = [i for i, name in enumerate(names) if name.startswith(f"{field}=")]
            assert (rows[:, columns].sum(1) == 1).all(), field


ATOMS = st.sampled_from(["C", "N", "O", "F", "Cl", "[nH]", "[Se]", "[Fe+2]", "c1ccccc1", "C(=O)"])


@settings(max_examples=60, deadline=None)
@given(st.lists(ATOMS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_features_of_a_molecule_do_not_depend_on_the_order_of_atoms(parts, random):
    molecule = Chem.MolFromSmiles(".".join(parts))
    if molecule is None:
        molecule = Chem.MolFromSmiles("CCO")
    order = list(range(molecule.GetNumAtoms()))
    random.shuffle(order)
    graphs = [
        smiles_to_data(Chem.MolToSmiles(m, canonical=False))
        for m in (molecule, Chem.RenumberAtoms(molecule, order))
    ]
    rows = [np.array(sorted(graph.x.tolist())) for graph in graphs]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert graphs[0].edge_index.shape == graphs[1].edge_index.shape
    bonds = [np.array(sorted(graph.edge_attr.tolist())) for graph in graphs]
    np.testing.assert_array_equal(bonds[0], bonds[1])


@pytest.mark.parametrize(
    ("smiles", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("C C", "a cell must contain one molecule"),
        ("C1CC", "not valid SMILES"),
        ("not a molecule", "it looks like a name"),
        ("CN(C)(C)(C)C", "valence for atom # 1 N"),
        ("c1cccc1", "kekulize"),
        ("C" * 1001, "1001 atoms are more than max_atoms=1000"),
        # RDKit would take minutes to parse this SMILES.
        ("c1ccccc1" * 2000, "12000 atoms are more than max_atoms=1000"),
        ("C\0C", r"the SMILES contains '\\x00'"),
        ("C–C", r"the SMILES contains '\\u2013'"),
        ("C\udcffC", r"the SMILES contains '\\udcff'"),
        ("C" * 1_000_000, "a text of 1000000 characters is too long for max_atoms=1000"),
        (None, "must be text"),
        (3.5, "must be text"),
    ],
)
def test_invalid_smiles_raises_error_with_its_reason(smiles, says, capfd):
    with pytest.raises(ValueError, match=says):
        smiles_to_data(smiles)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_molecules_above_max_atoms_or_a_max_atoms_of_zero_raise_error():
    assert len(smiles_to_data("C" * 1001, max_atoms=2000).x) == 1001
    assert len(smiles_to_data("[H]C([H])([H])[13CH2]Br", max_atoms=3).x) == 3
    with pytest.raises(ValueError, match="3 atoms are more than max_atoms=2"):
        smiles_to_data("CCC", max_atoms=2)
    for call in (smiles_to_data, lambda *a, **k: read_smiles([], **k)):
        with pytest.raises(ValueError, match="at least 1"):
            call("C", max_atoms=0)


def test_batch_of_molecules_equals_that_of_pyg():
    molecules = read_smiles(AWKWARD, range(len(AWKWARD)))
    ours, theirs = batch_molecules(molecules), Batch.from_data_list(molecules.graphs)
    for key in ("x", "edge_index", "edge_attr", "batch", "ptr", "y"):
        assert torch.equal(ours[key], theirs[key]), key
    assert ours.y.shape == (len(AWKWARD), 1)
    assert torch.equal(batch_molecules(molecules.graphs).y, theirs.y)
    chosen = [5, 0, 5, -1]
    theirs = Batch.from_data_list([molecules[i] for i in chosen])
    ours = batch_molecules(molecules[chosen])
    for key in ("x", "edge_index", "edge_attr", "batch", "ptr", "y"):
        assert torch.equal(ours[key], theirs[key]), key


def test_batch_of_objects_other_than_data_raises_error():
    with pytest.raises(TypeError, match="molecules must contain Data objects; got str"):
        batch_molecules(["CC"])


@pytest.fixture(scope="module")
def five():
    return read_smiles(["C", "CC", "CCC", "O", "CN"], [0, 1, None, 3, 4])


def test_integer_index_of_molecules_returns_a_pyg_data_object(five):
    for i in (0, 4, -1, np.int64(2), torch.tensor(3)):
        data, expected = five[i], smiles_to_data(five.smiles[i])
        assert isinstance(data, Data)
        assert data.smiles == five.smiles[i]
        for key in ("x", "edge_index", "edge_attr"):
            assert torch.equal(data[key], expected[key]), key
        assert data.y.shape == (1, 1)
    assert "y" not in read_smiles(["C"])[0]
    five[1].x.zero_()
    five[1].y.zero_()
    assert five[1].x.any()
    assert five[1].y == 1


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(1, None, 2), [1, 3]),
        (slice(None, None, -1), [4, 3, 2, 1, 0]),
        ([1, 3], [1, 3]),
        ([3, -5, 3], [3, 0, 3]),
        ((2,), [2]),
        (range(3), [0, 1, 2]),
        ([], []),
        (np.array([4, 1], np.int32), [4, 1]),
        (torch.tensor([4]), [4]),
        ([True, False, False, False, True], [0, 4]),
        (np.array([0, 0, 1, 0, 0], bool), [2]),
        (torch.zeros(5, dtype=torch.bool), []),
        (np.array([4, 3, 0])[::-1], [0, 3, 4]),
        *((np.array([3, 0], kind), [3, 0]) for kind in (np.uint8, np.uint64)),
    ],
    ids=str,
)
def test_slices_lists_and_masks_select_molecules_as_from_an_array(five, index, expected):
    chosen = five[index]
    assert isinstance(chosen, Molecules)
    assert chosen.smiles == [five.smiles[i] for i in expected]
    assert chosen.rows == tuple(expected)
    assert torch.equal(chosen.y.nan_to_num(-1), five.y[expected].nan_to_num(-1))
    for ours, i in zip(chosen, expected, strict=True):
        assert torch.equal(ours.x, five[i].x)
        assert torch.equal(ours.edge_index, five[i].edge_index)
        assert torch.equal(ours.edge_attr, five[i].edge_attr)


@pytest.mark.parametrize(
    ("index", "error", "says"),
    [
        (5, IndexError, "index 5 is out of range for 5 molecules"),
        (-6, IndexError, "index -6 is out of range"),
        ([0, 9], IndexError, "index 9 is out of range"),
        ([True], IndexError, "a mask must have 5 values, one for each molecule; got 1"),
        ("smiles", TypeError, "a slice, a list or a mask; got 'smiles'"),
        (1.5, TypeError, "got 1.5"),
        ([0.5], TypeError, "whole numbers or a mask; got torch.float32"),
        (torch.zeros(1, 1, dtype=torch.long), TypeError, r"one-dimensional; got shape \(1, 1\)"),
    ],
    ids=str,
)
def test_invalid_index_of_molecules_raises_error(five, index, error, says):
    with pytest.raises(error, match=says):
        five[index]


def test_molecules_can_be_split_by_torch_and_loaded_by_pyg(five):
    assert [data.smiles for data in five] == [data.smiles for data in five.graphs] == five.smiles
    train, test = torch.utils.data.random_split(five, [3, 2])
    assert sorted(data.smiles for part in (train, test) for data in part) == sorted(five.smiles)
    for source in (five, five.graphs, train):
        batch = next(iter(DataLoader(source, batch_size=3)))
        assert batch.num_graphs == len(batch.smiles) == len(batch.y) == 3
    batches = list(DataLoader(five, batch_size=2, num_workers=1))
    assert torch.equal(torch.cat([batch.x for batch in batches]), batch_molecules(five).x)


def test_missing_target_is_nan_and_masked():
    molecules = read_smiles(["C", "CC", "CCC"])
    y = torch.tensor([[1, math.nan], [math.nan, math.nan], [2, 3]])
    molecules = Molecules(molecules.smiles, molecules.arrays, y, ("a", "b"), molecules.rows)
    assert molecules.mask.tolist() == [[True, False], [False, False], [True, True]]
    labelled = molecules.labelled()
    assert labelled.smiles == ["C", "CCC"]
    assert int(labelled.mask.sum()) == 3
    batch = batch_molecules(labelled)
    assert torch.equal(batch.y.isfinite(), labelled.mask)
