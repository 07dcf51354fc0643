"""Tests with cells that contain a name, a CXSMILES extension, a second molecule or no SMILES."""

import pytest
import torch

from gattn.data import (
    molecule_descriptors,
    molecule_identities,
    morgan_fingerprints,
    read_smiles,
    scaffold_split,
    smiles_to_data,
)
from gattn.data.molecules.smiles import parse_smiles


@pytest.mark.parametrize(
    ("text", "smiles"),
    [
        *((text, "CCO") for text in (
            "CCO ethanol", "CCO\tethanol", "CCO aspirin", "CCO Compound 1", "CCO (racemic)",
            "CCO éthanol", "CCO ethanol @home/[2H]", "CCO\u200b", "\ufeffCCO", "\u00a0CCO\u00a0",
            "CCO |(0,0,;1,0,;2,0,)|", "CCO |SgD:1:name:data::::|", "[CH3:1][CH2:2][OH:3]",
        )),
        ("CN |$_R1$|", "CN"),
        ("CN |$_R1$| methylamine", "CN"),
        ("*N |$_R1$|", "*N"),
        ("CCCC |$star_e;;;$|", "*CCC"),
        ("C[C@H](N)C(=O)O |&1:1|", "CC(N)C(=O)O"),
        ("C[C@H](N)C(=O)O |a:1|", "C[C@H](N)C(=O)O"),
        ("CC=CC |t:1|", "C/C=C/C"),
        ("CC=CC |c:1|", "C/C=C\\C"),
        ("C/C=C/C |w:1.0|", "CC=CC"),
        ("CC |^1:0|", "[CH2]C"),
        ("CC(F)Cl |(0,0,;1,0,;2,0,;1,1,),wU:1.0|", "C[C@H](F)Cl"),
        ("[H:4]O[CH3:2]", "CO"),
        ("[CH3:1][C@H](F)[CH3:2]", "CC(C)F"),
    ],
)  # fmt: skip
def test_smiles_with_a_name_white_space_or_extension_is_read(text, smiles):
    assert molecule_identities([text]) == [smiles]
    ours, plain = smiles_to_data(text), smiles_to_data(smiles)
    assert sorted(ours["x"].tolist()) == sorted(plain["x"].tolist())
    assert sorted(ours["edge_attr"].tolist()) == sorted(plain["edge_attr"].tolist())
    for of in (molecule_descriptors, morgan_fingerprints):
        assert torch.equal(of([text]), of([smiles]))


MIXED = "a cell must contain one molecule"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CCO CCN", f"'CCN' follows the SMILES 'CCO' and is also valid SMILES: {MIXED}"),
        *(
            (text, MIXED)
            for text in ("CCO CCN 5.3", "CCO C", "CCO\tc1ccccc1", "[Na+] [Cl-]", "CN |$_R1$| CCN")
        ),
        ("CCO,CCN", "it looks like 2 SMILES, 'CCO' and 'CCN'"),
        ("CCO|CCN|C", "it looks like 3 SMILES"),
        ("CCOC (C)C", "contains white space between 'CCOC' and '(C)C'"),
        ("CC(=O )O", r"contains white space; without it, 'CC(=O)O' is valid SMILES"),
        ("CCO\nCCN", "has 2 lines, the first 'CCO'"),
        ("\n  RDKit\n\n  3  2  0 V2000\n   0.0\nM  END", "a molfile"),
        ("CCO>>CC=O", "a reaction"),
        ("[CH3:1][OH:2]>>[CH2:1]=[O:2]", "a reaction"),
        *((text, "SMARTS") for text in ("[#6]", "C~C", "[C,N]O")),
        ("InChI=1S/CH4/h1H4", "an InChI"),
        ("QTBSBXVTEAMEQO-UHFFFAOYSA-N", "an InChIKey"),
        ("50-78-2", "a CAS number"),
        ("aspirin", "a name"),
        ("2-[4-(2-methylpropyl)phenyl]propanoic acid", "a name"),
        ("C2H6O", "a molecular formula"),
        ("12.5", "a number"),
        ("N/A", "a missing value"),
        ("c1ccccc1[R1]", "an R group"),
        ("[D]C", "[2H]"),
        ("\u200b", "the SMILES is empty"),
        ("CC\u2013O", "'\\u2013' (EN DASH) as character 3; SMILES use '-'"),
        ("C\u00a0C", "NO-BREAK SPACE"),
        ("\u0421CO", "CYRILLIC CAPITAL LETTER ES) as character 1; SMILES use 'C'"),
        ("C\uff1dO", "SMILES use '='"),
        ("CCO |foo|", "cannot read the CXSMILES extension '|foo|'"),
        ("CCO |$a", "has no | at its end"),
        ("*C.c1ccccc1 |m:0:2.3.4|", "a bond to one of several atoms"),
        ("CCO |Sg:n:1:n:ht|", "a polymer"),
        ("CCOC |LN:1:1.3|", "an atom that is repeated"),
        ("CCO |rb:0:*|", "an atom that stands for several"),
        ("CCCC |$Q_e;;;$|", "an atom that stands for several"),
        ("c1ccccc(c1", "not valid SMILES; extra open parentheses"),
        ("C1CC", "not valid SMILES; unclosed ring"),
    ],
)
def test_cell_without_exactly_one_molecule_raises_error_with_its_reason(text, says, capfd):
    with pytest.raises(ValueError) as error:
        smiles_to_data(text)
    assert says in str(error.value)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_cell_with_two_smiles_is_a_bad_row_of_read_smiles_and_an_error_of_other_functions():
    text = "CCO CCN"
    assert MIXED in read_smiles([text], on_error="skip").bad[0].reason
    for reader in (molecule_descriptors, morgan_fingerprints, molecule_identities, scaffold_split):
        with pytest.raises(ValueError, match=MIXED):
            reader([text])


def test_parsed_atoms_are_in_the_order_of_the_smiles():
    symbols = [
        atom.GetSymbol() for atom in parse_smiles("[OH:3][CH2:1]N |$_R1$| name", 9).GetAtoms()
    ]
    assert symbols == ["O", "C", "N"]


def test_list_of_cxsmiles_is_read_without_change():
    texts = ["CO", "CN |$_R1$|", "CCl chloromethane"]
    assert read_smiles(texts).smiles == texts
