"""Tests of the inputs of molecule models: their order, an error for each invalid row, and the same
numbers as in gattn.data.
"""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from gattn.apps.molecules.inputs import featurise, make_pieces
from gattn.data import DESCRIPTORS, molecule_descriptors, read_smiles
from gattn.data.molecules.plain import plain

SMILES = ["CCO", "C1CC", " c1ccccc1 ", "", "[Na+].[Cl-]", "*", "CN(C)(C)(C)C", "C" * 300, "[2H]"]
GOOD = [0, 2, 4, 5, 7, 8]


def test_featurise_skips_only_rows_with_invalid_smiles():
    result = featurise(SMILES)
    assert result.row_index.tolist() == GOOD
    assert [i for i, error in enumerate(result.errors) if not error] == GOOD
    bad = read_smiles(SMILES, on_error="skip").bad
    assert {row.row: row.reason for row in bad} == {
        i: error for i, error in enumerate(result.errors) if error
    }
    assert result.canonical == [Chem.CanonSmiles(SMILES[i].strip()) for i in GOOD]
    assert result.inputs.molecules.smiles == [SMILES[i].strip() for i in GOOD]


def test_featurised_molecules_equal_those_of_read_smiles():
    inputs = featurise(SMILES).inputs
    graphs = read_smiles([SMILES[i] for i in GOOD])
    for ours, theirs in zip(inputs.molecules, graphs, strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.edge_attr, theirs.edge_attr)
    assert torch.equal(inputs.descriptors, molecule_descriptors(graphs.smiles))
    assert inputs.descriptors.shape == (len(GOOD), len(DESCRIPTORS))
    assert inputs.descriptors.isfinite().all()


def test_fingerprint_counts_are_twice_those_of_rdkit_up_to_255():
    inputs = featurise(SMILES).inputs
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for row, smiles in zip(inputs.counts, inputs.molecules.smiles, strict=True):
        molecule = plain(Chem.MolFromSmiles(smiles), smiles)
        counts = generator.GetCountFingerprintAsNumPy(molecule)
        assert row.tolist() == (2 * counts).clip(max=255).tolist()
    assert inputs.counts.max() == 255


def test_fingerprint_counts_of_stereoisomers_differ():
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for one, other, flat in (
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"),
        ("F/C=C/CC", "F/C=C\\CC", "FC=CCC"),
        ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1", "CC1CCC(C)CC1"),
        ("[H]/N=C(/C)CC", "[H]/N=C(\\C)CC", "N=C(C)CC"),
    ):
        counts = featurise([one, other, flat]).inputs.counts.int()
        assert not torch.equal(counts[0], counts[1])
        expected = generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(flat))
        expected = torch.from_numpy(expected.astype("int32"))
        assert torch.equal(counts[2], 2 * expected)
        for marked in counts[:2]:
            assert (marked >= expected).all()
            assert marked.sum() == 2 * expected.sum()


WORDS = """
C N O * . # = ( ) [ ] @ 1 %10 -> c1ccccc1 F/C=C/F C(=O)O S(=O)(=O) [Si] [2H] [Na+] [Cl-] [235U]
[nH] [C@@H] [Fe+2] [*:1] é
"""
ATOM = st.sampled_from([*WORDS.split(), " ", "\n", "\0", "\udcff"])
TEXTS = st.lists(st.lists(ATOM, max_size=8).map("".join) | st.text(max_size=8), max_size=12)


@settings(deadline=None, max_examples=60)
@given(TEXTS, st.integers(1, 5))
def test_featurise_returns_an_error_for_each_text_without_a_molecule(texts, chunk):
    result = featurise(texts, max_atoms=30)
    assert len(result.errors) == len(texts)
    readable = [i for i, error in enumerate(result.errors) if not error]
    assert result.row_index.tolist() == readable
    assert result.inputs.molecules.smiles == [texts[i].strip() for i in readable]
    assert len(result.canonical) == len(result.inputs.counts) == len(readable)
    assert result.inputs.descriptors.isfinite().all()
    assert result.inputs.molecules.arrays.x.isfinite().all()
    pieces = list(make_pieces(len, texts, chunk=chunk, max_atoms=30, workers=1))
    assert [error for piece in pieces for error in piece.errors] == result.errors
