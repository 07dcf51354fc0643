"""Finding, downloading and verifying raw files, without a network."""

import dataclasses
import hashlib
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from gattn.data import DataFile, data_root, get_dataset, load_citation, load_molecules
from gattn.data.datasets.download import raw_files

CONTENT = b"smiles,y\nC,1\n"


@pytest.fixture
def served(tmp_path):
    """Data set of one file that a file:// URL serves."""
    server = tmp_path / "server"
    server.mkdir()
    (server / "a.csv").write_bytes(CONTENT)
    file = DataFile("a.csv", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    place = {"folder": "collection/served/raw", "url": server.as_uri() + "/"}
    return dataclasses.replace(get_dataset("esol"), name="served", files=(file,), **place)


def test_data_root_prefers_its_argument_then_the_variable_gattn_data_then_the_cache_folder(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("GATTN_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root(tmp_path / "argument") == tmp_path / "argument"
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv("GATTN_DATA")
    assert data_root() == tmp_path / "cache" / "gattn"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_root() == Path.home() / ".cache" / "gattn"


def test_downloaded_file_is_not_downloaded_again(served, tmp_path):
    path = raw_files(served, tmp_path / "root")["a.csv"]
    assert path == tmp_path / "root" / "collection" / "served" / "raw" / "a.csv"
    assert path.read_bytes() == CONTENT
    offline = dataclasses.replace(served, url="file:///nowhere/")
    assert raw_files(offline, tmp_path / "root")["a.csv"] == path


@pytest.mark.parametrize("folder", ["collection/served/raw", "served/raw"])
def test_data_files_are_read_from_both_folder_layouts(served, tmp_path, folder):
    path = tmp_path / "root" / folder / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert raw_files(served, tmp_path / "root", download=False)["a.csv"] == path


@pytest.mark.parametrize("sent", [b"", b"<html>moved</html>", CONTENT + b"\0" * 1000])
def test_download_with_another_checksum_raises_error_and_leaves_no_folder(served, tmp_path, sent):
    (tmp_path / "server" / "a.csv").write_bytes(sent)
    with pytest.raises(
        ValueError, match=r"the download from .*a\.csv is not the registered file.*It was"
    ):
        raw_files(served, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_failed_download_raises_error_and_leaves_no_folder(served, tmp_path):
    gone = dataclasses.replace(served, url="file:///nowhere/")
    with pytest.raises(OSError, match=r"could not download file:///nowhere/a\.csv") as caught:
        raw_files(gone, tmp_path / "root")
    for remedy in ("(a.csv)", "collection/served/raw", "root=...", "variable GATTN_DATA"):
        assert remedy in str(caught.value)
    assert not (tmp_path / "root").exists()


def test_download_reads_at_most_one_byte_more_than_the_registered_size(
    served, tmp_path, monkeypatch
):
    sizes = []

    class Response:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, size):
            sizes.append(size)
            return CONTENT

    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Response())
    raw_files(served, tmp_path / "root")
    assert sizes == [len(CONTENT) + 1]


def test_error_names_the_missing_file_if_download_is_off(served, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.csv is missing.*'served'.*root=.*GATTN_DATA"):
        raw_files(served, tmp_path, download=False)


@pytest.mark.parametrize(("load", "name"), [(load_citation, "cora"), (load_molecules, "esol")])
def test_loading_without_network_raises_error_with_a_remedy(load, name, tmp_path, monkeypatch):
    def unreachable(url, timeout):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    with pytest.raises(
        OSError, match=r"no network.*root=.*environment variable GATTN_DATA"
    ) as caught:
        load(name, tmp_path)
    assert get_dataset(name).folder in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_stored_file_with_another_checksum_raises_error(served, tmp_path):
    raw_files(served, tmp_path)["a.csv"].write_bytes(b"smiles,y\nC,2\n")
    with pytest.raises(ValueError, match=r"its SHA-256 should be [0-9a-f]{64} and is [0-9a-f]{64}"):
        raw_files(served, tmp_path)
