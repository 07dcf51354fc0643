"""The benchmarks' own machinery, at sizes that take no time."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from benchmarks import (
    contenders,
    graphs,
    growth,
    memory,
    pages,
    record,
    report,
    tables,
    timing,
    verify,
)
from benchmarks.__main__ import main
from benchmarks.cases import cases, comparisons
from benchmarks.contenders import Contender, Topology
from benchmarks.settings import Settings

SCALE = 0.001


@pytest.fixture
def topology() -> Topology:
    return Topology(*graphs.power_law(SCALE))


def run(output: Path, *arguments: str) -> list[record.Record]:
    """What the command line records."""
    options = ["--scale", str(SCALE), "--seconds", "0.01", "--threads", "1", "--no-memory"]
    before = torch.get_num_threads()
    try:
        assert main([*arguments, *options, "--output", str(output)]) == 0
    finally:
        torch.set_num_threads(before)
    return [json.loads(line) for line in output.read_text().splitlines()]


def test_power_law_graph_has_the_size_and_skew_of_ogbn_arxiv() -> None:
    edge_index, nodes = graphs.power_law()
    assert nodes == 169_343
    assert edge_index.shape == (2, 2_499_999)
    degree = torch.bincount(edge_index[1], minlength=nodes)
    assert int(degree.min()) >= 1
    assert 10_000 < int(degree.max()) < 20_000
    assert torch.equal(degree, torch.bincount(edge_index[0], minlength=nodes))
    loops = edge_index[0] == edge_index[1]
    assert int(loops.sum()) == nodes
    again, _ = graphs.power_law()
    assert torch.equal(edge_index, again)


@pytest.mark.parametrize("name", ["additive", "mlp+edges", "dot_product+edges"])
def test_operator_cases_pass_their_check(name: str) -> None:
    found = comparisons()[f"power-law/operator/{name}"].check(SCALE * 16)
    assert found["error"] < 1e-5


def test_run_records_times_and_circumstances(tmp_path: Path, capsys) -> None:
    (found,) = run(tmp_path / "results.jsonl", "power-law/operator/additive")
    assert found["case"] == "power-law/operator/additive"
    assert found["scale"] == SCALE
    for what in ("forward", "training"):
        assert found["seconds"][what]["gattn"]["median"] > 0
        assert found["seconds"][what]["pyg"]["runs"] >= 3
    known = found["environment"]
    assert known["threads"] == 1
    assert known["command"].startswith("python -m benchmarks power-law/operator/additive")
    assert {"gattn", "torch", "torch_geometric"} <= set(known["versions"])
    assert "PyG" in capsys.readouterr().out


def test_nothing_is_timed_or_recorded_where_the_check_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    name = "power-law/operator/additive"
    right = comparisons()[name]

    def wrong(topology: Topology, dtype: torch.dtype) -> contenders.Pair:
        pair = right.make(topology, dtype)
        ours = pair["gattn"]
        if dtype == torch.float32:
            ours = Contender(lambda: pair["gattn"].forward() * 1.001, ours.leaves)
        return {**pair, "gattn": ours}

    broken = {name: dataclasses.replace(right, make=wrong)}
    monkeypatch.setattr("benchmarks.__main__.cases", lambda: broken)
    output = tmp_path / "results.jsonl"
    assert main([name, "--scale", str(SCALE), "--output", str(output)]) == 1
    assert not output.exists()
    assert "check failed" in capsys.readouterr().out


def test_error_sees_every_gradient_and_nan(topology: Topology) -> None:
    pair = contenders.additive(topology, torch.float32)
    right = verify.step(pair["gattn"])
    assert verify.error(right, right) == 0.0
    for name in ("out", "query_score", "key_score", "value"):
        bad = {**right, name: right[name] * 1.01}
        assert verify.error(bad, right) == pytest.approx(0.01, rel=1e-3)
        assert verify.error({**right, name: right[name] * torch.nan}, right) == float("inf")
    with pytest.raises(verify.CheckFailed, match="value has no gradient"):
        verify.error({"out": right["out"]}, {"value": right["value"]})


def test_error_of_a_gradient_that_is_zero_but_for_rounding() -> None:
    exact = {"out": torch.ones(2, dtype=torch.float64), "bias": torch.tensor([1e-17]).double()}
    found = {"out": torch.ones(2), "bias": torch.tensor([3e-7])}
    assert verify.error(found, exact) == pytest.approx(3e-7, rel=1e-3)


def test_two_runs_that_differ_are_refused() -> None:
    x = torch.ones(3, requires_grad=True)
    verify.repeatable(Contender(lambda: x * 2, {"x": x}))
    with pytest.raises(verify.CheckFailed, match="two runs differ in out"):
        verify.repeatable(Contender(lambda: x * torch.rand(()), {"x": x}))


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0.0)
    turns: list[str] = []
    functions = {name: (lambda name=name: turns.append(name)) for name in "ab"}
    found = timing.alternate(functions, seconds=0.0)
    calibration, untimed_first = list("aabb"), list("aabb" + "bbaa" + "aabb")
    assert turns == calibration + untimed_first
    assert found["a"]["runs"] == found["b"]["runs"] == timing.FEWEST


@pytest.mark.slow
def test_peak_memory_is_that_of_the_run() -> None:
    found = memory.measure("power-law/operator/additive", "pyg", "training", 0.05, 1)
    # PyG forms at least one tensor of edges x heads x channels.
    assert found > 0.05 * 2_499_999 * 8 * 16 * 4


@pytest.mark.parametrize("name", growth.OPERATORS)
def test_growth_checks_and_counts(name: str) -> None:
    found = growth.grow(name, 10_000)
    assert found["edges"] == pytest.approx(10_000, rel=0.01)
    assert found["error"] < 1e-5
    assert found["seconds"] > 0
    assert found["peak_bytes"] >= 0


def test_every_case_has_a_name_of_its_own_and_is_listed(capsys) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert listed == list(cases())
    assert {"cora/epoch", "esol-64/LearnedQueryReadout", "power-law/GATConv"} <= set(listed)


def test_report_fills_the_readme_from_the_newest_full_runs(tmp_path: Path) -> None:
    spread = {"low": 1.0, "high": 1.0, "runs": 3}
    environment = {
        "command": "python -m benchmarks", "date": "2030-01-01", "commit": "abc", "cpu": "a CPU",
        "threads": 2, "backend": "C++", "versions": {"gattn": "0"},
    }  # fmt: skip

    def line(case: str, scale: float, gattn: float, pyg: float) -> str:
        times = {"gattn": {**spread, "median": gattn}, "pyg": {**spread, "median": pyg}}
        found = {"case": case, "scale": scale, "seconds": {"training": times}, "check": {}}
        return json.dumps({**found, "environment": environment})

    results = tmp_path / "results.jsonl"
    results.write_text(
        "\n".join(
            [
                line("esol-64/GATConv", 1.0, 1.0, 2.0),
                line("esol-64/GATConv", 1.0, 0.5, 6.0),
                line("esol-64/GATv2Conv", 0.01, 1.0, 9.0),
            ]
        )
    )
    section = report.report(record.newest(results))
    assert "| GATConv | 500 ms | 6.00 s (PyG) | **12.0x** |" in section
    assert "| GATv2Conv |" not in section
    assert (
        "- a CPU, 2 threads; gattn 0:\n  `python -m benchmarks` (2030-01-01, commit abc)."
        in section
    )
    text = "before\n<!-- benchmark table -->\nold\n<!-- end of benchmark table -->\nafter\n"
    filled = pages.fill(text, report.MARK, section)
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "old" not in filled
    assert pages.fill(filled, report.MARK, section) == filled


def test_readme_has_the_place_for_the_table() -> None:
    pages.fill(report.README.read_text(), report.MARK, "")


def test_numbers_are_written_with_three_digits() -> None:
    assert [tables.seconds(v) for v in (2.0, 0.0123, 4.5e-6)] == ["2.00 s", "12.3 ms", "4.50 us"]
    assert [tables.size(v) for v in (1.5e9, 2e6)] == ["1.50 GB", "2.00 MB"]


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().threads = 3  # type: ignore[misc]
