"""If a process dies, all other processes end with an error that names this process."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed import ranks

ROOT = Path(__file__).parents[2]
NO_HEARTBEAT = "died: it sent no heartbeat for 4 seconds"
FAILED = "failed: ValueError: the disk is full"
EXPECTED = {"raise": FAILED, "kill": NO_HEARTBEAT, "hang": NO_HEARTBEAT}


@pytest.mark.slow
@pytest.mark.parametrize("how", EXPECTED)
def test_processes_exit_and_name_the_process_that_failed(start, how):
    begin = time.monotonic()
    processes, folder = start(3, ranks.end_badly, how, timeout=8.0)
    for rank in (0, 2):
        processes[rank].join(60)
        assert processes[rank].exitcode == 1
        report = (folder / f"{rank}.txt").read_text()
        assert re.search(rf"Failure: rank 1 of 3 \(.*, process \d+\) {EXPECTED[how]}", report), (
            report
        )
    assert time.monotonic() - begin < 60


@pytest.mark.slow
def test_process_under_torchrun_names_the_process_that_failed():
    script = "from tests.distributed import ranks\nfrom gattn.distributed import init_processes\n"
    script += "with init_processes('gloo') as processes: ranks.end_badly(processes, 'kill')"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    begin = time.monotonic()
    done = subprocess.run(
        [*command, "2", "--no-python", sys.executable, "-c", script],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert time.monotonic() - begin < 120  # Half of the 120 seconds is for slow imports.
    assert done.stderr.count("ProcessFailure: rank 1 of 2") == 1, done.stderr
