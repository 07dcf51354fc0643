"""The shared code of the benchmarks, at tiny sizes."""

import ast
import dataclasses
import importlib
from pathlib import Path

import pytest
import torch

import benchmarks.report as report_command
from benchmarks import shapes
from benchmarks.__main__ import main
from benchmarks.core import record, tables, verify
from benchmarks.core.case import Contender, Topology
from benchmarks.sides import layers
from benchmarks.sides.families import OPERATORS
from benchmarks.suites.cpu import comparisons, power_law
from tests.test_architecture import Module

ROOT = Path(__file__).parents[1]
SCALE = 0.001
pytestmark = pytest.mark.usefixtures("own_threads")


@pytest.fixture
def topology() -> Topology:
    return power_law(SCALE)


@pytest.mark.parametrize("name", OPERATORS)
def test_benchmark_operators_give_equal_results_in_pyg_and_gattn(name: str) -> None:
    result = comparisons()[f"power-law/operator/{name}"].check(SCALE * 16)
    assert result["error"] < 1e-5


def test_benchmark_case_with_wrong_results_is_neither_timed_nor_recorded(
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


@pytest.mark.parametrize("name", shapes.LAYERS)
def test_benchmark_layers_give_equal_results_in_pyg_and_gattn(name: str) -> None:
    ratios = shapes.compare(name, shapes.SHAPES["tiny"], 0)
    assert list(ratios) == ["forward", "training"]
    assert min(ratio["low"] for ratio in ratios.values()) > 0


def test_benchmark_error_includes_every_gradient_and_nan(topology: Topology) -> None:
    right = verify.step(layers.operator("gattn", topology, torch.float32, name="gat"))
    assert verify.error(right, right) == 0.0
    for name in ("out", "query_score", "key_score", "value"):
        bad = {**right, name: right[name] * 1.01}
        assert verify.error(bad, right) == pytest.approx(0.01, rel=1e-3)
        assert verify.error({**right, name: right[name] * torch.nan}, right) == float("inf")
    with pytest.raises(verify.CheckFailed, match="value has no gradient"):
        verify.error({"out": right["out"]}, {"value": right["value"]})


def test_benchmark_of_a_layer_with_random_results_raises_error() -> None:
    x = torch.ones(3, requires_grad=True)
    verify.repeatable(Contender(lambda: x * 2, {"x": x}))
    with pytest.raises(verify.CheckFailed, match="two runs differ in out"):
        verify.repeatable(Contender(lambda: x * torch.rand(()), {"x": x}))


def test_benchmark_pages_contain_the_recorded_results() -> None:
    for (results, page, name), table in report_command.TABLES.items():
        section, text = table(record.RESULTS / f"{results}.jsonl"), (ROOT / page).read_text()
        assert tables.fill(text, name, section) == text, page


ABOVE = ("apps", "data", "models", "sampling", "distributed")


def test_benchmarks_import_only_public_modules_of_the_library() -> None:
    """Only ``sides/internals.py`` imports private modules of gattn's lower layers."""
    above = tuple(f"gattn.{name}" for name in ABOVE)
    folder = ROOT / "benchmarks"
    paths = sorted({*folder.rglob("*.py")} - {folder / "sides" / "internals.py"})
    assert paths
    for path in paths:
        imported = Module(path.stem, ast.parse(path.read_text())).imports
        modules = {f"{module}.{name}".rstrip(".") for _, module, name in imported}
        private = {
            name for name in modules if name.startswith("gattn.") and not name.startswith(above)
        }
        assert not private, f"{path.relative_to(ROOT)} imports {private}"


MOLECULES = ("attributions", "chemprop", "curves", "featurise", "inputs", "predict")
FILES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py"))
COMMANDS = ["__main__", *FILES, *(f"molecules.{name}" for name in MOLECULES)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_benchmark_command_has_help(name: str, capsys) -> None:
    if name == "gpu":
        pytest.importorskip("triton")
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"benchmarks.{name}").main(["--help"])
    assert ended.value.code == 0
    module = "benchmarks" if name == "__main__" else f"benchmarks.{name}"
    assert f"usage: python -m {module}" in capsys.readouterr().out
