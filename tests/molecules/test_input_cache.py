"""Tests of the cache of inputs: it is memory-mapped, so that no SMILES is parsed, and damage is
detected.
"""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from gattn.molecules import inputs
from gattn.molecules.fitting import FitPart
from gattn.molecules.input_cache import LAYOUT, locked
from gattn.molecules.inputs import ExpandedInputs, featurise
from gattn.molecules.predictor import MoleculePredictor
from gattn.molecules.settings import MoleculeSettings

SMILES = ["CCO", "(", "c1ccccc1", "[Na+].[Cl-]", "", "*", "C" * 300, "F/C=C/F", "N[C@@H](C)C(=O)O"]


def _same(ours, theirs):
    assert ours.molecules.smiles == theirs.molecules.smiles
    assert ours.molecules.rows == theirs.molecules.rows
    assert torch.equal(ours.counts, theirs.counts)
    assert torch.equal(ours.pairs, theirs.pairs)
    assert torch.equal(ours.descriptors, theirs.descriptors)
    for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr"):
        mine, expected = (getattr(each.molecules.arrays, name) for each in (ours, theirs))
        assert torch.equal(mine, expected)


@pytest.mark.parametrize("texts", [SMILES, [], ["(", ""], ["C"]])
def test_a_cache_is_read_in_place_of_parsing(tmp_path, monkeypatch, texts):
    cache = tmp_path / "inputs"
    # Parse two SMILES at a time, so that the file has several pieces.
    monkeypatch.setattr(inputs, "PIECE", 2)
    first = featurise(texts, cache=cache)

    def refuse(*_, **__):
        raise AssertionError("it was parsed again")

    _same(first.inputs, featurise(texts).inputs)
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "read_packed", refuse)
        again = featurise(texts, cache=cache)
    _same(again.inputs, first.inputs)
    assert again.errors == first.errors
    assert again.canonical == first.canonical
    assert torch.equal(again.row_index, first.row_index)


@pytest.mark.parametrize("change", ["texts", "max_atoms", "rdkit"])
def test_a_stale_cache_is_made_anew(tmp_path, monkeypatch, change):
    cache = tmp_path / "inputs"
    featurise(SMILES, cache=cache)
    before = cache.read_bytes()
    texts, options = SMILES, {}
    if change == "texts":
        texts = SMILES[::-1]
    elif change == "max_atoms":
        options["max_atoms"] = 5
    else:
        monkeypatch.setattr("rdkit.__version__", "1900.1")
    _same(featurise(texts, cache=cache, **options).inputs, featurise(texts, **options).inputs)
    assert cache.read_bytes() != before


def test_a_cache_that_is_something_else_is_left_alone(tmp_path):
    cache = tmp_path / "inputs"
    cache.write_text("notes")
    with pytest.raises(
        ValueError, match=r"the cache .*inputs is damaged, or is another kind of file.*: remove it"
    ):
        featurise(SMILES, cache=cache)
    assert cache.read_text() == "notes"


def _changed(content, name, place, value):
    """Return the bytes of a cache with one number of one array changed."""
    size = int.from_bytes(content[:8], "little")
    begin, _ = json.loads(content[8 : 8 + size])[name]["data_offsets"]
    number = np.array([value], LAYOUT[name][0]).tobytes()
    at = 8 + size + begin + place * len(number)
    return content[:at] + number + content[at + len(number) :]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("atoms", 0, 10_000),
        ("bonds", 0, -1),
        ("ends", 0, 3),
        ("columns", 0, 2048),
        ("atom_ptr", 1, 4),
        ("atom_ptr", 1, 1 << 40),
        ("count_ptr", 0, -8),
        ("bond_ptr", 7, 1 << 40),
        ("row_index", 0, 1),
        ("smiles", 0, 255),
    ],
)
def test_a_cache_that_was_tampered_with_is_refused(tmp_path, name, place, value):
    cache = tmp_path / "inputs"
    featurise(SMILES, cache=cache)
    cache.write_bytes(_changed(cache.read_bytes(), name, place, value))
    with pytest.raises(ValueError, match=f"is damaged.*checksum of {name} differs.*: remove it"):
        featurise(SMILES, cache=cache)


@pytest.mark.parametrize("name", [*LAYOUT])
def test_a_cache_with_one_changed_bit_is_refused(tmp_path, name):
    cache = tmp_path / "inputs"
    featurise([*SMILES, "C("], cache=cache)
    content = bytearray(cache.read_bytes())
    size = int.from_bytes(content[:8], "little")
    begin, end = json.loads(content[8 : 8 + size])[name]["data_offsets"]
    assert begin < end
    content[8 + size + (begin + end) // 2] ^= 1
    cache.write_bytes(content)
    with pytest.raises(ValueError, match=r"inputs is damaged.*: remove it"):
        featurise([*SMILES, "C("], cache=cache)


@pytest.mark.parametrize(("was", "put"), [('"I64"', '"F64"'), ('"atoms"', '"motas"')])
def test_a_cache_of_other_arrays_is_refused(tmp_path, was, put):
    cache = tmp_path / "inputs"
    featurise(SMILES, cache=cache)
    cache.write_bytes(cache.read_bytes().replace(was.encode(), put.encode()))
    with pytest.raises(ValueError, match=r"the cache .*inputs is damaged.*: remove it"):
        featurise(SMILES, cache=cache)


def test_a_truncated_cache_is_refused(tmp_path):
    cache = tmp_path / "inputs"
    featurise(SMILES, cache=cache)
    content = cache.read_bytes()
    cut = [content[:length] for length in [0, 4, 8, *range(100, len(content), 1500), -1]]
    other = [b"smiles,y\nCCO,1\n", bytes(len(content)), b"PK\x03\x04" + content, content + b"0"]
    for spoilt in (*cut, *other):
        cache.write_bytes(spoilt)
        with pytest.raises(ValueError, match=r"the cache .*inputs is damaged.*: remove it"):
            featurise(SMILES, cache=cache)


def test_an_interrupted_writing_leaves_nothing_that_is_read(tmp_path, monkeypatch):
    cache = tmp_path / "inputs"

    def fail(texts, **_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(inputs, "read_packed", fail)
        with pytest.raises(KeyboardInterrupt):
            featurise(SMILES, cache=cache)
    assert [path.name for path in tmp_path.iterdir()] == [".inputs.lock"]
    killed = tmp_path / ".inputs.parts"  # a process that was killed leaves this folder
    killed.mkdir()
    (killed / "atoms").write_bytes(b"some")
    _same(featurise(SMILES, cache=cache).inputs, featurise(SMILES).inputs)
    assert not killed.exists()


def test_one_process_writes_and_the_others_wait(tmp_path, monkeypatch):
    cache = tmp_path / "inputs"
    results = []
    with locked(cache):
        other = threading.Thread(target=lambda: results.append(featurise(SMILES, cache=cache)))
        other.start()
        other.join(0.05)
        assert not results
        assert not cache.exists()
    other.join(60)
    assert len(results) == 1


def test_the_file_is_mapped_and_some_of_it_is_viewed(tmp_path):
    cache = tmp_path / "inputs"
    inputs = featurise(SMILES, cache=cache).inputs
    maps = Path("/proc/self/maps")
    if maps.exists():  # only Linux lists the files that a process has mapped
        assert str(cache.resolve()) in maps.read_text()
    some = inputs[torch.tensor([4, 0])]
    assert some.arrays is inputs.arrays
    assert some[[1]].molecules.smiles == ["CCO"]


def test_training_does_not_tell_where_its_molecules_lie(tmp_path):
    texts = [f"{'C' * length}{end}" for length in range(1, 13) for end in ("O", "N", "Cl")]
    y = torch.arange(36.0)[:, None].double().sqrt()
    parsed = featurise(texts).inputs
    expanded = ExpandedInputs(parsed.molecules, parsed.counts, parsed.descriptors)
    settings = MoleculeSettings(epochs=2, width=16, heads=2, layers=1, batch_size=8)
    means = []
    for stored in (parsed, featurise(texts, cache=tmp_path / "inputs").inputs, expanded):
        train, val = stored[:30], stored[30:]
        predictor = MoleculePredictor.fit(
            FitPart(train, y[:30]), FitPart(val, y[30:]), "regression", settings
        )
        means.append(predictor.predict(stored).mean)
    assert torch.equal(means[0], means[1])
    assert torch.equal(means[0], means[2])
