"""Tests of configurations: they are equal for all SMILES of a molecule, and different for
stereoisomers.
"""

import itertools

import pytest
import torch
from rdkit import Chem

from gattn.data import smiles_to_data
from gattn.data.molecules import stereo
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.stereo import configurations

PAIRS = {
    "enantiomers": ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
    "diastereomers": ("C[C@H](O)[C@H](F)Cl", "C[C@H](O)[C@@H](F)Cl"),
    "across a ring": ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
    "pseudoasymmetric": ("C[C@H](O)[C@H](O)[C@@H](C)O", "C[C@H](O)[C@@H](O)[C@@H](C)O"),
    "bonds": ("F/C=C/F", "F/C=C\\F"),
    "bonds in a ring": ("C1CCC/C=C/CC1", "C1CCC/C=C\\CC1"),
    "of nitrogen": ("C/C=N/O", "C/C=N\\O"),
    "by a hydrogen": ("[H]/N=C(/C)CC", "[H]/N=C(\\C)CC"),
    "sulfur": ("C[S@](=O)CC", "C[S@@](=O)CC"),
    "phosphorus": ("C[P@](=O)(CC)O", "C[P@@](=O)(CC)O"),
    "ammonium": ("C[N@+](CC)(CCC)CCCC", "C[N@@+](CC)(CCC)CCCC"),
    "through a double bond": ("C/C=C/[C@H](O)/C=C\\C", "C/C=C/[C@@H](O)/C=C\\C"),
    "marked and unmarked": ("C[C@H](N)C(=O)O", "CC(N)C(=O)O"),
}


def _rows(smiles):
    """Return the sorted features of a molecule's atoms and bonds."""
    graph = smiles_to_data(smiles)
    return sorted(graph.x.tolist()), sorted(graph.edge_attr.tolist())


def test_stereo_constants_equal_the_enum_values_of_rdkit():
    tags, kinds = Chem.ChiralType, Chem.BondStereo
    centres = tags.CHI_TETRAHEDRAL_CW, tags.CHI_TETRAHEDRAL_CCW
    planar = kinds.STEREOZ, kinds.STEREOE, kinds.STEREOCIS, kinds.STEREOTRANS
    assert tuple(map(int, centres)) == stereo.TETRAHEDRAL
    assert tuple(map(int, planar)) == stereo.PLANAR
    assert int(kinds.STEREOANY) == stereo.ANY


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_stereoisomers_have_different_features(pair):
    assert _rows(pair[0]) != _rows(pair[1])


@pytest.mark.parametrize(
    "texts",
    [
        ("N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O", "[H][C@](N)(C)C(=O)O", "OC(=O)[C@H](C)N"),
        ("F/C=C(\\F)Cl", "[H]/C(F)=C(/F)Cl", "Cl/C(F)=C/F", "C(/F)=C(\\Cl)F"),
        ("O[C@H](C)[C@@H](C)O", "C[C@@H](O)[C@@H](C)O"),
        ("[H]/N=C(/C)CC", "[2H]/N=C(/C)CC", "CC/C(C)=N\\[H]"),
    ],
)
def test_different_smiles_of_one_stereoisomer_have_equal_features(texts):
    assert all(_rows(text) == _rows(texts[0]) for text in texts)


def test_symmetric_stereocentres_have_equal_labels():
    for text in ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"):
        labels = configurations(Chem.MolFromSmiles(text)).atoms
        assert len(labels) == 2
        assert len(set(labels.values())) == 1
    tartaric = configurations(Chem.MolFromSmiles("OC(=O)[C@H](O)[C@@H](O)C(=O)O")).atoms
    assert sorted(tartaric.values()) == ["R", "R"]


def test_nine_inositol_isomers_have_nine_different_sets_of_labels():
    """The isomers differ only in the configurations of their six centres, which are compared as
    rings of labels.
    """
    rings = set()
    for tags in itertools.product(("@", "@@"), repeat=6):
        text = "O[C{}H]1[C{}H](O)[C{}H](O)[C{}H](O)[C{}H](O)[C{}H]1O".format(*tags)
        molecule = Chem.MolFromSmiles(text)
        labels = configurations(molecule).atoms
        ring = [labels.get(i, "none") for i in molecule.GetRingInfo().AtomRings()[0]]
        turns = [ring[i:] + ring[:i] for i in range(6)]
        rings.add(min(map(tuple, turns + [turn[::-1] for turn in turns])))
    assert len(rings) == 9


def test_stereocentres_of_unknown_configuration_have_no_label():
    text = "C[C@H](F)[C@@H](O)Cl"
    assert configurations(Chem.MolFromSmiles(text)).atoms == {1: "S", 3: "S"}
    for group in ("&1", "o1"):
        molecule = Chem.MolFromSmiles(f"{text} |{group}:1|")
        assert configurations(molecule).atoms == {3: "S"}
    unknown = Chem.MolFromSmiles("CC=CC |w:1.0|")
    assert configurations(unknown).bonds == {1: "any"}


def test_square_planar_centre_has_the_label_other():
    assert configurations(Chem.MolFromSmiles("C[Pt@SP1](F)(Cl)Br")).atoms == {1: "other"}


def test_stereo_labels_do_not_change_the_cip_code_of_the_molecule():
    molecule = Chem.MolFromSmiles("C[S@](=O)CC")
    before = molecule.GetAtomWithIdx(1).GetProp("_CIPCode")
    # RDKit's legacy labeller assigns another label to this sulfur atom.
    assert configurations(molecule).atoms[1] != before
    assert molecule.GetAtomWithIdx(1).GetProp("_CIPCode") == before


RING = "[C@@H]1(C)" + "[C@H](C)" * 20 + "1"


def test_every_stereocentre_of_a_ring_above_the_first_step_limit_has_the_label_s(monkeypatch):
    monkeypatch.setattr(stereo, "FIRST_STEPS", 10)
    assert set(configurations(Chem.MolFromSmiles(RING)).atoms.values()) == {"s"}
    assert set(configurations(Chem.MolFromSmiles("CCO." + RING)).atoms) == {3, *range(5, 45, 2)}


def test_every_stereocentre_above_the_last_step_limit_has_the_label_other(monkeypatch):
    monkeypatch.setattr(stereo, "FIRST_STEPS", 10)
    molecule = Chem.MolFromSmiles(f"C/C=C/C.{RING}")
    full = configurations(molecule)
    assert full.bonds == {1: "E"}
    assert set(full.atoms.values()) == {"s"}
    monkeypatch.setattr(stereo, "MOST_STEPS", 10)
    bounded = configurations(molecule)
    assert set(bounded.atoms.values()) == set(bounded.bonds.values()) == {"other"}
    assert set(bounded.atoms) == set(full.atoms)
    assert set(bounded.bonds) == {1}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("[2H]C([2H])([2H])O", "CO"),
        ("[H]OC", "OC"),
        ("[CH3:1][OH:2]", "CO"),
        ("[H:7]O[CH3:1]", "OC"),
        ("[2H]OC([3H])=O", "OC=O"),
        ("[2H][2H]", "[H][H]"),
        ("[2H+]", "[H+]"),
        ("[2H]c1ccccc1", "c1ccccc1"),
        ("[H]n1cccc1", "[nH]1cccc1"),
        ("C[C@H]([2H])O", "CCO"),
        ("[CH3:1][C@H]([CH3:2])O", "CC(C)O"),
        ("[2H]/C([H])=C/C", "C=CC"),
        ("C[C@@](N)([2H])C(=O)O", "C[C@H](N)C(=O)O"),
        ("[2H][N+]([2H])([2H])C", "[NH3+]C"),
    ],
)
def test_explicit_hydrogens_and_map_numbers_do_not_change_features(text, same):
    graph, other = smiles_to_data(text), smiles_to_data(same)
    assert torch.equal(graph.x, other.x)
    assert torch.equal(graph.edge_index, other.edge_index)
    assert torch.equal(graph.edge_attr, other.edge_attr)


def test_isotope_of_a_heavy_atom_changes_only_the_mass_feature():
    heavy, light = smiles_to_data("[13CH4]").x[0], smiles_to_data("C").x[0]
    assert float(heavy[-1]) == pytest.approx(0.13003, abs=1e-4)
    assert torch.equal(heavy[:-1], light[:-1])


def test_positions_of_heavy_atoms_count_explicit_hydrogens_of_the_smiles():
    assert written_places("[H]OC", 2) == [1, 2]
    assert written_places("[2H]C([H])([2H])O", 2) == [1, 4]
    assert written_places("[Hg]C[H]", 2) == [0, 1]
    assert written_places("[H]/N=C(/C)CC and a name", 5) == [1, 2, 3, 4, 5]
    assert written_places("[H:1][OH:00000000002]", 1) == [1]
    with pytest.raises(RuntimeError, match="has 3 atoms without hydrogens, or 2"):
        written_places("[H]OC", 3)


def test_molecule_without_explicit_hydrogens_is_returned_without_a_copy():
    for text in ("CCO", "C[C@H](N)C(=O)O", "[Hg]C", "[H]OC", "[NH4+]"):
        molecule = Chem.MolFromSmiles(text)
        assert plain(molecule, text) is molecule
