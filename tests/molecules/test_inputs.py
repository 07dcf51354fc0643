"""What models of molecules read: in order, bad texts told, the same numbers as gattn.data's."""

import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from gattn.data import DESCRIPTORS, molecule_descriptors, read_smiles
from gattn.molecules.inputs import featurise, stream

SMILES = ["CCO", "C1CC", " c1ccccc1 ", "", "[Na+].[Cl-]", "*", "CN(C)(C)(C)C", "C" * 300, "[2H]"]
GOOD = [0, 2, 4, 5, 7, 8]


def test_bad_texts_cost_their_own_rows():
    found = featurise(SMILES)
    assert found.rows.tolist() == GOOD
    assert [i for i, error in enumerate(found.errors) if not error] == GOOD
    bad = read_smiles(SMILES, on_error="skip").bad
    assert {row.row: row.reason for row in bad} == {
        i: error for i, error in enumerate(found.errors) if error
    }
    assert found.canonical == [Chem.CanonSmiles(SMILES[i].strip()) for i in GOOD]
    assert found.inputs.molecules.smiles == [SMILES[i].strip() for i in GOOD]


def test_the_numbers_are_those_of_gattn_data():
    inputs = featurise(SMILES).inputs
    graphs = read_smiles([SMILES[i] for i in GOOD])
    for ours, theirs in zip(inputs.molecules, graphs, strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.edge_attr, theirs.edge_attr)
    assert torch.equal(inputs.descriptors, molecule_descriptors(graphs.smiles))
    assert inputs.descriptors.shape == (len(GOOD), len(DESCRIPTORS))
    assert inputs.descriptors.isfinite().all()


def test_counts_are_those_of_rdkit_up_to_255():
    inputs = featurise(SMILES).inputs
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for row, smiles in zip(inputs.counts, inputs.molecules.smiles, strict=True):
        counts = generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(smiles))
        assert row.tolist() == counts.clip(max=255).tolist()
    assert inputs.counts.max() == 255


def test_inputs_are_taken_by_position():
    inputs = featurise(SMILES).inputs
    some = inputs[[3, 0]]
    assert len(some) == 2
    assert some.molecules.smiles == ["*", "CCO"]
    assert torch.equal(some.counts, inputs.counts[[3, 0]])
    assert torch.equal(some.descriptors, inputs.descriptors[[3, 0]])
    assert len(inputs[1]) == len(inputs[:1]) == 1


@pytest.mark.parametrize("smiles", [[], ["C1CC"]])
def test_nothing_readable_is_ordinary(smiles):
    found = featurise(smiles)
    assert len(found.inputs) == len(found.rows) == len(found.canonical) == 0
    assert found.inputs.counts.shape == (0, 2048)
    assert found.inputs.descriptors.shape == (0, len(DESCRIPTORS))


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_a_stream_gives_the_same_piece_by_piece(chunk):
    whole, pieces = featurise(SMILES), list(stream(iter(SMILES), chunk=chunk))
    assert [error for piece in pieces for error in piece.errors] == whole.errors
    assert [text for piece in pieces for text in piece.canonical] == whole.canonical
    assert torch.equal(torch.cat([piece.inputs.counts for piece in pieces]), whole.inputs.counts)
    rows = [piece.rows + i * chunk for i, piece in enumerate(pieces)]
    assert torch.equal(torch.cat(rows), whole.rows)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="got the one text 'CCO'"):
        featurise("CCO")
    with pytest.raises(ValueError, match="max_atoms must be at least 1; got 0"):
        featurise(["CCO"], max_atoms=0)
    with pytest.raises(ValueError, match="chunk must be at least 1; got 0"):
        stream(["CCO"], chunk=0)
