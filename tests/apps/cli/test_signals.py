"""A signal to the command's process ends it and its child processes, with one line on stderr."""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gattn.apps.cli import main
from gattn.apps.fitting.loop import load_checkpoint
from tests.apps.cli.commands import run_command

ROOT = Path(__file__).parents[3]
LONG = ("--epochs", "20000", "--out")
CODES = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


def nodes(folder):
    """Arguments of parallel trainings that take minutes each."""
    ring = [(node, (node + step) % 500) for node in range(500) for step in (1, 7, 31)]
    lines = "".join(f"{a},{b}\n" for a, b in ring)
    (folder / "edges.csv").write_text(f"source,target\n{lines}")
    lines = "".join(f"{node},{node % 7},{'abc'[node % 3]}\n" for node in range(500))
    (folder / "nodes.csv").write_text(f"id,x,y\n{lines}")
    tables = "nodes", "train", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv")
    many = "--label", "y", "--runs", "60", "--workers", "2", "--patience", "20000"
    return *tables, *many, *LONG, str(folder / "run")


def read(folder):
    """Arguments of a run whose molecules take minutes to parse."""
    rows = (f"{'CCO' * (row % 97 + 20)}{'CN' * (row // 97)},{row}\n" for row in range(20_000))
    (folder / "in.csv").write_text("smiles,y\n" + "".join(rows))
    table = "molecules", "train", str(folder / "in.csv"), "--target", "y"
    return *table, "--workers", "2", *LONG, str(folder / "run")


def network(folder):
    """Arguments of a training in one process that takes minutes."""
    rows = (f"{'C' * n}{end},{0.5 * n + i}\n" for n in range(1, 41) for i, end in enumerate("ON"))
    (folder / "in.csv").write_text("smiles,y\n" + "".join(rows))
    table = "molecules", "train", str(folder / "in.csv"), "--target", "y"
    return *table, "--workers", "1", *LONG, str(folder / "run")


def descendants(pid):
    """Return the process ids of all descendants of a process."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return children + [other for one in children for other in descendants(one)]


def workers(pid):
    """Return the descendants of a process that have loaded torch: its worker processes."""
    return [one for one in descendants(pid) if "libtorch" in content(one, "maps")]


def runs(pid):
    """Return True if a process exists and is not a zombie."""
    return content(pid, "stat").rpartition(")")[2].split()[:1] not in ([], ["Z"], ["X"])


def content(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


COMMANDS = {"nodes": nodes, "read": read, "network": network}


@pytest.fixture
def predict_words(tmp_path):
    """Words of a command that predicts a table with a model that is distributed with gattn."""
    table = tmp_path / "in.csv"
    table.write_text("smiles\nCCO\n")
    return "molecules", "predict", "bbb", str(table), "--out", str(tmp_path / "out.csv")


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("error", [None, RuntimeError("no such lock"), KeyError("state")])
def test_exit_code_after_a_signal_is_128_plus_its_number_even_if_cleanup_fails(
    monkeypatch, capsys, predict_words, number, error
):
    """The signal is sent while the command reads a table."""
    code, word = CODES[number]

    def interrupted(*args, **options):
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        finally:
            if error:
                raise error from None

    monkeypatch.setattr("gattn.apps.molecules.runs.predict.predict_table", interrupted)
    before = signal.getsignal(signal.SIGTERM)
    assert run_command(monkeypatch, *predict_words) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"gattn: {word}"
    assert signal.getsignal(signal.SIGTERM) is before


LOSING = """
import os, time

# The import clears the exception of the handler, as C code of torch does.
try:
    os.kill(os.getpid(), {number})
    time.sleep(60)
except (KeyboardInterrupt, SystemExit):
    pass
"""
CLEANING = """
import os, time

try:
    os.kill(os.getpid(), {number})
    time.sleep(60)
finally:
    import gattn_cleanup
"""


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("imported", [LOSING, CLEANING], ids=["losing", "cleaning"])
def test_signal_during_an_import_ends_the_command(monkeypatch, capsys, tmp_path, number, imported):
    """The next import raises the lost exception again; imports of cleanup are not interrupted."""
    reached = []

    def command(**options):
        importlib.import_module("gattn_slow")
        reached.append("after the import")
        importlib.import_module("gattn_next")
        reached.append("after the next import")

    (tmp_path / "gattn_slow.py").write_text(imported.format(number=int(number)))
    (tmp_path / "gattn_next.py").write_text("")
    (tmp_path / "gattn_cleanup.py").write_text("open(__file__ + '.done', 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("gattn.apps.cli.app.app", command)
    code, word = CODES[number]
    before = signal.getsignal(signal.SIGINT), list(sys.meta_path)
    assert run_command(monkeypatch) == code
    assert capsys.readouterr().err.splitlines() == [f"gattn: {word}"]
    assert reached == ["after the import"] * (imported is LOSING)
    assert (tmp_path / "gattn_cleanup.py.done").exists() == (imported is CLEANING)
    assert (signal.getsignal(signal.SIGINT), sys.meta_path) == before
    for name in ("gattn_slow", "gattn_next", "gattn_cleanup"):
        sys.modules.pop(name, None)


def test_import_error_caused_by_a_signal_is_reported_as_the_signal(monkeypatch, capsys, tmp_path):
    """Without its exception, torch reports that NumPy is missing."""

    def command(**options):
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr("gattn.apps.cli.app.app", command)
    assert run_command(monkeypatch) == 130
    assert capsys.readouterr().err == "gattn: interrupted\n"


def test_interrupt_signal_that_the_shell_ignores_stays_ignored(monkeypatch):
    """A shell script starts jobs in the background with SIGINT ignored."""

    def command(**options):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("gattn.apps.cli.app.app", command)
    monkeypatch.setattr(sys, "argv", ["gattn"])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("command", "number", "begun"),
    [
        *(("nodes", signal.SIGINT, "worker"), ("read", signal.SIGTERM, "worker")),
        ("network", signal.SIGTERM, "checkpoint.pt"),
    ],
)
def test_signal_to_the_main_process_ends_all_worker_processes(tmp_path, command, number, begun):
    stderr = tmp_path / "stderr.txt"
    with stderr.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "gattn.apps.cli", *COMMANDS[command](tmp_path)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL, stderr=file, start_new_session=True,
        )  # fmt: skip
    try:
        while process.poll() is None and not (
            workers(process.pid) if begun == "worker" else any(tmp_path.rglob(begun))
        ):
            time.sleep(0.05)
        others = descendants(process.pid)
        assert len(others) >= (begun == "worker")
        process.send_signal(number)
        code, word = CODES[number]
        assert process.wait(timeout=60) == code
        assert stderr.read_text().splitlines()[-1] == f"gattn: {word}"
        end = time.monotonic() + 5
        while (left := [pid for pid in others if runs(pid)]) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left
        assert not (tmp_path / "run" / "metrics.json").exists()
        if begun == "checkpoint.pt":  # test_resume.py continues a run from such a checkpoint
            (checkpoint,) = tmp_path.rglob(begun)
            assert load_checkpoint(checkpoint)["records"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
