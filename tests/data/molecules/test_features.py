"""Features of atoms and bonds."""

import hashlib
import subprocess
import sys

import pytest
from rdkit import Chem

from gattn.data import ATOM_FEATURES, BOND_FEATURES, atom_features, bond_features, smiles_to_data
from gattn.data.molecules import features
from gattn.data.molecules.features import FEATURISER


def _hot(values, names):
    return {name for name, value in zip(names, values) if value == 1}


def test_atom_features_encode_element_degree_charge_chirality_and_hydrogens():
    alanine = Chem.MolFromSmiles("C[C@H](N)C(=O)[O-]")
    centre, oxygen = alanine.GetAtomWithIdx(1), alanine.GetAtomWithIdx(5)
    features = {"element=C", "degree=3", "charge=0", "chirality=S", "hydrogens=1"}
    assert _hot(atom_features(centre), ATOM_FEATURES) == {*features, "hybridisation=SP3"}
    assert "charge=-1" in _hot(atom_features(oxygen), ATOM_FEATURES)
    assert atom_features(oxygen)[-1] == pytest.approx(0.15999)
    pyrrole = Chem.MolFromSmiles("c1cc[nH]c1").GetAtomWithIdx(3)
    assert {"element=N", "aromatic", "ring", "hydrogens=1"} <= _hot(
        atom_features(pyrrole), ATOM_FEATURES
    )


def test_rare_elements_charges_and_bond_orders_have_the_feature_other():
    uranium = Chem.MolFromSmiles("[U+6]").GetAtomWithIdx(0)
    assert {"element=other", "charge=other"} <= _hot(atom_features(uranium), ATOM_FEATURES)
    dative = Chem.MolFromSmiles("N->[Cu]").GetBondWithIdx(0)
    assert "order=other" in _hot(bond_features(dative), BOND_FEATURES)


def test_bond_features_encode_order_stereo_ring_and_conjugation():
    trans = Chem.MolFromSmiles("F/C=C/F").GetBondWithIdx(1)
    assert _hot(bond_features(trans), BOND_FEATURES) == {"order=DOUBLE", "stereo=E"}
    ring = Chem.MolFromSmiles("c1ccccc1").GetBondWithIdx(0)
    features = {"order=AROMATIC", "stereo=none", "conjugated", "ring"}
    assert _hot(bond_features(ring), BOND_FEATURES) == features


def test_checksum_of_features_equals_that_of_the_featuriser_version():
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


def test_missing_rdkit_raises_error_that_names_the_extra():
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
