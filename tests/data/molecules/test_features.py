"""Features of atoms and bonds."""

import hashlib
import subprocess
import sys

import pytest
import torch
from rdkit import Chem, rdBase

from gattn.apps.tables.csv_table import open_table
from gattn.data import (
    ATOM_FEATURES,
    BOND_FEATURES,
    atom_features,
    bond_features,
    get_dataset,
    smiles_to_data,
)
from gattn.data.molecules import features
from gattn.data.molecules.features import FEATURISER
from gattn.data.molecules.plain import plain


def _hot(values, names):
    return {name for name, value in zip(names, values) if value == 1}


def test_atoms_are_described_by_name():
    alanine = Chem.MolFromSmiles("C[C@H](N)C(=O)[O-]")
    centre, oxygen = alanine.GetAtomWithIdx(1), alanine.GetAtomWithIdx(5)
    assert _hot(atom_features(centre), ATOM_FEATURES) == {
        "element=C",
        "degree=3",
        "charge=0",
        "chirality=S",
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
    assert _hot(bond_features(trans), BOND_FEATURES) == {"order=DOUBLE", "stereo=E"}
    ring = Chem.MolFromSmiles("c1ccccc1").GetBondWithIdx(0)
    assert _hot(bond_features(ring), BOND_FEATURES) == {
        "order=AROMATIC",
        "stereo=none",
        "conjugated",
        "ring",
    }


def _naive(smiles):
    """Compute atom features, edges and bond features one by one."""
    molecule = plain(Chem.MolFromSmiles(smiles), smiles)
    atoms = [atom_features(atom) for atom in molecule.GetAtoms()]
    edges, bonds = [], []
    for bond in molecule.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += [(i, j), (j, i)]
        bonds += [bond_features(bond)] * 2
    return (
        torch.tensor(atoms),
        torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t(),
        torch.tensor(bonds).reshape(-1, len(BOND_FEATURES)),
    )


def _same(smiles):
    graph, (x, edge_index, edge_attr) = smiles_to_data(smiles), _naive(smiles)
    return (
        torch.equal(graph.x, x)
        and torch.equal(graph.edge_index, edge_index)
        and torch.equal(graph.edge_attr, edge_attr)
    )


ODD = [
    *("C", "*", "**", "[2H]O[2H]", "[13CH4]", "[235U+6]", "[Na+].[Cl-]", "[H][H]", "[H+]"),
    *("C[C@H](N)O", "C[C@@H](N)O", "F/C=C/F", "F/C=C\\F", "C=C", "FC=CF", "C[S@](=O)N"),
    *("N->[Cu]", "[Fe]<-O", "CN(C)(C)[Cu]", "B<-N", "C$C", "[Cr]$[Cr]"),
    *("c1cc[nH]c1", "O=c1cc[nH]cc1", "FS(F)(F)(F)(F)F", "FP(F)(F)(F)F", "[O-][N+](=O)C"),
    *("C[Pt@SP1](F)(Cl)Br", "S[As@TB1](F)(Cl)(Br)N", "[Xe](F)F", "[cH-]1cccc1", "C1=CC=CC=CC=C1"),
]


@pytest.mark.parametrize("smiles", ODD)
def test_looking_a_kind_up_gives_the_same_numbers(smiles):
    assert _same(smiles)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"), [("esol", 1128), ("freesolv", 642), ("bbbp", 1000), ("hiv", 1000)]
)
def test_looking_kinds_up_gives_the_same_numbers_for_real_data_sets(real_data, name, least):
    record = get_dataset(name)
    table = open_table(real_data / record.folder / record.files[0].name, [record.smiles])
    rows = [row.cells[table.place(record.smiles)] for row in table.rows()]
    with rdBase.BlockLogs():
        texts = [text for text in rows[:: max(1, len(rows) // 1150)] if Chem.MolFromSmiles(text)]
    assert len(texts) >= least
    assert [text for text in texts if not _same(text)] == []


def test_features_that_change_get_a_new_version():
    """If the atom or bond features change, FEATURISER and the pair of values in this test must be
    updated.
    """
    digest = hashlib.sha256()
    for text in ("C[C@H](N)C(=O)[O-]", "F/C=C/F", "c1cc[nH]c1", "C#N", "[Na+].[Cl-]"):
        graph = smiles_to_data(text)
        for part in (graph.x, graph.edge_index, graph.edge_attr):
            digest.update(part.numpy().tobytes())
    digest.update(repr((features.ATOM_FEATURES, features.BOND_FEATURES)).encode())
    assert (FEATURISER, digest.hexdigest()[:16]) == ("2", "bb725ebd4893990f")


def test_missing_rdkit_is_named_with_its_extra():
    code = (
        "import sys; sys.modules['rdkit'] = None\n"
        "from gattn.data import molecule_identities, smiles_to_data\n"
        "for need in (lambda: smiles_to_data('C'), lambda: molecule_identities(['C'])):\n"
        "    try: need()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    message = 'molecules need RDKit: pip install "gattn[molecules]"'
    assert done.stdout.splitlines() == [message] * 2
