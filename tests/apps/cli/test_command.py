"""The ``gattn`` command: an error is one line with exit code 2, without a traceback."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gattn
from gattn.apps.cli.console import show_metrics
from tests.apps.cli.commands import runner

ROOT = Path(__file__).parents[3]


def run(*arguments, code="import gattn.apps.cli; gattn.apps.cli.main()", cwd=None):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True,
        check=False, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"},
    )  # fmt: skip


def test_what_there_is(monkeypatch, capsys):
    code, output = runner(monkeypatch, capsys, "molecules")("--help")
    assert code == 0
    for command in ("train", "predict", "explain", "embed", "evaluate"):
        assert command in output


def test_the_version(monkeypatch, capsys):
    code, output = runner(monkeypatch, capsys)("--version")
    assert (code, output) == (0, f"gattn {gattn.__version__}\n")


def test_an_interruption_is_one_line(monkeypatch, capsys):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("gattn.apps.cli.app.app", interrupt)
    assert runner(monkeypatch, capsys)("molecules") == (130, "gattn: interrupted\n")


def test_an_interruption_of_a_command_is_one_line_too(monkeypatch, capsys, tmp_path):
    def interrupt(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("gattn.apps.nodes.runs.predict.predict_graph", interrupt)
    for name in ("model.json", "weights.safetensors", "edges.csv"):
        (tmp_path / name).touch()
    run = runner(monkeypatch, capsys, "nodes", "predict")
    result = run(tmp_path, tmp_path / "edges.csv", "--out", tmp_path / "out.csv")
    assert result == (130, "gattn: interrupted\n")


@pytest.mark.parametrize(("width", "is_told"), [(math.inf, True), (2.0, False)])
def test_intervals_without_an_end_are_no_success(width, is_told, capsys):
    intervals = {"coverage": 0.9, "held": 1.0, "mean_width": width}
    metrics = {"task": "regression", "test": {"rmse": 1.0}, "intervals": intervals,
               "molecules": {"test": 6, "val": 6}}  # fmt: skip
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert ("6 validation molecules are too few" in output) == is_told
    assert ("with a --coverage of up to 0.85, they are finite" in output) == is_told


def test_a_single_row_is_in_the_singular(capsys):
    metrics = {"task": "regression", "test": {"rmse": 1.0}, "molecules": {"test": 1}}
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert "1 molecule" in output
    assert "molecules" not in output


@pytest.mark.parametrize(("classes", "note"), [(0, ""), (1, "1 class has"), (3, "3 classes have")])
def test_classes_in_every_set_are_told_with_the_reason(classes, note, capsys):
    intervals = {"coverage": 0.9, "held": 1.0, "mean_size": 2.0, "in_every_set": classes}
    metrics = {"task": "classification", "test": {"accuracy": 1.0}, "intervals": intervals,
               "nodes": {"test": 6, "val": 6}}  # fmt: skip
    show_metrics(metrics, "nodes")
    output = capsys.readouterr().out
    assert note in output
    assert ("fewer than the 9 validation nodes" in output) == bool(classes)
    assert ("or a lower --coverage" in output) == bool(classes)


@pytest.mark.parametrize(
    ("least", "advice"), [(3, ", or a --coverage of up to 0.75.\n"), (0, ".\n")]
)
def test_classes_in_every_set_have_a_remedy(least, advice, capsys):
    intervals = {"coverage": 0.9, "held": 1.0, "mean_size": 2.0, "in_every_set": 2,
                 "least_class_rows": least}  # fmt: skip
    metrics = {"task": "classification", "test": {"accuracy": 1.0}, "intervals": intervals,
               "molecules": {"test": 6, "val": 6}}  # fmt: skip
    show_metrics(metrics, "molecules")
    output = capsys.readouterr().out
    assert f"use more labelled molecules of these classes{advice}" in output


@pytest.mark.slow
def test_an_error_is_one_line(tmp_path):
    done = run("molecules", "train", "none.csv", "--target", "y", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr == "gattn: none.csv: No such file or directory\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_without_the_extra_one_line_says_what_to_install():
    for missing, command in (("typer", "--help"), ("torch", "molecules train --out c")):
        code = (
            f"import sys; sys.modules[{missing!r}] = None; from gattn.apps.cli import main; main()"
        )
        done = run(*command.split(), code=code)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert missing in done.stderr
        assert 'pip install "gattn[molecules]"' in done.stderr
