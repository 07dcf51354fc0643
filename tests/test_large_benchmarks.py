"""The benchmarks of large graphs run, at sizes that take no time, and their tables are written."""

import json

import pytest
import torch

from benchmarks import full_graph, large_report
from benchmarks.data.large_graph import mapped_features, pairs
from benchmarks.sampling import make
from benchmarks.tools import edge_tables, large_tables
from benchmarks.tools.full_graph import line, step

pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph")
    make.main([str(path), "--scale", "0.0005"])
    return path


def test_no_node_is_its_own_neighbour(folder):
    (source, destination), nodes = pairs(folder, torch.int64)
    assert nodes == 1224
    assert not (source == destination).any()
    there, back = destination * nodes + source, source * nodes + destination
    assert torch.equal(there.sort().values, back.sort().values)


def test_features_are_mapped_in_any_dtype(folder):
    whole = mapped_features(folder, torch.float32)
    assert torch.equal(mapped_features(folder, torch.bfloat16), whole.bfloat16())
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("average", [False, True])
def test_a_step_has_the_losses_of_pyg(folder, average):
    ours, theirs = (step(side, folder, "float32", average) for side in ("gattn", "pyg"))
    assert ours["losses"] == pytest.approx(theirs["losses"], rel=1e-4)
    assert ours["losses"][1] < ours["losses"][0]
    assert ours["edges"] == theirs["edges"] == 31000
    full_graph._compare(ours, theirs)
    half = step("gattn", folder, "bfloat16", average)
    assert half["losses"] == pytest.approx(ours["losses"], rel=0.05)


def test_demand_is_a_straight_line():
    peers = [{"peak_bytes": 100 + 3 * edges, "edges": edges} for edges in (10, 20)]
    assert line(peers, 1000) == 3100


def test_tables_of_edges_are_read_laid_out_and_sampled(tmp_path):
    paths = edge_tables.write(tmp_path, 5000, 3000)
    results = [edge_tables.steps(path, 3000) for path in paths]
    assert [list(steps) for steps in results] == [["read", "laid out", "sampled"]] * 2
    assert results[0]["sampled"]["edges"] == results[1]["sampled"]["edges"] > 0
    assert results[0]["sampled"]["batches"] == 3


def test_the_guide_gets_its_tables(tmp_path, capsys):
    results, guide = tmp_path / "results", tmp_path / "guide"
    results.mkdir()
    guide.mkdir()
    for name in ("large_graphs.md", "distributed.md"):
        (guide / name).write_text((large_report.GUIDE / name).read_text())
    options = ["--results", str(results), "--guide", str(guide)]
    large_report.main(options)
    assert capsys.readouterr().out.count("not measured") == 5
    for name, row in ROWS.items():
        (results / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in row))
    large_report.main(options)
    text = (guide / "large_graphs.md").read_text()
    assert "| two layers of 4 x 16, and a linear map to 47 classes, float32 | 60.0 s |" in text
    assert "| gattn | 1 | 4.00 million | 12.0 | 2.00x | 3 |" in text
    assert "| pyg | 0 | 2.00 million | 6.0 | 1.00x | 1 |" in text
    assert "| 90 | 800 | 24 | 1 | sampled | 1.5 GiB | 61.0 % | 60.0 % | 50.0 % | 40.0 % |" in text
    assert "| 90 | 800 | 24 | 1 | whole graph | 1.5 GiB | 62.0 %" in text
    assert "2,400,000" not in text
    assert "| csv, 2.00 MB | read | 2.00 s | 3.00 MB |" in text
    assert "| GATConv | 2 | 20.0 MB | 20.0 MB |" in (guide / "distributed.md").read_text()


PEAK = {"seconds": 60.0, "peak_bytes": 2**33, "edges": 10}
SPEED = {"workers": 1, "edges_per_second": 4e6, "batches_per_second": 12.0}
RANK = {"formula": 1e7, "handed": 1e7, "gradients": 1e3, "loopback_bytes": 2.1e7, "seconds": 1.0,
        "peak_bytes": 1e8}  # fmt: skip
HUGE = {"nodes": 90, "edges": 800, "columns": 24, "strengths": True, "peak_resident_gib": 1.5,
        "components": {"labels": 0.6, "neighbours": 0.5, "gat": 0.4}}  # fmt: skip
ROWS = {
    "full_graph": [
        {"case": "full-graph/linear/float32", "gattn": PEAK, "pyg": [PEAK], "pyg_bytes": 2**37}
    ],
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
    "edge_tables": [
        {
            "case": "edge-tables/csv",
            "file_bytes": 2e6,
            "steps": {"read": {"seconds": 2.0, "bytes": 3e6}},
        }
    ],
    "distributed": [{"case": "ring/GATConv", "processes": 2, "ranks": [RANK, RANK]}],
}


def test_what_was_measured_without_pyg_has_no_line():
    row = {**ROWS["full_graph"][0], "pyg": []}
    assert "the line through" not in large_tables.training({row["case"]: row})
