"""Tests of the registry: it is complete and correct."""

import hashlib
import re

import pytest

from gattn.data import DatasetRecord, dataset_names, get_dataset


@pytest.mark.parametrize("name", dataset_names())
def test_every_dataset_record_has_all_fields(name):
    record = get_dataset(name)
    assert isinstance(record, DatasetRecord)
    assert record.name == name
    assert record.kind in ("citation", "molecules")
    for field in ("title", "task", "metric", "protocol", "licence", "source", "folder"):
        assert getattr(record, field), field
    assert record.files
    for file in record.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.bytes > 0
    # The address must contain the hash of a commit, so that the downloaded files cannot change.
    assert record.package or re.match(r"https://.*/[0-9a-f]{40}/.*/$", record.url)
    assert (record.kind == "molecules") == bool(record.smiles and record.targets)
    for score in record.scores:
        assert score.model
        assert score.protocol
        assert score.source
        assert score.value > 0


@pytest.mark.parametrize("name", [n for n in dataset_names() if not get_dataset(n).package])
def test_registered_checksums_equal_those_of_the_files(real_data, name):
    record = get_dataset(name)
    paths = [real_data / record.folder / file.name for file in record.files]
    if not all(path.is_file() for path in paths):
        pytest.skip(f"{real_data / record.folder} is not complete")
    for file, path in zip(record.files, paths, strict=True):
        content = path.read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.bytes, file.sha256)
