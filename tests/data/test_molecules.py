"""Molecules: features that mean what their names say, and bad rows that are all reported."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from torch_geometric.data import Batch
from torch_geometric.utils import from_smiles

from gattn.data import (
    ATOM_FEATURES,
    BOND_FEATURES,
    batch_molecules,
    mol_graph,
    read_smiles,
)

AWKWARD = [
    "C",
    "[Na+].[Cl-]",
    "[2H]O[2H]",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    r"F/C=C/F",
    r"F/C=C\F",
    "c1ccc2[nH]ccc2c1",
    "[O-][N+](=O)c1ccccc1",
    "C#N",
    "FS(F)(F)(F)(F)F",
    "FP(F)(F)(F)F",
    "[U]",
    "*C",
    "CC[Hg]C",
    "[H][H]",
    "N->[Cu]",
]


@pytest.mark.parametrize("smiles", AWKWARD)
def test_counts_agree_with_pyg(smiles):
    graph, theirs = mol_graph(smiles), from_smiles(smiles)
    assert graph.x.shape == (theirs.num_nodes, len(ATOM_FEATURES))
    assert graph.edge_attr.shape == (theirs.num_edges, len(BOND_FEATURES))
    ours = {tuple(edge) for edge in graph.edge_index.t().tolist()}
    assert ours == {tuple(edge) for edge in theirs.edge_index.t().tolist()}
    assert torch.equal(graph.edge_index[:, ::2], graph.edge_index[:, 1::2].flip(0))
    assert torch.equal(graph.edge_attr[::2], graph.edge_attr[1::2])


@pytest.mark.parametrize("smiles", AWKWARD)
def test_every_one_hot_field_names_one_value(smiles):
    graph = mol_graph(smiles)
    for names, rows in ((ATOM_FEATURES, graph.x), (BOND_FEATURES, graph.edge_attr)):
        assert len(set(names)) == len(names) == rows.shape[1]
        fields = {name.partition("=")[0] for name in names if "=" in name}
        for field in fields:
            columns = [i for i, name in enumerate(names) if name.startswith(f"{field}=")]
            assert (rows[:, columns].sum(1) == 1).all(), field


def test_a_single_atom_has_no_edges():
    graph = mol_graph("C")
    assert graph.x.shape == (1, len(ATOM_FEATURES))
    assert graph.edge_index.shape == (2, 0)
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_attr.shape == (0, len(BOND_FEATURES))


ATOMS = st.sampled_from(["C", "N", "O", "F", "Cl", "[nH]", "[Se]", "[Fe+2]", "c1ccccc1", "C(=O)"])


@settings(max_examples=60, deadline=None)
@given(st.lists(ATOMS, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_shapes_and_features_do_not_depend_on_the_order_of_atoms(parts, random):
    molecule = Chem.MolFromSmiles(".".join(parts))
    if molecule is None:
        molecule = Chem.MolFromSmiles("CCO")
    order = list(range(molecule.GetNumAtoms()))
    random.shuffle(order)
    graphs = [
        mol_graph(Chem.MolToSmiles(m, canonical=False))
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
        ("C C", "white space"),
        ("C1CC", "not valid SMILES"),
        ("not a molecule", "white space"),
        ("CN(C)(C)(C)C", "valence for atom # 1 N"),
        ("c1cccc1", "kekulize"),
        ("C" * 1001, "1001 atoms are more than max_atoms=1000"),
        ("C" * 1_000_000, "1000000 characters are more than max_atoms=1000 can need"),
        (None, "must be text"),
        (3.5, "must be text"),
    ],
)
def test_a_bad_smiles_says_why(smiles, says, capfd):
    with pytest.raises(ValueError, match=says):
        mol_graph(smiles)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_the_cap_is_the_caller_s():
    assert len(mol_graph("C" * 1001, max_atoms=2000).x) == 1001
    with pytest.raises(ValueError, match="3 atoms are more than max_atoms=2"):
        mol_graph("CCC", max_atoms=2)
    for call in (mol_graph, lambda *a, **k: read_smiles([], **k)):
        with pytest.raises(ValueError, match="at least 1"):
            call("C", max_atoms=0)


def test_a_batch_equals_pyg_s():
    found = read_smiles(AWKWARD, range(len(AWKWARD)))
    ours, theirs = batch_molecules(found.graphs), Batch.from_data_list(found.to_data_list())
    for key in ("x", "edge_index", "edge_attr", "batch", "ptr"):
        assert torch.equal(ours[key], theirs[key]), key
    assert theirs.y.shape == (len(AWKWARD), 1)


def test_a_batch_takes_what_was_read_and_refuses_the_rest():
    found = read_smiles(["CC", "O"])
    assert torch.equal(batch_molecules(found).x, batch_molecules(found.graphs).x)
    with pytest.raises(TypeError, match="graphs must hold MolGraph objects; got str"):
        batch_molecules(["CC"])


def test_a_molecule_is_shown_in_a_line():
    assert repr(mol_graph("CCO")) == "MolGraph('CCO', atoms=3, bonds=2)"
