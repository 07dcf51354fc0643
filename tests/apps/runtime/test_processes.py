"""Tests of work in several processes: the results are in order, the queue is bounded, each process
has one thread, and all processes end.
"""

import os
import subprocess
import sys

import pytest

WORK = """
import os
import time

import torch

def here():
    return os.environ["PARENT"] == str(os.getpid())

class Rows:
    def __init__(self):
        self.x = torch.eye(3).to_sparse_csr()

    def square(self, number):
        time.sleep(0.02 if here() else 0.001)
        return number**2, os.getpid(), torch.get_num_threads(), self.x.values().numel()

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
warnings.simplefilter("ignore")  # of these rows; other processes have filters of their own
square = work.Rows().square
for result in in_order(square, tasks(2000), 2):
    finished.append(result)
    ahead = max(ahead, started - len(finished))
keys, results = zip(*finished)
squares, processes, counts, nonzeros = zip(*results)
print(list(keys) == [f"key {number}" for number in range(2000)])
print(list(squares) == [number**2 for number in range(2000)], len(set(processes)))
print(set(counts), set(nonzeros))
print(os.getpid() in processes, torch.get_num_threads() == threads, ahead <= 2 * WINDOW)
without_end = in_order(square, enumerate(iter(int, 1)), 2)
next(without_end)
without_end.close()
for spoilt in (work.wrong, work.endless, work.deadly):
    try:
        list(in_order(spoilt, enumerate(range(2000)), 2))
    except (KeyError, KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__)
"""


@pytest.mark.slow
def test_pool_returns_results_in_order_and_ends_after_an_error(tmp_path):
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
    *lines, killed = done.stdout.splitlines()
    assert lines == ["True", "True 2", "{1} {3}", "True True True", "KeyError", "KeyboardInterrupt"]
    assert killed == "TerminatedWorkerError"
    assert "beta" not in done.stderr
