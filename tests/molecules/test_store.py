"""Inputs in files: a cache that is read in place of parsing."""

import pytest
import torch

from gattn.data.archives import read_archive, write_archive
from gattn.molecules import inputs
from gattn.molecules.inputs import featurise

SMILES = ["CCO", "(", "c1ccccc1", "[Na+].[Cl-]", "", "*", "C" * 300, "F/C=C/F", "N[C@@H](C)C(=O)O"]


def _same(ours, theirs):
    assert ours.molecules.smiles == theirs.molecules.smiles
    assert torch.equal(ours.counts, theirs.counts)
    assert torch.equal(ours.descriptors, theirs.descriptors)
    for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr"):
        mine, wanted = (getattr(each.molecules.arrays, name) for each in (ours, theirs))
        assert torch.equal(mine, wanted)


def test_a_cache_is_read_in_place_of_parsing(tmp_path, monkeypatch):
    cache = tmp_path / "inputs.npz"
    first = featurise(SMILES, cache=cache)

    def refuse(*_, **__):
        raise AssertionError("it was parsed again")

    _same(first.inputs, featurise(SMILES).inputs)
    with monkeypatch.context() as patch:
        patch.setattr(inputs, "read_packed", refuse)
        again = featurise(SMILES, cache=cache)
    _same(again.inputs, first.inputs)
    assert again.errors == first.errors
    assert again.canonical == first.canonical
    assert torch.equal(again.rows, first.rows)


@pytest.mark.parametrize("change", ["texts", "max_atoms", "rdkit"])
def test_a_stale_cache_is_made_anew(tmp_path, monkeypatch, change):
    cache = tmp_path / "inputs.npz"
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
    cache = tmp_path / "inputs.npz"
    cache.write_text("notes")
    with pytest.raises(ValueError, match=r"inputs\.npz holds no inputs of molecules"):
        featurise(SMILES, cache=cache)
    assert cache.read_text() == "notes"


@pytest.mark.parametrize(
    ("name", "index", "value", "says"),
    [
        ("atoms", 0, 10_000, "atoms must name what is there"),
        ("bonds", 0, -1, "bonds must name what is there"),
        ("ends", (0, 0), 3, "ends must name what is there"),
        ("places", 0, 2048, "places must name what is there"),
        ("sizes", (0, 0), 4, r"atoms must be \(3"),
        ("columns", 0, 0, r"places must be"),
    ],
)
def test_a_cache_that_was_tampered_with_is_refused(tmp_path, name, index, value, says):
    cache = tmp_path / "inputs.npz"
    featurise(SMILES, cache=cache)
    header, arrays = read_archive(cache)
    arrays[name][index] = value
    write_archive(cache, header, arrays)
    with pytest.raises(ValueError, match=says):
        featurise(SMILES, cache=cache)


def test_a_truncated_cache_is_refused(tmp_path):
    cache = tmp_path / "inputs.npz"
    featurise(SMILES, cache=cache)
    content = cache.read_bytes()
    for length in range(0, len(content), 500):
        cache.write_bytes(content[:length])
        with pytest.raises(ValueError, match="holds no inputs of molecules, or is broken"):
            featurise(SMILES, cache=cache)
