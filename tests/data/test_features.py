"""What atoms and bonds are described by."""

import pytest
from rdkit import Chem

from gattn.data import (
    ATOM_FEATURES,
    BOND_FEATURES,
    atom_features,
    bond_features,
)


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
