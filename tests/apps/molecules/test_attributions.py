"""Atom weights: exact cases, masking, and independence of the batch."""

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules import masking
from gattn.apps.molecules.explain import attribute
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.masking import atoms_of, descriptor_shares, masked_inputs
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import DESCRIPTORS
from gattn.data.molecules.descriptors import descriptor_row

SMILES = [
    *("CCO", "CC(=O)Nc1ccc(O)cc1", "c1ccccc1", "CCN(CC)CC", "CC(=O)O", "OCC(O)CO", "C1CCOC1"),
    *("CC(C)Cc1ccc(cc1)C(C)C(=O)O", "Clc1ccccc1", "CCCCCC", "NCC(=O)O", "c1ccncc1", "CS(C)=O"),
    *("FC(F)F", "CC#N", "C=CC=C", "OC1CCCCC1", "Brc1ccc(Br)cc1", "CCOC(=O)C", "CNC"),
]
ODD = ["C", "[Na+].[Cl-]", "[13CH3]O", "*CC*", "C1CC2CCC1CC2", "[NH3+]CC([O-])=O", "CC[Pt]Cl"]


def logp(smiles):
    return rdMolDescriptors.CalcCrippenDescriptors(Chem.MolFromSmiles(smiles))[0]


@pytest.fixture(scope="module")
def inputs():
    return featurise(SMILES).inputs


def fitted(inputs, **settings):
    y = torch.tensor([[logp(smiles)] for smiles in SMILES], dtype=torch.float64)
    chosen = MoleculeSettings(**{"epochs": 2, "width": 16, "layers": 2, "ensemble": 2, **settings})
    parts = (
        FitPart(inputs[rows], y[rows], torch.ones(len(y[rows])))
        for rows in (slice(14), slice(14, None))
    )
    return MoleculePredictor.fit(*parts, TASKS["regression"], chosen)


@pytest.fixture(scope="module")
def some(inputs):
    """Return small rings and chains, for tests that need many predictions."""
    return inputs[:6]


@pytest.fixture(scope="module")
def stacked(inputs):
    return fitted(inputs)


def weights_of(predictor, inputs):
    return [one.weights for one in attribute(predictor, inputs, atoms=atoms_of(inputs))]


def test_contributions_of_atoms_sum_to_the_descriptors():
    for molecule in map(Chem.MolFromSmiles, SMILES + ODD):
        shares = descriptor_shares(molecule)
        np.testing.assert_allclose(shares.sum(0), descriptor_row(molecule), atol=1e-6)


def test_contributions_of_atoms_to_descriptors_equal_those_of_rdkit():
    molecule = Chem.MolFromSmiles("CC(=O)Nc1ccc(S(N)(=O)=O)cc1Cl")
    shares = dict(zip(DESCRIPTORS, descriptor_shares(molecule).t().numpy()))
    crippen = np.array(rdMolDescriptors._CalcCrippenContribs(molecule))
    np.testing.assert_allclose(shares["CrippenClogPHeavy"], crippen[:, 0], atol=1e-9)
    np.testing.assert_allclose(shares["CrippenMRHeavy"], crippen[:, 1], atol=1e-9)
    np.testing.assert_allclose(
        shares["tpsa"], rdMolDescriptors._CalcTPSAContribs(molecule), atol=1e-9
    )
    assert shares["NumHeteroatoms"].tolist() == [
        float(atom.GetAtomicNum() != 6) for atom in molecule.GetAtoms()
    ]


def test_masking_weight_is_the_change_of_the_prediction_without_the_atom(inputs, stacked):
    weights = weights_of(stacked, inputs[:3])
    for place in range(3):
        one = inputs[[place]]
        for atom in range(len(weights[place])):
            mask = torch.zeros(1, len(weights[place]), dtype=torch.bool)
            mask[0, atom] = True
            without = stacked.predict(masked_inputs(one, atoms_of(one), [(0, mask)])).mean
            change = stacked.predict(one).mean - without
            torch.testing.assert_close(weights[place][atom], change[0, 0], atol=1e-5, rtol=1e-5)


def test_masking_removes_atoms_with_their_bonds_and_environments():
    one = featurise(["CCO"]).inputs
    mask = torch.tensor([[False, False, False], [True, False, False], [True, True, True]])
    masked = masked_inputs(one, atoms_of(one), [(0, mask)])
    assert masked.molecules.arrays.ptr.tolist() == [0, 3, 5, 5]
    assert masked.molecules[1].edge_index.tolist() == [[0, 1], [1, 0]]
    assert torch.equal(masked.molecules[1].x, one.molecules[0].x[1:])
    assert torch.equal(masked.counts[0], one.counts[0])
    # If the first atom of CCO is masked, three Morgan environments remain: C and O with radius 0,
    # and CO with radius 1. Each of them is counted twice.
    assert masked.counts[1].sum() == 6
    assert masked.counts[2].sum() == 0
    # The three pairs of CCO are two neighbours, twice, and two atoms at distance 2.
    assert torch.equal(masked.pairs[0], one.pairs[0])
    assert masked.pairs.sum(1).tolist() == [3, 1, 0]
    torch.testing.assert_close(masked.descriptors[0], one.descriptors[0])
    assert masked.descriptors[1, DESCRIPTORS.index("NumHeavyAtoms")] == 2
    torch.testing.assert_close(
        masked.descriptors[2], torch.zeros(len(DESCRIPTORS)), atol=1e-4, rtol=0
    )


def test_atom_weights_of_a_molecule_do_not_depend_on_its_batch(some, stacked, monkeypatch):
    together = weights_of(stacked, some)
    monkeypatch.setattr(masking, "BUDGET", 16)
    for apart, one in zip(weights_of(stacked, some), together, strict=True):
        torch.testing.assert_close(apart, one, atol=1e-5, rtol=1e-4)
