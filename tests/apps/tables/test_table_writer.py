"""Tables that are written in the format of their ending."""

import gzip
import sys
from io import BytesIO, TextIOWrapper

import pandas as pd
import pytest

from gattn.files import new_file, table_writer

ROWS = [["007", 0.5, "a,b"], ["8", 2, "c"]]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.TSV.gz", "t.parquet"])
def test_ending_of_the_file_name_determines_the_table_format(tmp_path, name):
    path = tmp_path / name
    with new_file(path) as temporary, table_writer(temporary, ["id", "x", "t"], texts=["id"]) as w:
        for row in ROWS:
            w.writerow(row)
    if name.endswith("parquet"):
        table = pd.read_parquet(path)
    else:
        content = path.read_bytes()
        assert (content[:2] == b"\x1f\x8b") == name.endswith(".gz")
        text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        assert ("\t" in text) == ("tsv" in name.lower())
        separator = "\t" if "tsv" in name.lower() else ","
        table = pd.read_csv(path, sep=separator, dtype={"id": str})
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert table.values.tolist() == ROWS


def test_table_with_an_unsupported_ending_raises_error(tmp_path):
    for name in ("t.xlsx", "t.csv.bz2", "t.parquet.gz", "t"):
        with (
            pytest.raises(ValueError, match=r"must end in \.csv, \.tsv, \.txt or \.parquet"),
            table_writer(tmp_path / name, ["x"]),
        ):
            pass
        assert not any(tmp_path.iterdir())


def test_table_for_standard_output_is_written_to_its_stream(monkeypatch):
    for name in ("-", "/dev/stdout"):
        stream = BytesIO()
        monkeypatch.setattr(sys, "stdout", TextIOWrapper(stream))
        with new_file(name) as temporary, table_writer(temporary, ["x"]) as writer:
            writer.writerow([1])
        assert stream.getvalue() == b"x\n1\n"
