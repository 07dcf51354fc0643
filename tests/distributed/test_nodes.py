"""Tests of the training of nodes in two processes with gloo: the network is the same as in one
process, and only one process writes it.
"""

import json
import subprocess
import sys

import pandas as pd
import pytest
import torch

from tests.apps.cli.commands import run_command
from tests.apps.cli.test_processes import ENVIRONMENT, TORCHRUN
from tests.apps.nodes.networks import repeating_network, write_parquet
from tests.distributed import node_ranks


@pytest.mark.slow
def test_two_processes_train_the_network_of_one(run, monkeypatch):
    # A step in this process has the same number of nodes as a step in the other processes.
    for name in ("BATCH", "FANOUT", "LATER_FANOUT"):
        monkeypatch.setattr(node_ranks.training, name, getattr(node_ranks.training, name))
    monkeypatch.setattr(node_ranks.residual, "ATTENTION_DROPOUT", 0.1)
    whole = node_ranks.train_sampled()
    assert whole["losses"][-1] < whole["losses"][0]
    results = run(2, node_ranks.train_sampled)
    assert len(results) == 2
    for name, tensor in results[0]["state"].items():
        assert torch.equal(tensor, results[1]["state"][name])
    assert results[0]["losses"] == results[1]["losses"]
    torch.testing.assert_close(results[0]["losses"], whole["losses"], rtol=1e-4, atol=1e-5)
    for name, tensor in whole["state"].items():
        torch.testing.assert_close(results[0]["state"][name], tensor, rtol=1e-3, atol=1e-4)


@pytest.fixture
def train(tmp_path):
    """Write a network, and return the arguments that train on it."""
    edges, table = write_parquet(tmp_path, *repeating_network(150))
    return [
        *("nodes", "train", str(edges), "--nodes", str(table), "--label", "label"),
        *("--edge-weight", "strength", "--epochs", "3", "--width", "8", "--heads", "2"),
        *("--threads", "1", "--out"),
    ]


def under_torchrun(*arguments):
    """Run a command of gattn in two processes."""
    command = [sys.executable, *TORCHRUN, "-m", "gattn.apps.cli", *map(str, arguments)]
    return subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def in_two(launch):
    """Return a function that runs a command in two processes, with the variables of torchrun, and
    returns their exit codes and stderr. They are forked, which saves importing torch again.
    """

    def run(*arguments):
        processes, folder = launch(2, node_ranks.enter_command, arguments)
        for process in processes:
            process.join(300)
        texts = [path.read_text() for path in sorted(folder.glob("*.err"))]
        return [process.exitcode for process in processes], texts

    return run


@pytest.mark.slow
def test_command_writes_its_results_once(train, in_two, tmp_path, monkeypatch):
    out = tmp_path / "of-2"
    started = under_torchrun(*train, out)
    assert started.returncode == 0, started.stderr
    assert started.stderr.count("because 2 processes train together") == 1
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["size"]["processes"] == 2
    assert metrics["size"]["training"] == "sampled"
    assert len(pd.read_csv(out / "runs.csv")) == 1
    assert len(pd.read_csv(out / "predictions.csv")) == 150
    assert run_command(monkeypatch, *train[:-1], "--memory", "1MB", "--out", tmp_path / "1") == 0
    alone = json.loads((tmp_path / "1" / "metrics.json").read_text())
    columns = [one["components"]["columns"]["test"] for one in (metrics, alone)]
    assert columns[0] == columns[1]
    codes, texts = in_two(*train, out)
    assert codes == [0, 0], texts
    assert "it is finished: nothing to do" in "".join(texts)


@pytest.mark.slow
def test_error_ends_all_processes(train, in_two, tmp_path):
    codes, texts = in_two(*train[:-1], "--model", "gps", "--out", tmp_path / "run")
    assert None not in codes
    assert 0 not in codes
    assert "gps attends among all pairs of nodes" in "".join(texts)


@pytest.mark.parametrize("command", [("nodes", "predict", "a", "b"), ("links", "train", "a")])
def test_other_commands_run_in_one_process(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_command(monkeypatch, *command, "--out", tmp_path / "out") == 2
    assert "runs in one process, but torchrun started 2" in capsys.readouterr().err
