"""Work in several processes: in order, bounded, with one thread each, and with an end."""

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

from gattn.training.processes import WINDOW, in_order

os.environ["PARENT"] = str(os.getpid())
taken, found, ahead = 0, [], 0

def tasks(count):
    global taken
    for number in range(count):
        taken += 1
        yield number

threads = torch.get_num_threads()
for result in in_order(work.square, tasks(2000), 2):
    found.append(result)
    ahead = max(ahead, taken - len(found))
squares, processes, counts = zip(*found)
print(list(squares) == [number**2 for number in range(2000)], len(set(processes)), set(counts))
print(os.getpid() in processes, torch.get_num_threads() == threads, ahead <= 2 * WINDOW)
warnings.simplefilter("ignore")  # of these rows; other processes have filters of their own
print(set(in_order(work.Rows().nonzeros, range(2000), 2)) == {(3, True), (3, False)})
without_end = in_order(work.square, iter(int, 1), 2)
next(without_end)
without_end.close()
for spoilt in (work.wrong, work.endless, work.deadly):
    try:
        list(in_order(spoilt, range(2000), 2))
    except (KeyError, KeyboardInterrupt, RuntimeError) as error:
        print(type(error).__name__)
"""


@pytest.mark.slow
def test_results_come_in_order_and_failures_end_the_work(tmp_path):
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
        "True 2 {1}",
        "True True True",
        "True",
        "KeyError",
        "KeyboardInterrupt",
        "TerminatedWorkerError",
    ]
    assert "beta" not in done.stderr
