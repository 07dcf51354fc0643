"""Inputs of a screening: files of folders and patterns."""

import pytest

from gattn.apps.molecules.screening.plan import find_inputs


def test_input_folders_and_patterns_are_expanded_to_files_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/b.csv", "in/a.smi.gz", "in/sub/c.parquet", "in/note.md", "in/.h.csv",
                 "in/x.parquet.gz", "out/shards/000000.csv", "other.txt"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def names(*inputs, out="out"):
        return [path.as_posix() for path in find_inputs(inputs, tmp_path / out)]

    assert names("in") == ["in/a.smi.gz", "in/b.csv", "in/sub/c.parquet"]
    assert names("in/*.csv", "in", "other.txt") == [
        "in/b.csv", "in/a.smi.gz", "in/sub/c.parquet", "other.txt",
    ]  # fmt: skip
    assert names("**/*.csv") == ["in/b.csv"]
    assert names(".") == ["in/a.smi.gz", "in/b.csv", "in/sub/c.parquet"]
    for bad, message in (
        ("no.csv", "no.csv does not exist"),
        ("no*.csv", "no file matches no\\*.csv"),
        ("none", "none contains no file with one of .csv"),
    ):
        (tmp_path / "none").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match=message):
            names(bad)
