"""The benchmark of band attention runs and checks its results."""

import json

import pytest

from benchmarks.band import main
from benchmarks.suites import band
from gattn import graphs

pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.mark.parametrize("kind", band.KINDS)
def test_band_and_dense_attention_agree(kind):
    row = band.measure(kind, 300, 5)
    assert row["edges"] == graphs.band([300], 5).num_edges
    assert row["seconds"] > 0
    assert row["error"] < 1e-5


def test_table_names_the_limit_that_stopped_dense_attention():
    stopped = {"edges": 9, "prepare_seconds": 0.1, "seconds": 0.2, "peak_bytes": 1e6}
    rows = [{"tokens": 9, "band": stopped, "dense": {"stopped": "over 16 GB"}}]
    assert band.table(rows).endswith("| over 16 GB |  |")


def test_size_over_the_time_limit_has_a_row_with_the_reason(tmp_path, capsys):
    output = tmp_path / "band.jsonl"
    main(["--largest", "1000", "--threads", "1", "--seconds", "0.01", "--output", str(output)])
    (row,) = json.loads(output.read_text())["rows"]
    assert row["band"] == row["dense"] == {"stopped": "over 0 s"}
    assert "| 1,000 |  |  | over 0 s |  | over 0 s |  |" in capsys.readouterr().out
