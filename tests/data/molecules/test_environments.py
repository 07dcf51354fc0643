"""Descriptors from cached atom environments equal those that RDKit computes directly."""

import numpy as np
import pytest
from rdkit import Chem

from gattn.apps.molecules.inputs import featurise
from gattn.data import load_molecules, molecule_descriptors
from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.environments import AtomMemory, environments

ODD = [
    "*", "**", "[2H][2H]", "[H][H]", "C[N-2]", "C[NH-]", "CC(=O)[O-]", "[O-2]", "[Fe+2]",
    "O=[OH+]", "OC1=c2ccccc2=C1O", "[SeH2]", "C[B-](C)(C)C",
    "COc1cccc2c1[OH+][Zn-2]1([OH])[O+]=C(N)[N-][N+]1=C2", "C=[N+]=[N-]", "O=C=O", "O=C", "O=CN",
    "O=C(N)O", "O=Cc1ccccc1", "O=c1cc[nH]cc1", "CC(=O)c1ccccc1", "N[Pt](N)(Cl)Cl",
    "C[N+](=O)[O-]", "CS(C)(=O)=O", "C->[Fe]", "FC(F)(F)S(=O)(=O)[O-]",
]  # fmt: skip


def keys_of(*smiles: str) -> np.ndarray:
    builder = MoleculeBuilder()
    for text in smiles:
        builder.add(Chem.MolFromSmiles(text), text)
    return builder.skeletons().environments


def test_descriptors_of_featurised_molecules_equal_those_of_rdkit():
    smiles = [*load_molecules("chembl2321810").smiles[::4], *ODD]
    result = featurise(smiles)
    assert not any(result.errors)
    expected = molecule_descriptors(smiles).numpy()
    np.testing.assert_allclose(result.inputs.descriptors.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_keys_of_atom_environments_do_not_depend_on_the_order_of_atoms():
    assert sorted(keys_of("CCO").tolist()) == sorted(keys_of("OCC").tolist())
    first, again = keys_of("NCC(=O)O").tolist(), keys_of("CCO", "OC(=O)CN").tolist()
    assert sorted(first) == sorted(again[3:])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CC", "C=C"),
        ("CN", "CO"),
        ("C[O-]", "CO"),
        ("C[N-2]", "C[NH-]"),
        ("c1ccccc1C", "C1CCCCC1C"),
        ("CC(=O)O", "CC(=O)N"),  # The two molecules differ only in one of their oxygen atoms.
    ],
)
def test_different_atom_environments_have_different_keys(one, other):
    last = {"CC(=O)O": 2}.get(one, -1)
    assert keys_of(one)[last] != keys_of(other)[last]


def test_environment_key_changes_if_codes_of_atom_and_bond_are_exchanged():
    ends, zeros = np.array([[0, 1]]), np.zeros(2, np.uint64)
    numbers = [
        environments(zeros, np.array([0, seen], np.uint64), np.zeros(2, bool),
                     np.array([bond], np.uint64), ends)[0]
        for seen, bond in ((1, 2), (2, 1))
    ]  # fmt: skip
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("most", [0, 100])
def test_equal_atom_environments_are_described_once_if_the_cache_has_room(most, monkeypatch):
    monkeypatch.setattr("gattn.data.molecules.environments.MOST", most)
    described = []

    def describe(molecule):
        described.append(Chem.MolToSmiles(molecule))
        return [(float(atom.GetAtomicNum()),) for atom in molecule.GetAtoms()]

    memory, smiles = AtomMemory(describe, 1), ["CCO", "OCC", "C#N"]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    for _ in range(2):
        rows = memory.rows(keys_of(*smiles), molecules, np.array([3, 3, 2]))
        assert rows.ravel().tolist() == [6, 6, 8, 8, 6, 6, 6, 7]
    assert sorted(described) == sorted(["C#N", "CCO"] * (1 if most else 2))
