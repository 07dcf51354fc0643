"""Tests of the inputs of molecule models: their order, an error for each invalid row, and the same
numbers as in gattn.data.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from gattn.apps.molecules import inputs
from gattn.apps.molecules.inputs import featurise, make_pieces
from gattn.data import DESCRIPTORS, molecule_descriptors, read_smiles
from gattn.data.molecules.plain import plain

SMILES = ["CCO", "C1CC", " c1ccccc1 ", "", "[Na+].[Cl-]", "*", "CN(C)(C)(C)C", "C" * 300, "[2H]"]
GOOD = [0, 2, 4, 5, 7, 8]


def test_bad_texts_cost_their_own_rows():
    result = featurise(SMILES)
    assert result.row_index.tolist() == GOOD
    assert [i for i, error in enumerate(result.errors) if not error] == GOOD
    bad = read_smiles(SMILES, on_error="skip").bad
    assert {row.row: row.reason for row in bad} == {
        i: error for i, error in enumerate(result.errors) if error
    }
    assert result.canonical == [Chem.CanonSmiles(SMILES[i].strip()) for i in GOOD]
    assert result.inputs.molecules.smiles == [SMILES[i].strip() for i in GOOD]


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


def test_counts_are_twice_those_of_rdkit_up_to_255():
    inputs = featurise(SMILES).inputs
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    for row, smiles in zip(inputs.counts, inputs.molecules.smiles, strict=True):
        molecule = plain(Chem.MolFromSmiles(smiles), smiles)
        counts = generator.GetCountFingerprintAsNumPy(molecule)
        assert row.tolist() == (2 * counts).clip(max=255).tolist()
    assert inputs.counts.max() == 255


def test_counts_tell_stereoisomers_apart():
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
    result = featurise(smiles)
    assert len(result.inputs) == len(result.row_index) == len(result.canonical) == 0
    assert result.inputs.counts.shape == (0, 2048)
    assert result.inputs.descriptors.shape == (0, len(DESCRIPTORS))


SCRIPT = """
import copy, hashlib, torch
from gattn.apps.molecules import inputs
torch.rand(300, 300) @ torch.rand(300, 300)  # its threads run before others are started
inputs.FEW = 1
texts = ["C" * (1 + i % 30) + "[C@H](N)O" * (i % 3) + "(" * (i % 5 == 4) for i in range(100)]
identical = copy.copy  # processes can import it
digests = []
for workers in (1, 2):
    digest = hashlib.sha256()
    for piece in inputs.make_pieces(identical, iter(texts), chunk=7, workers=workers):
        arrays = piece.result.molecules.arrays
        for part in (arrays.x, arrays.edge_index, arrays.edge_attr, arrays.ptr, piece.row_index,
                     piece.result.counts, piece.result.descriptors):
            digest.update(part.numpy().tobytes())
        digest.update(str((piece.result.molecules.smiles, piece.errors)).encode())
    digests.append(digest.hexdigest())
few = inputs.make_pieces(identical, iter(texts), chunk=7, workers=2)
next(few)
few.close()
print(*digests)
"""


@pytest.mark.slow
def test_processes_give_the_same_also_to_a_script_without_a_main(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, path], env=env, capture_output=True, text=True, timeout=600
    )
    assert done.stderr == ""
    alone, together = done.stdout.split()
    assert alone == together


def test_pieces_are_joined(monkeypatch):
    whole = featurise(SMILES)
    monkeypatch.setattr(inputs, "PIECE", 2)
    joined = featurise(SMILES)
    assert joined.errors == whole.errors
    assert joined.canonical == whole.canonical
    assert torch.equal(joined.row_index, whole.row_index)
    ours, theirs = joined.inputs, whole.inputs
    assert torch.equal(ours.counts, theirs.counts)
    assert torch.equal(ours.descriptors, theirs.descriptors)
    assert ours.molecules.smiles == theirs.molecules.smiles
    assert ours.molecules.rows == theirs.molecules.rows
    for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr"):
        mine, expected = (getattr(each.molecules.arrays, name) for each in (ours, theirs))
        assert torch.equal(mine, expected)
        assert mine.dtype == expected.dtype


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="got a single string 'CCO'"):
        featurise("CCO")
    with pytest.raises(ValueError, match="max_atoms must be at least 1; got 0"):
        featurise(["CCO"], max_atoms=0)
    with pytest.raises(ValueError, match="chunk must be at least 1; got 0"):
        make_pieces(len, ["CCO"], chunk=0)


WORDS = """
C N O * . # = ( ) [ ] @ 1 %10 -> c1ccccc1 F/C=C/F C(=O)O S(=O)(=O) [Si] [2H] [Na+] [Cl-] [235U]
[nH] [C@@H] [Fe+2] [*:1] é
"""
ATOM = st.sampled_from([*WORDS.split(), " ", "\n", "\0", "\udcff"])
TEXTS = st.lists(st.lists(ATOM, max_size=8).map("".join) | st.text(max_size=8), max_size=12)


@settings(deadline=None, max_examples=60)
@given(TEXTS, st.integers(1, 5))
def test_any_text_is_a_molecule_or_an_error_of_its_own_row(texts, chunk):
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


@pytest.mark.slow
def test_a_long_polymer_is_read_where_it_may_be():
    result = featurise(["CC(c1ccccc1)" * 625], max_atoms=5000)
    assert result.inputs.molecules.arrays.ptr.tolist() == [0, 5000]
    assert result.inputs.descriptors.isfinite().all()
    assert featurise(["CCO" * 1666]).errors == ["4998 atoms are more than max_atoms=1000"]


def test_items_stay_with_the_results_of_their_smiles():
    items = [(i, "(" if i % 3 == 1 else "C" * (i + 1)) for i in range(10)]
    pieces = make_pieces(_sizes, iter(items), smiles=lambda item: item[1], chunk=4)
    seen = []
    for piece in pieces:
        sizes = dict(zip(piece.row_index.tolist(), piece.result, strict=True))
        for position, (item, error) in enumerate(zip(piece.items, piece.errors, strict=True)):
            seen.append(item)
            assert sizes.get(position) == (None if item[0] % 3 == 1 else item[0] + 1)
            assert bool(error) == (item[0] % 3 == 1)
    assert seen == items


def _sizes(inputs):
    return [len(inputs[[i]].molecules.arrays.x) for i in range(len(inputs))]
