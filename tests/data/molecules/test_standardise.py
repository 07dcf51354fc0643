"""Standardisation of molecules: each step, the order of the steps, and their errors."""

import random

import pytest
from rdkit import Chem, rdBase

from gattn.data import load_molecules
from gattn.data.molecules.identity import identity
from gattn.data.molecules.packing import read_packed
from gattn.data.molecules.standardise import STEPS, standardise


@pytest.mark.parametrize(
    ("smiles", "steps", "expected"),
    [
        ("CC(=O)[O-].[Na+]", ["largest-fragment"], "CC(=O)[O-]"),
        ("CC(=O)O[Na]", ["largest-fragment"], "CC(=O)[O-]"),
        ("[Na+].[Cl-]", ["largest-fragment"], "[Cl-].[Na+]"),
        ("CCO.Clc1ccccc1", ["largest-fragment"], "Clc1ccccc1"),
        ("C[NH2+]CC(=O)[O-]", ["neutral"], "CNCC(=O)O"),
        ("C[N+](C)(C)CC[O-]", ["neutral"], "C[N+](C)(C)CC[O-]"),
        ("O=[N+]([O-])c1ccccc1", list(STEPS), "O=[N+]([O-])c1ccccc1"),
        ("Oc1ccccn1", ["tautomer"], "O=c1cccc[nH]1"),
        ("CC(=O)CC(C)=O", ["tautomer"], "CC(=O)CC(C)=O"),
        ("CC(O)=CC(C)=O", ["tautomer"], "CC(=O)CC(C)=O"),
        ("C[C@H](N)C(=O)O", list(STEPS), "C[C@H](N)C(=O)O"),
        ("C/C=C/C(C)=O", ["tautomer"], "C/C=C/C(C)=O"),
        ("CCO", [], "CCO"),
    ],
)
def test_standardisation_selects_largest_fragment_neutral_form_or_tautomer(smiles, steps, expected):
    assert standardise(Chem.MolFromSmiles(smiles), steps) == expected


def test_order_of_standardisation_steps_does_not_change_the_smiles():
    molecule = Chem.MolFromSmiles("[Na+].[O-]c1ccccn1.O")
    assert standardise(molecule, list(STEPS)) == standardise(molecule, list(STEPS)[::-1])


def test_standardisation_does_not_depend_on_atom_order_and_is_idempotent():
    generator = random.Random(0)
    for smiles in generator.sample(load_molecules("chembl2321810").smiles, 12):
        molecule = Chem.MolFromSmiles(smiles)
        once = standardise(molecule, list(STEPS))
        assert standardise(Chem.MolFromSmiles(once), list(STEPS)) == once
        shuffled = list(range(molecule.GetNumAtoms()))
        generator.shuffle(shuffled)
        again = standardise(Chem.RenumberAtoms(molecule, shuffled), list(STEPS))
        assert identity(Chem.MolFromSmiles(again)) == identity(Chem.MolFromSmiles(once))


def test_unknown_step_of_standardisation_raises_error():
    with pytest.raises(ValueError, match="must be one of largest-fragment, neutral, tautomer; got"):
        standardise(Chem.MolFromSmiles("C"), ["salts"])


def test_standardised_salt_has_the_same_smiles_and_descriptors_as_its_parent():
    salt, acid, unread = ["CC(=O)[O-].[Na+]", "OC(C)=O", "C1CC"]
    with rdBase.BlockLogs():
        packed = read_packed(
            [salt, acid, unread], max_atoms=100, canonical=True, standardize=list(STEPS)
        )
    assert packed.canonical == ["CC(=O)O", "CC(=O)O"]
    assert packed.errors[2].startswith("not valid SMILES")
    graphs = packed.molecules.unpack()
    # If standardisation does not change a molecule, its SMILES remains unchanged.
    assert graphs.smiles == ["CC(=O)O", "OC(C)=O"]
    assert (packed.descriptors[0] == packed.descriptors[1]).all()
