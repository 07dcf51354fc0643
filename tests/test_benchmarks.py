"""The shared code of the benchmarks, at tiny sizes."""

import ast
import dataclasses
import importlib
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import benchmarks.report as report_command
import gattn
from benchmarks import compare
from benchmarks.__main__ import main
from benchmarks.core import isolate, memory, record, tables, timing, verify
from benchmarks.core.case import Contender, Topology
from benchmarks.data import graphs
from benchmarks.sides import layers
from benchmarks.sides.families import FAMILIES, OPERATORS
from benchmarks.suites import growth
from benchmarks.suites.cpu import cases, comparisons, power_law
from benchmarks.tools import report
from gattn.ops.registration.operator import OPERATORS as DECLARED

ROOT = Path(__file__).parents[1]
SCALE = 0.001
pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture
def topology() -> Topology:
    return power_law(SCALE)


def run(output: Path, *arguments: str) -> list[record.Record]:
    """Run the command line; return the records that it writes."""
    options = ["--scale", str(SCALE), "--seconds", "0.01", "--threads", "1", "--no-memory"]
    assert main([*arguments, *options, "--output", str(output)]) == 0
    return [json.loads(line) for line in output.read_text().splitlines()]


def test_power_law_graph_has_the_size_and_skew_of_ogbn_arxiv() -> None:
    topology = graphs.make("arxiv")
    edge_index, nodes = topology.edge_index, topology.num_nodes
    assert nodes == 169_343
    assert edge_index.shape == (2, 2_499_999)
    degree = torch.bincount(edge_index[1], minlength=nodes)
    assert int(degree.min()) >= 1
    assert 10_000 < int(degree.max()) < 20_000
    assert torch.equal(degree, torch.bincount(edge_index[0], minlength=nodes))
    loops = edge_index[0] == edge_index[1]
    assert int(loops.sum()) == nodes
    assert torch.equal(edge_index, graphs.make("arxiv").edge_index)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_both_libraries_agree(name: str) -> None:
    result = comparisons()[f"power-law/operator/{name}"].check(SCALE * 16)
    assert result["error"] < 1e-5


def test_record_has_times_command_threads_and_versions(tmp_path: Path, capsys) -> None:
    (result,) = run(tmp_path / "results.jsonl", "power-law/operator/gat")
    assert result["case"] == "power-law/operator/gat"
    assert result["scale"] == SCALE
    for what in ("forward", "training"):
        assert result["seconds"][what]["gattn"]["median"] > 0
        assert result["seconds"][what]["pyg"]["runs"] >= 3
    environment = result["environment"]
    assert environment["threads"] == 1
    assert environment["command"].startswith("python -m benchmarks power-law/operator/gat")
    assert {"gattn", "torch", "torch_geometric"} <= set(environment["versions"])
    assert "PyG" in capsys.readouterr().out


def test_case_with_wrong_results_is_not_timed_or_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    name = "power-law/operator/gat"
    right = comparisons()[name]

    def wrong(side: str, topology: Topology, dtype: torch.dtype) -> Contender:
        contender = right.make(side, topology, dtype)
        if side == "gattn" and dtype == torch.float32:
            return Contender(lambda: contender.forward() * 1.001, contender.leaves)
        return contender

    broken = {name: dataclasses.replace(right, make=wrong)}
    monkeypatch.setattr("benchmarks.__main__.cases", lambda: broken)
    output = tmp_path / "results.jsonl"
    options = ["--scale", str(SCALE), "--threads", "1", "--output", str(output)]
    assert main([name, *options]) == 1
    assert not output.exists()
    assert "check failed" in capsys.readouterr().out


def test_error_includes_every_gradient_and_nan(topology: Topology) -> None:
    right = verify.step(layers.operator("gattn", topology, torch.float32, name="gat"))
    assert verify.error(right, right) == 0.0
    for name in ("out", "query_score", "key_score", "value"):
        bad = {**right, name: right[name] * 1.01}
        assert verify.error(bad, right) == pytest.approx(0.01, rel=1e-3)
        assert verify.error({**right, name: right[name] * torch.nan}, right) == float("inf")
    with pytest.raises(verify.CheckFailed, match="value has no gradient"):
        verify.error({"out": right["out"]}, {"value": right["value"]})


def test_error_of_a_gradient_of_rounding_noise_is_absolute() -> None:
    exact = {"out": torch.ones(2, dtype=torch.float64), "bias": torch.tensor([1e-17]).double()}
    result = {"out": torch.ones(2), "bias": torch.tensor([3e-7])}
    assert verify.error(result, exact) == pytest.approx(3e-7, rel=1e-3)


def test_contender_with_random_results_is_refused() -> None:
    x = torch.ones(3, requires_grad=True)
    verify.repeatable(Contender(lambda: x * 2, {"x": x}))
    with pytest.raises(verify.CheckFailed, match="two runs differ in out"):
        verify.repeatable(Contender(lambda: x * torch.rand(()), {"x": x}))


def test_timed_contenders_alternate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SAMPLE_SECONDS", 0.0)
    turns: list[str] = []
    functions = {name: (lambda name=name: turns.append(name)) for name in "ab"}
    times = timing.alternate(functions, seconds=0.0)
    calibration, untimed_first = list("aabb"), list("aabb" + "bbaa" + "aabb")
    assert turns == calibration + untimed_first
    assert times["a"]["runs"] == times["b"]["runs"] == timing.FEWEST


def test_peak_memory_excludes_tensors_allocated_before() -> None:
    allocated = torch.ones(10**7)
    with memory.peak() as peak:
        torch.ones(10**7).add_(1)
    assert 3.9e7 < peak.bytes < 6e7
    assert allocated.numel() == 10**7


def test_isolated_call_is_stopped_at_its_limit_of_memory_and_time() -> None:
    with pytest.raises(isolate.Stopped, match="over 2 GB"):
        isolate.call(torch.ones, 10**10, threads=1, gigabytes=2)
    with pytest.raises(isolate.Stopped, match="over 0 s"):
        isolate.call(torch.ones, 1, threads=1, seconds=0.01)
    with isolate.Process(threads=1) as process:
        assert process.call(torch.get_num_threads) == 1
        with pytest.raises(RuntimeError, match="ValueError: could not convert"):
            process.call(float, "a")
        assert process.call(float, "2") == 2.0
    with pytest.raises(RuntimeError, match=r"its process ended \(3\)"):
        isolate.call(os._exit, 3, threads=1)


def test_every_family_of_scores_is_measured() -> None:
    declared = {name.removesuffix("_forward") for name in DECLARED if "_forward" in name}
    assert declared == FAMILIES.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_growth_of_each_operator_is_checked_and_timed(name: str) -> None:
    result = growth.grow(name, 10_000)
    assert result["edges"] == pytest.approx(10_000, rel=0.01)
    assert result["error"] < 1e-5
    assert result["seconds"] > 0
    assert result["peak_bytes"] >= 0


def test_list_prints_the_name_of_every_case(capsys) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert listed == list(cases())
    assert {"cora/epoch", "esol-64/LearnedQueryReadout", "power-law/GATConv"} <= set(listed)


def test_report_fills_the_page_from_the_newest_full_run_of_each_case(tmp_path: Path) -> None:
    spread = {"low": 1.0, "high": 1.0, "runs": 3}
    environment = {
        "command": "python -m benchmarks", "date": "2030-01-01", "commit": "abc", "cpu": "a CPU",
        "threads": 2, "backend": "C++", "versions": {"gattn": "0"},
    }  # fmt: skip

    def line(case: str, scale: float, gattn: float, pyg: float) -> str:
        times = {"gattn": {**spread, "median": gattn}, "pyg": {**spread, "median": pyg}}
        result = {"case": case, "scale": scale, "seconds": {"training": times}, "check": {}}
        return json.dumps({**result, "environment": environment})

    results = tmp_path / "results.jsonl"
    results.write_text(
        "\n".join(
            [
                line("esol-512/GATConv", 1.0, 1.0, 2.0),
                line("esol-512/GATConv", 1.0, 0.5, 6.0),
                line("esol-512/GATv2Conv", 0.01, 1.0, 9.0),
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
    filled = tables.fill(text, "benchmark table", section)
    assert filled.startswith("before\n")
    assert filled.endswith("after\n")
    assert "old" not in filled
    assert tables.fill(filled, "benchmark table", section) == filled


def test_pages_contain_the_recorded_results() -> None:
    for (results, page, name), table in report_command.TABLES.items():
        section, text = table(record.RESULTS / f"{results}.jsonl"), (ROOT / page).read_text()
        assert tables.fill(text, name, section) == text, page


def test_numbers_are_written_with_three_digits() -> None:
    assert [tables.seconds(v) for v in (2.0, 0.0123, 4.5e-6)] == ["2.00 s", "12.3 ms", "4.50 us"]
    assert [tables.size(v) for v in (1.5e9, 2e6)] == ["1.50 GB", "2.00 MB"]


def _copy_of_gattn(folder: Path) -> Path:
    """Copy of the package with the sources and the kernels in one folder, as a commit is built."""
    package = folder / "gattn"
    shutil.copytree(ROOT / "gattn", package, ignore=shutil.ignore_patterns("__pycache__"))
    # The extension may be installed in site-packages.
    built = getattr(gattn.kernels.cpu._kernels, "__file__", None)
    if built is not None:
        shutil.copy(built, package / "kernels" / "cpu")
    return package


@pytest.mark.slow
def test_commit_with_other_results_is_not_timed(tmp_path: Path, capsys) -> None:
    package = _copy_of_gattn(tmp_path)
    functional = package / "functional.py"
    functional.write_text(
        f"{functional.read_text()}\n"
        "_right = gat_attention\n"
        "def gat_attention(*args, **options):\n"
        "    return _right(*args, **options) * 1.001\n"
    )
    out = tmp_path / "compared.jsonl"
    same = ["power-law/operator/gatv2", "power-law/layout"]
    options = ["--scale", str(SCALE), "--seconds", "0.01", "--threads", "1"]
    options += ["--other", str(tmp_path), "--out", str(out)]
    assert compare.main(["HEAD", *options, "power-law/operator/gat", *same]) == 1
    stdout = capsys.readouterr().out
    assert "power-law/operator/gat: check failed, not timed: outputs differ by" in stdout
    assert "this/other" in stdout
    results = record.newest(out)
    assert set(results) == set(same)
    for line in results.values():
        assert line["check"] == {"differing": [], "apart": 0.0}
        for times in line["seconds"].values():
            assert times["this"]["runs"] == times["other"]["runs"] == times["ratio"]["runs"] >= 5
            assert times["ratio"]["low"] <= times["ratio"]["median"] <= times["ratio"]["high"]


ABOVE = ("apps", "data", "models", "sampling", "distributed")


def test_benchmarks_import_only_public_modules_of_the_library() -> None:
    """Only ``sides/internals.py`` imports private modules of gattn's lower layers."""
    above = tuple(f"gattn.{name}" for name in ABOVE)
    folder = ROOT / "benchmarks"
    paths = sorted({*folder.rglob("*.py")} - {folder / "sides" / "internals.py"})
    assert paths
    for path in paths:
        modules = imports(path)
        private = {
            name for name in modules if name.startswith("gattn.") and not name.startswith(above)
        }
        assert not private, f"{path.relative_to(ROOT)} imports {private}"


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, at the top or inside of functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


COMMANDS = [
    *sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py")),
    "molecules.attributions",
    "molecules.chemprop",
    "molecules.curves",
    "molecules.featurise",
    "molecules.inputs",
    "molecules.predict",
]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "__init__"])
def test_every_command_has_help(name: str, capsys) -> None:
    if name == "gpu":
        pytest.importorskip("triton")
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main(["--help"])
    assert ended.value.code == 0
    module = "benchmarks" if name == "__main__" else f"benchmarks.{name}"
    assert f"usage: python -m {module}" in capsys.readouterr().out
