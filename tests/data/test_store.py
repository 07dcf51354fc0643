"""Molecules in a file: equal when they come back, refused when stale, broken or something else."""

import hashlib
import io
import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from gattn.data import (
    MoleculeError,
    Molecules,
    features,
    load_molecules,
    mol_graph,
    read_csv,
    read_smiles,
    reading,
)
from gattn.data.features import FEATURISER

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
    found = _read(path)
    assert found.bad
    for i, mols in enumerate((found, found[:0], read_smiles([]), found[[2, 2]])):
        mols.save(tmp_path / f"{i}.any")
        _same(Molecules.load(tmp_path / f"{i}.any"), mols)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["0.any", "1.any", "2.any", "3.any", "some.csv"]


def test_a_file_holds_no_pickle(path, tmp_path):
    _read(path).save(tmp_path / "mols")
    with zipfile.ZipFile(tmp_path / "mols") as archive:
        for name in archive.namelist():
            array = np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
            assert array.dtype.kind in "uif", name


def _without(monkeypatch):
    """Parsing fails from here on: what is read comes from the cache."""

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
        monkeypatch.setattr("gattn.data._store.FEATURISER", "another")
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
        ValueError, match=r"some\.csv is damaged, or is no file of Molecules\.save.*: remove it"
    ):
        _read(path, cache=path)
    assert path.read_text() == CSV


def test_other_features_are_refused_with_what_to_do(path, tmp_path, monkeypatch):
    _read(path).save(tmp_path / "mols")
    monkeypatch.setattr("gattn.data._store.FEATURISER", "7")
    with pytest.raises(ValueError, match=f"version {FEATURISER} .* this gattn has version 7: read"):
        Molecules.load(tmp_path / "mols")


def test_another_source_is_refused(path, tmp_path):
    _read(path).save(tmp_path / "mols", made_from="June")
    assert Molecules.load(tmp_path / "mols", made_from="June").smiles == FOUND
    assert Molecules.load(tmp_path / "mols").smiles == FOUND
    with pytest.raises(ValueError, match="says 'June', not 'July'"):
        Molecules.load(tmp_path / "mols", made_from="July")


def test_registered_data_are_cached(tmp_path, monkeypatch):
    first = load_molecules("chembl2321810", cache=tmp_path / "c")
    _without(monkeypatch)
    _same(load_molecules("chembl2321810", cache=tmp_path / "c"), first)


def _altered(content, **changes):
    """A saved file in which some arrays are others."""
    with np.load(io.BytesIO(content)) as archive:
        held = {key: archive[key] for key in archive.files}
    held.update({key: change(held[key]) for key, change in changes.items()})
    out = io.BytesIO()
    np.savez(out, **held)
    return out.getvalue()


def _header(**changes):
    def change(array):
        header = json.loads(array.tobytes())
        header.update(changes)
        return np.frombuffer(json.dumps(header).encode(), np.uint8)

    return change


BROKEN = {
    "nothing": (lambda raw: b"", ""),
    "text": (lambda raw: b"smiles,y\n", ""),
    "a pickle": (lambda raw: pickle.dumps({"x": 1}), ""),
    "a pickle inside": (lambda raw: _altered(raw, y=lambda _: np.array([object()])), "pickle"),
    "one array": (lambda raw: _npy(np.zeros(3)), ""),
    "another archive": (lambda raw: _npz(a=np.zeros(3)), "header"),
    "cut": (lambda raw: raw[: len(raw) // 2], ""),
    "a bit turned": (lambda raw: raw[:150] + bytes([raw[150] ^ 4]) + raw[151:], ""),
    "another format": (lambda raw: _altered(raw, header=_header(format="mine")), "is 'mine'"),
    "header no JSON": (lambda raw: _altered(raw, header=lambda _: np.zeros(4, np.uint8)), ""),
    "too few texts": (lambda raw: _altered(raw, header=_header(smiles=["C"])), "ptr must be"),
    "too few rows": (lambda raw: _altered(raw, header=_header(rows=[0])), "rows must hold 3"),
    "too many targets": (lambda raw: _altered(raw, header=_header(targets=["a"])), "y must be"),
    "atoms as float64": (lambda raw: _altered(raw, x=lambda x: x.astype("f8")), "x must be"),
    "an atom less": (lambda raw: _altered(raw, x=lambda x: x[1:]), "ptr must rise from 0 to 9"),
    "ptr falls": (lambda raw: _altered(raw, ptr=lambda p: p[[0, 2, 1, 3]]), "ptr must rise"),
    "edge far away": (lambda raw: _altered(raw, edge_index=lambda e: e + 9), "its own molecule"),
    "no list of texts": (lambda raw: _altered(raw, header=_header(smiles="CNO")), "smiles must be"),
    "rows as texts": (lambda raw: _altered(raw, header=_header(rows=[0, "a", 2])), "rows must be"),
    "bad rows absent": (lambda raw: _altered(raw, header=_header(bad=None)), "bad must be"),
    "bad rows cut": (lambda raw: _altered(raw, header=_header(bad=[[1]])), "a bad row must hold"),
    "directory moved": (lambda raw: raw[:-6] + b"\xff\xff\xff\x7f" + raw[-2:], ""),
    "edge negative": (lambda raw: _altered(raw, edge_index=lambda e: e - 1), "its own molecule"),
}  # fmt: skip


def _npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused(path, tmp_path, case):
    change, says = BROKEN[case]
    saved = tmp_path / "mols"
    _read(path).save(saved)
    saved.write_bytes(change(saved.read_bytes()))
    with pytest.raises(
        ValueError, match=f"mols is damaged, or is no file of Molecules.save.*{says}.*: remove it"
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
        "from gattn.data import Molecules, mol_graph, morgan_fingerprints, scaffold_split\n"
        f"mols = Molecules.load({str(tmp_path / 'mols')!r}); print(len(mols), mols[0].smiles)\n"
        "for need in (lambda: mol_graph('C'), lambda: scaffold_split(mols),\n"
        "             lambda: morgan_fingerprints(mols)):\n"
        "    try: need()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *errors = done.stdout.splitlines()
    assert first == "3 CCO"
    assert errors == ['molecules need RDKit: pip install "gattn[molecules]"'] * 3


def test_features_that_change_get_a_new_version():
    """Whoever changes what an atom or a bond is described by raises FEATURISER, then this pair."""
    digest = hashlib.sha256()
    for text in ("C[C@H](N)C(=O)[O-]", "F/C=C/F", "c1cc[nH]c1", "C#N", "[Na+].[Cl-]"):
        graph = mol_graph(text)
        for part in (graph.x, graph.edge_index, graph.edge_attr):
            digest.update(part.numpy().tobytes())
    digest.update(repr((features.ATOM_FEATURES, features.BOND_FEATURES)).encode())
    assert (FEATURISER, digest.hexdigest()[:16]) == ("2", "bb725ebd4893990f")
