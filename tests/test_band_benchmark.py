"""The benchmark of band attention runs and checks its results."""

import json

import pytest

from benchmarks.band import main
from benchmarks.suites import band
from gattn import graphs

pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.mark.parametrize("kind", band.KINDS)
def test_measures_one_size(kind):
    row = band.measure(kind, 300, 5)
    assert row["edges"] == graphs.band([300], 5).num_edges
    assert row["seconds"] > 0
    assert row["error"] < 1e-5


@pytest.mark.slow
def test_writes_a_record_and_a_table(tmp_path, capsys):
    output = tmp_path / "band.jsonl"
    main(["--largest", "1000", "--width", "4", "--threads", "1", "--output", str(output)])
    record = json.loads(output.read_text())
    assert [row["tokens"] for row in record["rows"]] == [1000]
    assert record["rows"][0]["band"]["peak_bytes"] > 0
    assert "versions" in record["environment"]
    assert "| 1,000 | 8,980 |" in capsys.readouterr().out


def test_says_where_dense_attention_stops():
    stopped = {"edges": 9, "prepare_seconds": 0.1, "seconds": 0.2, "peak_bytes": 1e6}
    rows = [{"tokens": 9, "band": stopped, "dense": {"stopped": "over 16 GB"}}]
    assert band.table(rows).endswith("| over 16 GB |  |")


def test_says_why_a_size_was_not_measured(tmp_path, capsys):
    output = tmp_path / "band.jsonl"
    main(["--largest", "1000", "--threads", "1", "--seconds", "0.01", "--output", str(output)])
    (row,) = json.loads(output.read_text())["rows"]
    assert row["band"] == row["dense"] == {"stopped": "over 0 s"}
    assert "| 1,000 |  |  | over 0 s |  | over 0 s |  |" in capsys.readouterr().out
