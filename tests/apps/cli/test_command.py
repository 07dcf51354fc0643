"""The ``gattn`` command: an error is one line with exit code 2, without a traceback."""

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


def test_version_option_prints_the_version(monkeypatch, capsys):
    code, output = runner(monkeypatch, capsys)("--version")
    assert (code, output) == (0, f"gattn {gattn.__version__}\n")


@pytest.mark.parametrize(
    ("classes", "names"), [("", ""), ("a", "a,"), ("abcdef", "a, b, c, d, e, ...,")]
)
def test_output_names_classes_that_are_in_every_prediction_set(classes, names, capsys):
    intervals = {"coverage": 0.9, "held": 1.0, "mean_size": 2.0, "classes_in_every_set": classes}
    metrics = {"task": "classification", "test": {"accuracy": 1.0}, "intervals": intervals,
               "nodes": {"test": 6, "val": 6}}  # fmt: skip
    show_metrics(metrics, "nodes")
    output = capsys.readouterr().out
    assert (f"Every set contains {names} because" in output) == bool(classes)
    assert ("at least 9 validation nodes" in output) == bool(classes)
    assert ("or a lower --coverage" in output) == bool(classes)


@pytest.mark.slow
def test_missing_package_gives_one_line_of_error_with_the_pip_command():
    for missing, command in (("typer", "--help"), ("torch", "molecules train --out c")):
        code = (
            f"import sys; sys.modules[{missing!r}] = None; from gattn.apps.cli import main; main()"
        )
        done = run(*command.split(), code=code)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert missing in done.stderr
        assert 'pip install "gattn[molecules]"' in done.stderr
