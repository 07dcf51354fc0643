"""Child process that is started before its function is known."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from gattn.molecules.trees import TreeProblem, grow_forests
from gattn.training import early_process
from gattn.training.early_process import (
    EarlyProcess,
    EarlyProcessError,
    run_in_early_process,
    start_early_process,
)


def nothing() -> None:
    """Do nothing, which means that the computation continues."""


def process_number(*, check):
    check()
    return os.getpid(), os.environ.get("OMP_NUM_THREADS"), "fractions" in sys.modules


def failing(text, *, check):
    raise ValueError(text)


def deadly(*, check):
    os._exit(9)


def endless(*, check):
    while True:
        time.sleep(0.01)
        check()


def forests(seed, *, check):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(40, 5)).astype(np.float32)
    everyone = np.arange(40)
    problem = TreeProblem(everyone, x[:, :1].astype(float) ** 2, everyone, everyone < 30, None)
    return grow_forests(x, [problem], 4, generator, check=check)


def test_a_function_runs_in_the_process_that_was_started_before() -> None:
    process = EarlyProcess(["fractions"])
    number, threads, imported = process.run(process_number, check=nothing)
    assert number != os.getpid()
    assert threads == "1"
    assert imported


def test_without_a_process_the_function_runs_here() -> None:
    assert run_in_early_process(process_number, check=nothing)[0] == os.getpid()


def test_a_started_process_is_used_once(monkeypatch) -> None:
    monkeypatch.setattr(early_process, "processor_count", lambda: 2)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    start_early_process("fractions")
    start_early_process("fractions")
    assert run_in_early_process(process_number, check=nothing)[0] != os.getpid()
    assert run_in_early_process(process_number, check=nothing)[0] == os.getpid()


@pytest.mark.parametrize(("processors", "world"), [(1, "1"), (2, "2")])
def test_no_process_starts_without_a_free_processor(monkeypatch, processors, world) -> None:
    monkeypatch.setattr(early_process, "processor_count", lambda: processors)
    monkeypatch.setenv("WORLD_SIZE", world)
    start_early_process("fractions")
    assert run_in_early_process(process_number, check=nothing)[0] == os.getpid()


def test_errors_and_deaths_reach_the_caller() -> None:
    with pytest.raises(ValueError, match="three wheels"):
        EarlyProcess([]).run(failing, "three wheels", check=nothing)
    with pytest.raises(EarlyProcessError, match="for deadly ended with exit code 9"):
        EarlyProcess([]).run(deadly, check=nothing)


def test_if_the_process_ends_early_the_function_runs_here(monkeypatch) -> None:
    monkeypatch.setattr(early_process, "processor_count", lambda: 2)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    start_early_process("no_such_module")
    with pytest.warns(UserWarning, match="exit code 1: this process executes the function"):
        assert run_in_early_process(process_number, check=nothing)[0] == os.getpid()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no safe path")
def test_files_of_the_working_folder_do_not_replace_modules(tmp_path, monkeypatch) -> None:
    for name in ("types", "select", "numpy", "sklearn"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part])
    ((_, mask),) = EarlyProcess(["sklearn.tree"]).run(forests, 3, check=nothing)
    assert mask.shape == (40, 4)


def test_an_error_of_check_ends_the_process() -> None:
    process = EarlyProcess([])

    def cancelled() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(endless, check=cancelled)
    assert not process._process.is_alive()


def test_trees_do_not_depend_on_the_process() -> None:
    ((here, inside),) = forests(3, check=nothing)
    ((there, mask),) = EarlyProcess(["sklearn.tree"]).run(forests, 3, check=nothing)
    assert inside.tolist() == mask.tolist()
    assert here.keys() == there.keys()
    assert all(np.array_equal(here[name], there[name]) for name in here)


SCRIPT = """
import os, sys, time
from gattn.training import early_process

if __name__ == "__main__":
    early_process.processor_count = lambda: 2
    early_process.start_early_process("fractions")
    print(early_process._STARTED[0]._process.pid, flush=True)
    time.sleep(1)  # until the process has read its arguments
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "failed":
        raise SystemExit(3)
"""


@pytest.mark.parametrize("end", ["finished", "failed", "killed"])
def test_the_process_ends_with_its_parent(tmp_path, end) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", end],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.getcwd(), "WORLD_SIZE": "1"},
    )
    number = int(done.stdout)
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{number}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{number}")
    assert "Traceback" not in done.stderr
