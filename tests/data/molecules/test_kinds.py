"""Features looked up by kind of atom or bond equal those computed one by one with RDKit."""

import numpy as np
import pytest
from rdkit import Chem

from gattn.data import load_molecules
from gattn.data.molecules import building
from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.descriptors import COUNTED, DESCRIPTORS, descriptor_row, descriptor_rows
from gattn.data.molecules.features import atom_features, bond_features

ODD = [
    "C", "[12C]", "[13CH4]", "C[12CH2]C", "[2H]OC", "[235U]", "[9999C]", "*", "[Na+].[Cl-]",
    "N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O", "C[S@](=O)CC", "F[Pt@SP1](Cl)(Br)I",
    "F[Pt@SP2](Cl)(Br)I", "F/C=C/F", "F/C=C\\F", "FC=CF", "C->[Fe]", "[NH3]->[Fe]", "[CH3]~[CH3]",
    "C$C", "c1cc2ccc3cccc1n23", "C1CCc2ccccc2C1", "c1ccc2cc3ccccc3cc2c1", "c1cc2cccc3c2c(c1)C=C3",
    "O=c1cc[nH]cc1", "C[N+](=O)[O-]", "CN(=O)=O", "[CH2]C", "[CH]", "C=[N+]=[N-]", "[O-2]",
    "[Fe+2]", "CCCC#CCC", "O=C1CC(C)N1", "CC(=O)NC", "NC(=O)C(N)=O", "C[SH]", "[nH]1cccc1",
    "C[NH3+]",
]  # fmt: skip


def packed(smiles):
    builder = MoleculeBuilder()
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    for row, (text, molecule) in enumerate(zip(smiles, molecules)):
        builder.add(molecule, text, row)
    return builder, molecules


@pytest.mark.parametrize("read", [3, 1024])
def test_batched_features_equal_features_computed_for_each_atom_and_bond(read, monkeypatch):
    monkeypatch.setattr(building, "BLOCK", read)
    builder, molecules = packed([*ODD, *load_molecules("chembl2321810").smiles[::20], *ODD])
    result = builder.pack()
    atoms = [atom_features(atom) for molecule in molecules for atom in molecule.GetAtoms()]
    bonds = [bond_features(bond) for molecule in molecules for bond in molecule.GetBonds()]
    ends = [
        (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        for molecule in molecules
        for bond in molecule.GetBonds()
    ]
    np.testing.assert_array_equal(result.atoms.table[result.atoms.order], np.float32(atoms))
    np.testing.assert_array_equal(result.bonds.table[result.bonds.order], np.float32(bonds))
    np.testing.assert_array_equal(result.ends, np.int32(ends))
    sizes = [(molecule.GetNumAtoms(), molecule.GetNumBonds()) for molecule in molecules]
    np.testing.assert_array_equal(result.sizes, np.int32(sizes).T)


def test_aromatic_atom_without_aromatic_bond_has_the_feature_aromatic():
    molecule, builder = Chem.MolFromSmiles("C1CCCCC1.c1ccccc1"), MoleculeBuilder()
    # An aromatic atom without an aromatic bond may join aromatic rings.
    molecule.GetAtomWithIdx(2).SetIsAromatic(True)
    builder.add(Chem.MolFromSmiles("C1CCCCC1"), "C1CCCCC1")
    builder.add(molecule, "C1CCCCC1.c1ccccc1")
    atoms = builder.pack().atoms
    expected = np.float32([atom_features(atom) for atom in molecule.GetAtoms()])
    np.testing.assert_array_equal(atoms.table[atoms.order][6:], expected)


def test_counted_descriptors_of_polymers_equal_those_of_rdkit():
    builder, molecules = packed([*ODD, "CC" * 400, "NC(=O)" * 200])
    columns = [DESCRIPTORS.index(name) for name in COUNTED]
    rows = descriptor_rows(molecules, builder.skeletons())[:, columns]
    expected = np.float32([descriptor_row(molecule) for molecule in molecules])[:, columns]
    np.testing.assert_array_equal(rows, expected)


def test_packed_features_of_no_molecules_are_empty():
    builder, _ = packed([])
    result, skeletons = builder.pack(), builder.skeletons()
    assert result.atoms.order.shape == (0,)
    assert result.ends.shape == skeletons.ends.shape == (0, 2)
    assert result.sizes.shape == (2, 0)
    assert result.unpack().smiles == []
