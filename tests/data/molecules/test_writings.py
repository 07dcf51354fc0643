"""Every SMILES of a molecule has the same atoms, bonds, fingerprints and descriptors."""

import random

import pytest
import torch
from rdkit import Chem, rdBase

from gattn.apps.tables.csv_table import open_table
from gattn.data import get_dataset, molecule_descriptors, morgan_fingerprints
from gattn.data.molecules.packing import read_packed
from tests.writings import HABITS, writings

MOLECULES = [
    "C[C@]12CC[C@H]3[C@@H](CCC4=CC(=O)CC[C@]34C)[C@@H]1CC[C@@H]2O",
    "CC(C)(C)N1C(=O)[N-][N+](=C(C(c2ccccc2)=[N+]2[N-]C(=O)N(C(C)(C)C)C2=O)c2ccccc2)C1=O",
    "CN(C)c1cc[n+](-c2nc([N-]C(=O)C(F)(F)F)nc3c2ncn3C2CC(O)C(CO)O2)cc1",
    "O[C@H]1[C@H](O)[C@@H](O)[C@H](O)[C@H](O)[C@@H]1O",
    "Cl[C@H]1[C@H](Cl)[C@@H](Cl)[C@H](Cl)[C@H](Cl)[C@H]1Cl", "C[C@H]1CC[C@@H](C)CC1",
    "C/C=C/[C@H](O)/C=C\\C",
    "O=C(O)CCC/C=C\\C[C@H]1[C@@H](O)C[C@@H](O)[C@@H]1/C=C/[C@@H](O)COc1cccc(C(F)(F)F)c1",
    "CC(=O)Nc1ccc(S(N)(=O)=O)cc1.Cl.[Na+].[O-]C(=O)/C=C/C(=O)[O-].[Na+]",
    "[13CH3][C@H](N)C(=O)[18OH]", "[2H]OC([2H])([2H])[C@@H](N)C", "[H]/N=C(\\N)c1ccccc1",
    "[CH3:1][C@H:4](F)[CH2:2]C", "C12C3C4C1C5C2C3C45", "c1cc2ccc3cccc4ccc(c1)c2c34",
    "N#Cc1c(C#N)c(C#N)c1C#N", "C[S@](=O)c1ccc2nc(NC(=O)OC)[nH]c2c1",
    "[O-][N+](=O)c1cc([N+](=O)[O-])c(O)c([N+](=O)[O-])c1", "C[N+](C)(C)CC(=O)[O-]", "N->[Cu]",
]  # fmt: skip
"""SMILES with stereo centres, double bonds, rings, cages, salts, isotopes, explicit hydrogens, atom
map numbers and delocalised charges.
"""


def _differences(molecules, count):
    """Return the number of SMILES that were read, and all differences between their features."""
    groups = [writings(text, count) for text in molecules]
    texts = [writing.text for group in groups for writing in group]
    packed = read_packed(texts, max_atoms=1000, canonical=False)
    assert not any(packed.errors)
    graphs, counts = packed.molecules.unpack(), torch.from_numpy(packed.counts.unpack())
    wrong, start = [], 0
    for group in groups:
        reference = graphs[start]
        bonds = _bonds(reference, range(len(reference["x"])))
        for place, (text, atoms) in enumerate(group[1:], start + 1):
            graph = graphs[place]
            same = {
                "atoms": len(atoms) == len(graph["x"])
                and torch.equal(graph["x"], reference["x"][atoms]),
                "bonds": _bonds(graph, atoms) == bonds,
                "counts": torch.equal(counts[place], counts[start]),
                "descriptors": (packed.descriptors[place] == packed.descriptors[start]).all(),
            }
            wrong += [(group[0].text, text, part) for part, equal in same.items() if not equal]
        start += len(group)
    return len(texts), wrong


def _bonds(graph, atoms):
    """Return the bond features of each pair of atoms, numbered as in the source."""
    ends = [(atoms[i], atoms[j]) for i, j in graph["edge_index"].t().tolist()]
    return dict(zip(ends, graph["edge_attr"].tolist(), strict=True))


def test_different_smiles_of_a_molecule_have_the_same_features():
    count, wrong = _differences(MOLECULES, 3 * len(HABITS))
    assert count == len(MOLECULES) * 25 == 500
    assert wrong == []


def test_different_smiles_have_the_same_fingerprints_and_descriptors():
    for smiles in MOLECULES:
        texts = [writing.text for writing in writings(smiles, len(HABITS))]
        for rows in (morgan_fingerprints(texts), molecule_descriptors(texts)):
            assert (rows == rows[0]).all(), smiles


@pytest.mark.slow
def test_different_smiles_of_moleculenet_molecules_have_the_same_features(real_data):
    draw, total = random.Random(0), 0
    for name in ("bbbp", "esol", "freesolv", "hiv", "tox21"):
        record = get_dataset(name)
        table = open_table(real_data / record.folder / record.files[0].name, [record.smiles])
        rows = [row.cells[table.place(record.smiles)] for row in table.rows()]
        with rdBase.BlockLogs():
            molecules = [text for text in draw.sample(rows, 150) if Chem.MolFromSmiles(text)]
        assert len(molecules) >= 120
        count, wrong = _differences([text.strip() for text in molecules], len(HABITS))
        assert wrong == []
        total += count
    assert total >= 5000
