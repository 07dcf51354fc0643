"""Texts of rows: several molecules, reactions, and SMILES without stereo marks."""

import pytest
from rdkit import Chem

from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.row_format import RowFormat, join_smiles, without_stereo_marks

TEXTS = [
    "C[C@H](N)C(=O)O", "F/C=C\\F", "N[Pt@SP1](N)(Cl)Cl", "[H]/N=C/C", "C[S@@](=O)c1ccccc1",
    "C[C@@H](O)F |&1:1,r|", "CC(O)F |wU:1.0,$;;R$|", "OC1CC1", "[13CH3][C@]1(F)CO1 a name/x@1",
]  # fmt: skip


def heavy_atoms(molecule: Chem.Mol) -> list[int]:
    return [number for a in molecule.GetAtoms() if (number := a.GetAtomicNum()) > 1]


@pytest.mark.parametrize("text", TEXTS)
def test_removing_stereo_marks_gives_the_same_smiles_as_remove_stereochemistry_of_rdkit(text):
    molecule = Chem.MolFromSmiles(text)
    bare = without_stereo_marks(text)
    assert "@" not in bare.split()[0]
    assert "wU" not in bare
    assert "&1" not in bare
    without = Chem.MolFromSmiles(bare)
    assert heavy_atoms(without) == heavy_atoms(molecule)
    Chem.RemoveStereochemistry(molecule)
    expected = Chem.MolFromSmiles(Chem.MolToSmiles(molecule))
    assert Chem.MolToSmiles(without) == Chem.MolToSmiles(expected)


def test_ignore_stereo_gives_stereoisomers_one_canonical_smiles():
    texts = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"]
    parsed = featurise(texts, row_format=RowFormat(ignore_stereo=True))
    assert len(set(parsed.canonical)) == 1
    assert (parsed.inputs.counts[0] == parsed.inputs.counts[1]).all()
    assert len(set(featurise(texts).canonical)) == 3


def test_row_with_a_wrong_number_of_molecules_raises_error():
    pair = RowFormat(molecules=2)
    assert pair.split("CCO name + O") == ["CCO name", "O"]
    assert join_smiles(["CCO a + b", None]) == "CCO a +b + "
    counts = ("CCO", "a row must have 2 molecules; it has 1"), ("C + C + C", "it has 3")
    for text, message in (*counts, ("", "the SMILES is empty"), (None, "must be text; got None")):
        with pytest.raises(ValueError, match=message):
            pair.split(text)


def test_reaction_without_two_sides_raises_error():
    reaction = RowFormat(reaction=True)
    assert reaction.split("CC>O>CO name") == ["CC.O", "CO"]
    for text, message in (
        ("CCO", "must be the SMILES A>>B; 'CCO' has 0 signs >"),
        ("C>>C>C", "has 3 signs >"),
        (">>C", "the reactants of the reaction are empty"),
        ("C>> ", "the products of the reaction are empty"),
        ("C>>C |f:0.1|", "cannot have a CXSMILES extension"),
    ):
        with pytest.raises(ValueError, match=message):
            reaction.split(text)
