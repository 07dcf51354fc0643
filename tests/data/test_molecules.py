"""Molecules: features that mean what their names say, and bad rows that are all reported."""

import math

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
    MoleculeError,
    atom_features,
    batch_molecules,
    bond_features,
    load_molecules,
    mol_graph,
    read_csv,
    read_smiles,
)

# One of everything: charges, stereo centres and bonds, metals, salts, isotopes, a wildcard.
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


def _hot(values, names):
    return {name for name, value in zip(names, values) if value == 1}


def test_atoms_are_described_by_name():
    alanine = Chem.MolFromSmiles("C[C@H](N)C(=O)[O-]")
    centre, oxygen = alanine.GetAtomWithIdx(1), alanine.GetAtomWithIdx(5)
    assert _hot(atom_features(centre), ATOM_FEATURES) == {
        "element=C",
        "degree=3",
        "charge=0",
        "chirality=CHI_TETRAHEDRAL_CCW",
        "hydrogens=1",
        "hybridisation=SP3",
    }
    assert "charge=-1" in _hot(atom_features(oxygen), ATOM_FEATURES)
    assert atom_features(oxygen)[-1] == pytest.approx(0.15999)
    pyrrole = Chem.MolFromSmiles("c1cc[nH]c1").GetAtomWithIdx(3)
    assert {"element=N", "aromatic", "ring", "hydrogens=1"} <= _hot(
        atom_features(pyrrole), ATOM_FEATURES
    )


def test_what_is_rare_is_called_other():
    uranium = Chem.MolFromSmiles("[U+6]").GetAtomWithIdx(0)
    assert {"element=other", "charge=other"} <= _hot(atom_features(uranium), ATOM_FEATURES)
    dative = Chem.MolFromSmiles("N->[Cu]").GetBondWithIdx(0)
    assert "order=other" in _hot(bond_features(dative), BOND_FEATURES)


def test_bonds_are_described_by_name():
    trans = Chem.MolFromSmiles("F/C=C/F").GetBondWithIdx(1)
    assert _hot(bond_features(trans), BOND_FEATURES) == {"order=DOUBLE", "stereo=STEREOE"}
    ring = Chem.MolFromSmiles("c1ccccc1").GetBondWithIdx(0)
    assert _hot(bond_features(ring), BOND_FEATURES) == {
        "order=AROMATIC",
        "stereo=STEREONONE",
        "conjugated",
        "ring",
    }


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


def test_all_bad_rows_are_reported_at_once():
    with pytest.raises(MoleculeError) as caught:
        read_smiles(["CCO", "C1CC", "", "CC", None])
    assert [bad.row for bad in caught.value.bad] == [1, 2, 4]
    assert "3 bad row(s)" in str(caught.value)
    assert "row 1: 'C1CC': not valid SMILES" in str(caught.value)


def test_a_long_report_is_cut_but_not_lost():
    with pytest.raises(MoleculeError, match="and 15 more") as caught:
        read_smiles(["("] * 25)
    assert len(caught.value.bad) == 25
    assert str(caught.value).count("\n") == 11


def test_skipped_rows_leave_targets_in_step():
    found = read_smiles(["C", "C1", "CC", "N"], [1, 2, None, 4], on_error="skip")
    assert found.smiles == ["C", "CC", "N"]
    assert found.rows == (0, 2, 3)
    assert found.y[:, 0].tolist()[::2] == [1, 4]
    assert math.isnan(found.y[1, 0])
    assert found.labelled().smiles == ["C", "N"]
    assert [bad.row for bad in found.bad] == [1]


def test_options_are_checked():
    with pytest.raises(ValueError, match='"raise" or "skip"; got'):
        read_smiles(["C"], on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y must hold 2 numbers"):
        read_smiles(["C", "N"], [1.0])
    with pytest.raises(ValueError, match="list of texts"):
        read_smiles("CCO")


def test_an_empty_list_is_ordinary():
    found = read_smiles([])
    assert len(found) == 0
    assert found.y.shape == (0, 0)
    batch = batch_molecules(found.graphs)
    assert batch.x.shape == (0, len(ATOM_FEATURES))
    assert batch.edge_index.shape == (2, 0)
    assert batch.ptr.tolist() == [0]


def test_a_batch_equals_pyg_s():
    found = read_smiles(AWKWARD, range(len(AWKWARD)))
    ours, theirs = batch_molecules(found.graphs), Batch.from_data_list(found.to_data_list())
    for key in ("x", "edge_index", "edge_attr", "batch", "ptr"):
        assert torch.equal(ours[key], theirs[key]), key
    assert theirs.y.shape == (len(AWKWARD), 1)


CSV = "id,smiles,a,b\n1,CCO,1.5,\n\n2, CC ,NaN,-2e3\n3,C,na,0\n"


def test_reads_a_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode())
    found = read_csv(path, smiles="smiles", targets=["b", "a"])
    assert found.smiles == ["CCO", "CC", "C"]
    assert found.targets == ("b", "a")
    expected = torch.tensor([[math.nan, 1.5], [-2000, math.nan], [0, math.nan]])
    torch.testing.assert_close(found.y, expected, equal_nan=True)


@pytest.mark.parametrize(
    ("text", "row", "line", "says"),
    [
        ("smiles,y\nC,1\nCC\n", 1, 3, "1 cells where the header has 2"),
        ("smiles,y\nC,1,2\n", 0, 2, "3 cells where the header has 2"),
        ("smiles,y\n\nC,1\nCC,high\n", 1, 4, "y must be a finite number or empty; it is 'high'"),
        ("smiles,y\nC,inf\n", 0, 2, "finite"),
        ("smiles,y\nC,1\nC1,1\n", 1, 3, "not valid SMILES"),
        ("smiles,y\n,1\n", 0, 2, "empty"),
    ],
)
def test_a_broken_row_is_named_with_its_line(tmp_path, text, row, line, says):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(MoleculeError, match=says) as caught:
        read_csv(path, smiles="smiles", targets=["y"])
    assert "broken.csv" in str(caught.value)
    (bad,) = caught.value.bad
    assert (bad.row, bad.line) == (row, line)
    found = read_csv(path, smiles="smiles", targets=["y"], on_error="skip")
    assert [bad.row for bad in found.bad] == [row]
    assert row not in found.rows


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has nothing"),
        (b"SMILES,y\nC,1\n", "one column 'smiles'; it has SMILES, y"),
        (b"smiles,logS\nC,1\n", "one column 'y'; it has smiles, logS"),
        (b"smiles,y,y\nC,1,2\n", "one column 'y'"),
        (b'smiles,y\n"C,1\nCC,2\n', "not a CSV file"),
        (b'smiles,y\n"C"C,1\n', "not a CSV file"),
        (b"smiles,y\n\xff\xfe,1\n", "not a CSV file"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(tmp_path, content, says):
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    for policy in ("raise", "skip"):
        with pytest.raises(ValueError, match=says):
            read_csv(path, smiles="smiles", targets=["y"], on_error=policy)


def test_csv_options_are_checked(tmp_path):
    with pytest.raises(ValueError, match="list of columns"):
        read_csv(tmp_path / "a.csv", smiles="smiles", targets="y")
    with pytest.raises(FileNotFoundError):
        read_csv(tmp_path / "a.csv", smiles="smiles")


def test_chembl2321810_is_whole():
    found = load_molecules("CHEMBL2321810")
    assert len(found) == 1017
    assert found.y.shape == (1017, 1)
    assert found.y.isfinite().all()
    assert found.y.mean().item() == pytest.approx(7.03, abs=2)
    # The first line of each file of the pair: compound 1520012 and its activity.
    assert found.smiles[0] == "O=S(=O)(Nc1cccs1)c2ccc(Oc3ccccc3c4ccccc4)c(c2)C#N"
    assert found.y[0, 0].item() == pytest.approx(5.48)


@pytest.mark.parametrize(
    ("name", "count", "bad", "tasks"), [("esol", 1128, 0, 1), ("freesolv", 642, 0, 1)]
)
def test_moleculenet(real_data, name, count, bad, tasks):
    found = load_molecules(name, real_data, download=False)
    assert (len(found), len(found.bad), found.y.shape[1]) == (count, bad, tasks)
    assert found.y.isfinite().all()
    if name == "esol":
        assert [g.smiles for g in found.graphs if g.edge_index.shape == (2, 0)] == ["C"]


def test_moleculenet_with_molecules_that_rdkit_refuses(real_data):
    with pytest.raises(MoleculeError, match="11 bad"):
        load_molecules("bbbp", real_data, download=False)
    found = load_molecules("bbbp", real_data, download=False, on_error="skip")
    assert (len(found), len(found.bad)) == (2039, 11)


def test_a_citation_network_holds_no_molecules():
    with pytest.raises(ValueError, match="load_citation"):
        load_molecules("cora")
