"""Tests of work in several processes: the results are in order, the queue is bounded, each process
has one thread, and all processes end.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORK = """
import os
import time

import torch

def here():
    return os.environ["PARENT"] == str(os.getpid())

def square(number):
    time.sleep(0.02 if here() else 0.001)
    return number**2, os.getpid(), torch.get_num_threads()

class Rows:
    def __init__(self):
        self.x = torch.eye(3).to_sparse_csr()

    def nonzeros(self, number):
        time.sleep(0.02 if here() else 0.001)
        return self.x.values().numel(), here()

def wrong(number):
    if number == 7:
        raise KeyError("seven")

def endless(number):
    if here():
        while not os.path.exists("begun"):
            time.sleep(0.01)
        raise KeyboardInterrupt
    open("begun", "w").close()
    time.sleep(3600)

def deadly(number):
    if not here():
        os._exit(9)
    time.sleep(0.02)
"""

SCRIPT = """
import os
import warnings

import torch
import work

from gattn.apps.runtime.processes import WINDOW, in_order

os.environ["PARENT"] = str(os.getpid())
started, finished, ahead = 0, [], 0

def tasks(count):
    global started
    for number in range(count):
        started += 1
        yield f"key {number}", number

threads = torch.get_num_threads()
for result in in_order(work.square, tasks(2000), 2):
    finished.append(result)
    ahead = max(ahead, started - len(finished))
keys, results = zip(*finished)
squares, processes, counts = zip(*results)
print(list(keys) == [f"key {number}" for number in range(2000)])
print(list(squares) == [number**2 for number in range(2000)], len(set(processes)), set(counts))
print(os.getpid() in processes, torch.get_num_threads() == threads, ahead <= 2 * WINDOW)
warnings.simplefilter("ignore")  # of these rows; other processes have filters of their own
nonzeros = {result for _, result in in_order(work.Rows().nonzeros, enumerate(range(2000)), 2)}
print(nonzeros == {(3, True), (3, False)})
without_end = in_order(work.square, enumerate(iter(int, 1)), 2)
next(without_end)
without_end.close()
for spoilt in (work.wrong, work.endless, work.deadly):
    try:
        list(in_order(spoilt, enumerate(range(2000)), 2))
    except (KeyError, KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__)
"""


@pytest.mark.slow
def test_results_are_in_order_and_an_error_ends_all_processes(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.splitlines() == [
        "True",
        "True 2 {1}",
        "True True True",
        "True",
        "KeyError",
        "KeyboardInterrupt",
        "TerminatedWorkerError",
    ]
    assert "beta" not in done.stderr


INTERRUPTED = """
import os
import sys
import time

import work

from gattn.apps.runtime.processes import in_order

os.environ["PARENT"] = str(os.getpid())
for result in in_order(work.long, enumerate(range(2000)), 3):
    if sys.argv[1] == "suspended":  # the iterator is not closed: the error's frames hold it
        time.sleep(3600)
"""

LONG = """

def long(number):
    if here():
        while len([name for name in os.listdir() if name.startswith("begun")]) < 2:
            time.sleep(0.01)
        if "suspended" in os.environ["CASE"]:
            return bytes(1 << 20)
        open("waiting", "w").close()
        time.sleep(3600)
    open(f"begun-{os.getpid()}", "w").close()
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        pass
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "case"),
    [(signal.SIGINT, "waiting"), (signal.SIGINT, "suspended"), (signal.SIGKILL, "waiting")],
)
def test_signal_to_the_parent_process_ends_its_children(tmp_path, case, number):
    (tmp_path / "work.py").write_text(WORK + LONG)
    (tmp_path / "script.py").write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", case],
        cwd=tmp_path,
        env={
            **os.environ,
            "CASE": case,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}",
        },
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while process.poll() is None and len(list(tmp_path.glob("begun-*"))) < 2:
            time.sleep(0.02)
        time.sleep(0.5)  # time until the process receives the first result or waits for it
        others = [int(path.name.removeprefix("begun-")) for path in tmp_path.glob("begun-*")]
        assert len(others) == 2
        assert all(map(runs, others))
        process.send_signal(number)
        assert process.wait(timeout=10) != 0
        assert wait_for(lambda: not any(map(runs, others)), seconds=5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(condition, seconds):
    """Return True if a condition becomes true within this many seconds."""
    end = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return true


def runs(pid):
    """Return True if a process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
