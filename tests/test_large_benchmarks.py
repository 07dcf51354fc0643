"""The benchmarks of large graphs run, at sizes that take no time, and their tables are written."""

import json

import pytest
import torch

from benchmarks import report
from benchmarks.data.large_graph import pairs
from benchmarks.sampling import make

pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph")
    make.main([str(path), "--scale", "0.0005"])
    return path


def test_generated_large_graph_is_symmetric_without_self_loops(folder):
    (source, destination), nodes = pairs(folder, torch.int64)
    assert nodes == 1224
    assert not (source == destination).any()
    there, back = destination * nodes + source, source * nodes + destination
    assert torch.equal(there.sort().values, back.sort().values)


def test_report_fills_the_tables_of_the_guide(tmp_path, capsys):
    results, guide = tmp_path / "results", tmp_path / "docs/guide"
    results.mkdir()
    guide.mkdir(parents=True)
    for name in ("large_graphs.md", "node_memory.md", "distributed.md"):
        (guide / name).write_text((report.ROOT / "docs/guide" / name).read_text())
    options = ["--results", str(results), "--root", str(tmp_path)]
    report.main(options)
    assert capsys.readouterr().out.count("not measured") == len(report.TABLES)
    for name, row in ROWS.items():
        (results / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in row))
    report.main(options)
    text = (guide / "large_graphs.md").read_text()
    assert "| gattn | 1 | 4.00 million | 12.0 | 2.00x | 3 |" in text
    assert "| pyg | 0 | 2.00 million | 6.0 | 1.00x | 1 |" in text
    text = (guide / "node_memory.md").read_text()
    assert "| 90 | 800 | 24 | 1 | sampled | 1.5 GiB | 61.0 % | 60.0 % | 50.0 % | 40.0 % |" in text
    assert "| 90 | 800 | 24 | 1 | whole graph | 1.5 GiB | 62.0 %" in text
    assert "| 60,000 |" not in text
    assert "| GATConv | 2 | 20.0 MB | 20.0 MB |" in (guide / "distributed.md").read_text()


SPEED = {"workers": 1, "edges_per_second": 4e6, "batches_per_second": 12.0}
RANK = {"formula": 1e7, "handed": 1e7, "gradients": 1e3, "loopback_bytes": 2.1e7, "seconds": 1.0,
        "peak_bytes": 1e8}  # fmt: skip
HUGE = {"nodes": 90, "edges": 800, "columns": 24, "strengths": True, "peak_resident_gib": 1.5,
        "components": {"labels": 0.6, "neighbours": 0.5, "gat": 0.4}}  # fmt: skip
ROWS = {
    "sampling": [
        *({"side": "gattn", **SPEED, "edges_per_second": speed} for speed in (3e6, 4e6, 9e6)),
        {"side": "pyg", **SPEED, "edges_per_second": 1e6},
        {"side": "pyg", "workers": 0, "edges_per_second": 2e6, "batches_per_second": 6.0},
    ],
    "huge": [
        {**HUGE, "size": {"training": "sampled"}, "accuracy": 0.5},
        {**HUGE, "size": {"training": "sampled"}, "accuracy": 0.61},
        {**HUGE, "size": {"training": "whole graph"}, "accuracy": 0.62},
        {**HUGE, "nodes": 2_400_000, "size": {"training": "sampled"}, "accuracy": 0.9},
    ],
    "distributed": [{"case": "ring/GATConv", "processes": 2, "ranks": [RANK, RANK]}],
}
