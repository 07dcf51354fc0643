"""Tests of saved molecules: they are equal after loading, and stale, damaged and foreign files are
rejected.
"""

import hashlib
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from gattn.data import (
    MoleculeError,
    Molecules,
    load_molecules,
    read_csv,
    read_smiles,
    smiles_to_data,
)
from gattn.data.array_file import read_metadata, write_arrays
from gattn.data.molecules import features, reading, store
from gattn.data.molecules.features import FEATURISER

CSV = "smiles,a,b\nCCO,1,\nC1,2,3\nC[C@H](N)C(=O)O,,0.5\nC,4,5\n"
FOUND = ["CCO", "C[C@H](N)C(=O)O", "C"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text(CSV)
    return path


def _read(path, **options):
    options = {"smiles": "smiles", "targets": ["a", "b"], "on_error": "skip", **options}
    return read_csv(path, **options)


def _same(ours, theirs):
    for name in ("x", "edge_index", "edge_attr", "ptr", "edge_ptr"):
        ours_a, theirs_a = getattr(ours.arrays, name), getattr(theirs.arrays, name)
        assert ours_a.dtype == theirs_a.dtype
        assert torch.equal(ours_a, theirs_a), name
    torch.testing.assert_close(ours.y, theirs.y, rtol=0, atol=0, equal_nan=True)
    for name in ("smiles", "targets", "rows", "bad"):
        assert getattr(ours, name) == getattr(theirs, name), name


def test_what_was_saved_comes_back(path, tmp_path):
    molecules = _read(path)
    assert molecules.bad
    for i, mols in enumerate((molecules, molecules[:0], read_smiles([]), molecules[[2, 2]])):
        mols.save(tmp_path / f"{i}.any")
        _same(Molecules.load(tmp_path / f"{i}.any"), mols)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["0.any", "1.any", "2.any", "3.any", "some.csv"]


def _without(monkeypatch):
    """Make the parser fail, so that molecules can only be read from the cache."""

    def refuse(*_):
        raise AssertionError("it was parsed again")

    monkeypatch.setattr(reading, "parse_or_reason", refuse)


def test_a_cache_is_read_in_place_of_parsing(path, tmp_path, monkeypatch):
    cache = tmp_path / "cache.npz"
    first = _read(path, cache=cache)
    _same(first, _read(path))
    _without(monkeypatch)
    _same(_read(path, cache=cache), first)
    with pytest.raises(MoleculeError, match=r"1 bad row.*some\.csv"):
        _read(path, cache=cache, on_error="raise")


@pytest.mark.parametrize(
    "change",
    ["source", "targets", "max_atoms", "features", "rdkit"],
)
def test_a_stale_cache_is_made_anew(path, tmp_path, monkeypatch, change):
    import rdkit

    cache, options = tmp_path / "cache.npz", {}
    before = _read(path, cache=cache)
    if change == "source":
        path.write_text(CSV + "N,0,0\n")
    elif change == "targets":
        options["targets"] = ["b"]
    elif change == "max_atoms":
        options["max_atoms"] = 5
    elif change == "features":
        monkeypatch.setattr("gattn.data.molecules.store.FEATURISER", "another")
    else:
        monkeypatch.setattr(rdkit, "__version__", "1900.1")
    with monkeypatch.context() as patch:
        _without(patch)
        with pytest.raises(AssertionError, match="parsed again"):
            _read(path, cache=cache, **options)
    after = _read(path, cache=cache, **options)
    _same(after, _read(path, **options))
    assert change in ("features", "rdkit") or (len(after), after.targets) != (
        len(before), before.targets
    )  # fmt: skip
    _without(monkeypatch)
    _same(_read(path, cache=cache, **options), after)


def test_a_cache_that_is_something_else_is_left_alone(path):
    with pytest.raises(
        ValueError,
        match=r"some\.csv is damaged, or was not written by Molecules\.save.*: remove it",
    ):
        _read(path, cache=path)
    assert path.read_text() == CSV


def test_other_features_are_refused_with_what_to_do(path, tmp_path, monkeypatch):
    _read(path).save(tmp_path / "mols")
    monkeypatch.setattr("gattn.data.molecules.store.FEATURISER", "7")
    with pytest.raises(
        ValueError, match=f"version {FEATURISER} .* this version of gattn has version 7: read"
    ):
        Molecules.load(tmp_path / "mols")


def test_another_source_is_refused(path, tmp_path):
    _read(path).save(tmp_path / "mols", made_from="June")
    assert Molecules.load(tmp_path / "mols", made_from="June").smiles == FOUND
    assert Molecules.load(tmp_path / "mols").smiles == FOUND
    with pytest.raises(ValueError, match="was written from 'June', not 'July'"):
        Molecules.load(tmp_path / "mols", made_from="July")


def test_registered_data_are_cached(tmp_path, monkeypatch):
    first = load_molecules("chembl2321810", cache=tmp_path / "c")
    _without(monkeypatch)
    _same(load_molecules("chembl2321810", cache=tmp_path / "c"), first)


def _altered(content, metadata=None, **changes):
    """Rewrite a saved file with some arrays changed and their checksums updated."""
    arrays = load(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "altered")
        path.write_bytes(content)
        texts = {**read_metadata(path, store.FORMAT), **(metadata or {})}
        arrays.update({key: change(arrays[key]) for key, change in changes.items()})
        write_arrays(path, arrays, texts)
        return path.read_bytes()


def _lists(**changes):
    def change(array):
        lists = json.loads(array.tobytes())
        lists.update(changes)
        return np.frombuffer(json.dumps(lists).encode(), np.uint8)

    return change


def _without_array(content, name):
    return save({key: array for key, array in load(content).items() if key != name}, HEADER)


TEXTS = {"format": store.FORMAT, "featuriser": FEATURISER, "made_from": "", "crc32": {}}
HEADER = {"gattn": json.dumps(TEXTS)}
BROKEN = {
    "nothing": (lambda raw: b"", ""),
    "text": (lambda raw: b"smiles,y\n", ""),
    "a pickle": (lambda raw: pickle.dumps({"x": 1}), ""),
    "other arrays": (lambda raw: save({"a": np.zeros(3)}), "format is None"),
    "an array missing": (lambda raw: _without_array(raw, "ends"), "ends"),
    "no checksums": (lambda raw: save(load(raw), HEADER), ""),
    "cut": (lambda raw: raw[: len(raw) // 2], ""),
    "a bit turned": (lambda raw: raw[:-9] + bytes([raw[-9] ^ 4]) + raw[-8:], "checksum of"),
    "another format": (lambda raw: _altered(raw, {"format": "mine"}), "is 'mine'"),
    "lists no JSON": (lambda raw: _altered(raw, lists=lambda _: np.zeros(4, np.uint8)), ""),
    "too few lists": (lambda raw: _altered(raw, lists=lambda _: _bytes(b"{}")), "required field"),
    "too few texts": (lambda raw: _altered(raw, lists=_lists(smiles=["C"])), "rows must have 1"),
    "too few rows": (lambda raw: _altered(raw, lists=_lists(rows=[0])), "rows must have 3"),
    "too many targets": (lambda raw: _altered(raw, lists=_lists(targets=["a"])), "y must have 3"),
    "codes as int64": (lambda raw: _altered(raw, atoms=lambda x: x.astype("i8")), "atoms must"),
    "a narrow table": (lambda raw: _altered(raw, atom_table=lambda x: x[:, 1:]), "atom_table must"),
    "no such row": (lambda raw: _altered(raw, atoms=lambda x: x + 99), "rows of atom_table"),
    "a negative row": (lambda raw: _altered(raw, edges=lambda x: x - 99), "rows of edge_table"),
    "an atom less": (lambda raw: _altered(raw, atoms=lambda x: x[1:]), "must ascend from 0 to 9"),
    "ptr falls": (lambda raw: _altered(raw, ptr=lambda p: p[[0, 2, 1, 3]]), "ptr must ascend"),
    "ptr short": (lambda raw: _altered(raw, edge_ptr=lambda p: p[:-1]), "edge_ptr must have 4"),
    "edge far away": (lambda raw: _altered(raw, ends=lambda e: e + 9), "the same molecule"),
    "an end less": (lambda raw: _altered(raw, ends=lambda e: e[1:]), "ends must have"),
    "no list of texts": (lambda raw: _altered(raw, lists=_lists(smiles="CNO")), r"str.*\.smiles"),
    "rows as texts": (lambda raw: _altered(raw, lists=_lists(rows=[0, "a", 2])), r"str.*\.rows"),
    "bad rows absent": (lambda raw: _altered(raw, lists=_lists(bad=None)), r"null.*\.bad"),
    "bad rows cut": (lambda raw: _altered(raw, lists=_lists(bad=[[1]])), "length 4, got 1"),
    "edge negative": (lambda raw: _altered(raw, ends=lambda e: e - 1), "the same molecule"),
}  # fmt: skip


def _bytes(text):
    return np.frombuffer(text, np.uint8)


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused(path, tmp_path, case):
    change, says = BROKEN[case]
    saved = tmp_path / "mols"
    _read(path).save(saved)
    saved.write_bytes(change(saved.read_bytes()))
    with pytest.raises(
        ValueError,
        match=f"mols is damaged, or was not written by Molecules.save.*{says}.*: remove it",
    ):
        Molecules.load(saved)


def test_no_file_and_no_folder_are_named(path, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Molecules.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _read(path).save(tmp_path / "nowhere" / "mols")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*/none must exist to write a\.npz"):
        read_smiles(["C"]).save(tmp_path / "none" / "a.npz")


def test_loading_needs_no_rdkit(path, tmp_path):
    _read(path).save(tmp_path / "mols")
    code = (
        "import sys; sys.modules['rdkit'] = None\n"
        "from gattn.data import Molecules, smiles_to_data, morgan_fingerprints, scaffold_split\n"
        f"mols = Molecules.load({str(tmp_path / 'mols')!r}); print(len(mols), mols[0].smiles)\n"
        "for need in (lambda: smiles_to_data('C'), lambda: scaffold_split(mols),\n"
        "             lambda: morgan_fingerprints(mols)):\n"
        "    try: need()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *errors = done.stdout.splitlines()
    assert first == "3 CCO"
    assert errors == ['molecules need RDKit: pip install "gattn[molecules]"'] * 3


def test_features_that_change_get_a_new_version():
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
