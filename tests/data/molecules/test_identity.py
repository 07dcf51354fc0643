"""Tests of identities: they are equal for all SMILES of a molecule, and different for different
molecules.
"""

import csv
import random

import pytest
from rdkit import Chem, rdBase

from gattn.data import get_dataset, load_molecules, molecule_identities
from gattn.data.molecules.identity import flat, identity, parent
from gattn.data.molecules.smiles import parse_smiles


def writings(molecule, rng):
    """Yield ten SMILES of a molecule: random, with hydrogens, with atom maps, Kekulé form."""
    mapped, full, kekule = Chem.Mol(molecule), Chem.AddHs(molecule), Chem.Mol(molecule)
    mapped_full = Chem.Mol(full)
    for some in (mapped, mapped_full):
        for atom in some.GetAtoms():
            atom.SetAtomMapNum(rng.randint(1, 999))
    Chem.Kekulize(kekule, clearAromaticFlags=True)
    # The generator of MolToSmiles(doRandom=True) depends on all earlier calls in the process.
    seed = rng.randint(1, 2**31 - 1)
    yield from Chem.MolToRandomSmilesVect(molecule, 4, seed)
    yield from Chem.MolToRandomSmilesVect(molecule, 1, seed, allHsExplicit=True)
    for some in (full, mapped, mapped_full):
        yield from Chem.MolToRandomSmilesVect(some, 1, seed)
    yield from Chem.MolToRandomSmilesVect(kekule, 1, seed, kekuleSmiles=True)
    yield Chem.MolToCXSmiles(molecule)


HARD = (
    "C[C@H](N)C(=O)O", "OC[C@H]1OC(O)[C@H](O)[C@@H](O)[C@@H]1O", "C/C=C/C(/C=C\\C)O",
    "C[C@H]1CC[C@@H](C)CC1", "CC(C)[C@H]1CC[C@H](C(=O)N[C@H](Cc2ccccc2)C(=O)O)CC1",
    "NC[C@H]1CC[C@H](C(=O)O)CC1", "C[C@]1(O)CC[C@@]2(CC1)CC[C@](C)(O)CC2",
    "O[C@H](C(=O)O)[C@@H](O)C(=O)O", "O/N=C/C=N/O", "[H]/N=C(/C)CC", "[2H]C(Cl)(Cl)Cl",
    "[13CH3]C", "[Na+].[O-]C(=O)c1ccccc1", "C[N+](C)(C)C.[Br-]", "c1ccc2[nH]ccc2c1",
    "Cc1nc[nH]c1C", "O=[N+]([O-])c1ccccc1", "[BH4-].[Na+]", "*CC", "C[S@](=O)CC",
    "C[P@](=O)(O)OC", "N->[Pt](Cl)(Cl)<-N", "C1CC1.C1CC1", "C#C", "O", "[H][H]",
    "C1C[N+]23CCC[N+]4(C1)CC[S-]1[Fe+2]24([SH+]CC3)[S-]2CC[N+]34CCC[N+]5(CCC3)CC[SH+][Fe+2]1254",
)  # fmt: skip


@pytest.mark.parametrize("smiles", HARD)
def test_different_smiles_of_one_molecule_have_one_identity(smiles):
    rng, molecule = random.Random(0), parse_smiles(smiles, 1000)
    expected = identity(molecule)
    texts = [smiles, expected, *writings(molecule, rng), *writings(molecule, rng)]
    assert len(texts) == 22
    assert set(molecule_identities(texts)) == {expected}


def test_different_smiles_of_a_chembl_molecule_have_one_identity():
    rng = random.Random(1)
    molecules = load_molecules("chembl2321810").smiles[::20]
    assert len(molecules) == 51
    with rdBase.BlockLogs():
        for smiles in molecules:
            molecule = parse_smiles(smiles, 1000)
            assert set(molecule_identities(list(writings(molecule, rng)))) == {identity(molecule)}


@pytest.mark.parametrize("name", ["bbbp", "tox21"])
def test_different_smiles_of_a_moleculenet_molecule_have_one_identity(real_data, name):
    """Compare ten SMILES of each of a hundred molecules of each data set."""
    record = get_dataset(name)
    rng = random.Random(2)
    with (real_data / record.folder / record.files[0].name).open(newline="") as file:
        texts = [row[record.smiles] for row in csv.DictReader(file)]
    checked = 0
    with rdBase.BlockLogs():
        for smiles in rng.sample(texts, 110):
            molecule = Chem.MolFromSmiles(smiles)
            if molecule is not None:
                identities = set(molecule_identities(list(writings(molecule, rng))))
                assert identities == {identity(molecule)}, smiles
                checked += 1
    assert checked >= 100


def test_different_molecules_have_different_identities():
    texts = [
        # L-alanine, D-alanine, and alanine without a stereo mark.
        "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O",
        "C[C@H]([NH3+])C(=O)[O-]", "C[C@H](N)C(=O)O.Cl", "C[C@H](N)C(=O)[O-].[Na+]",
        "ClC(Cl)Cl", "[2H]C(Cl)(Cl)Cl", "[13CH](Cl)(Cl)Cl",
        "C/C=C/C", "C/C=C\\C", "CC=CC",
        "C[C@H]1CC[C@H](C)CC1", "C[C@H]1CC[C@@H](C)CC1", "CC1CCC(C)CC1",
        "Oc1ccccn1", "O=c1cccc[nH]1",  # Two tautomers are different molecules.
        "C", "[CH3]", "[CH3+]", "[CH3-]", "[H+]", "[H-]", "[H][H]",
    ]  # fmt: skip
    assert len(set(molecule_identities(texts))) == len(texts)


CIS = ["Cl[Pt@SP1](Cl)([NH3])[NH3]", "[NH3][Pt@SP1]([NH3])(Cl)Cl", "[NH3][Pt@SP2](Cl)([NH3])Cl",
       "Cl[Pt@SP3]([NH3])(Cl)[NH3]"]  # fmt: skip
TRANS = ["Cl[Pt@SP2](Cl)([NH3])[NH3]", "[NH3][Pt@SP3](Cl)(Cl)[NH3]", "Cl[Pt@SP1]([NH3])(Cl)[NH3]"]


def test_cis_and_trans_square_complexes_have_different_identities():
    # In a square-planar complex, the first ligand is opposite the third in SP1, opposite the second
    # in SP2, and opposite the fourth in SP3.
    cis, trans = molecule_identities(CIS), molecule_identities(TRANS)
    assert len(set(cis)) == len(set(trans)) == 1
    assert cis[0] != trans[0] != molecule_identities(["Cl[Pt](Cl)([NH3])[NH3]"])[0]


def test_different_smiles_of_one_octahedral_complex_have_one_identity():
    molecule = parse_smiles("[Co@OH1](N)(N)(N)(Cl)(Cl)Cl", 10)
    texts = list(Chem.MolToRandomSmilesVect(molecule, 10, 1))
    assert len(set(molecule_identities(texts))) == 1


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        *((salt, "CC(=O)O") for salt in ("CC(=O)[O-].[Na+]", "CC(=O)O[Na]", "CC(=O)[O-]")),
        *((salt, "CCN") for salt in ("CCN.Cl", "CC[NH3+].[Cl-]", "CCN.OS(=O)(=O)O")),
        ("C[N+](C)(C)C.[Br-]", "C[N+](C)(C)C"),
        ("C[NH+](C)CC([O-])=O", "CN(C)CC(=O)O"),
        ("O=[N+]([O-])c1ccccc1", "O=[N+]([O-])c1ccccc1"),
        ("C[C@H](N)C(=O)O.Cl", "C[C@H](N)C(=O)O"),
        ("c1ccccc1C(=O)O.O", "O=C(O)c1ccccc1"),
        ("[Na+].[Cl-]", "[Cl-].[Na+]"),
        ("CCO", "CCO"),
    ],
)
def test_parent_of_a_salt_is_its_neutral_organic_fragment(smiles, expected):
    assert parent(*molecule_identities([smiles])) == expected


def test_identities_without_stereo_are_equal_for_stereoisomers():
    texts = molecule_identities(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"])
    assert {flat(text) for text in texts} == {"CC(N)C(=O)O"}
    assert flat("[2H]C(Cl)(Cl)Cl") == "[2H]C(Cl)(Cl)Cl"


def test_identities_of_an_empty_list_are_empty():
    assert molecule_identities([]) == []
