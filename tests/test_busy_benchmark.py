"""Tests of the benchmark on a busy machine, and of the network of texts that its commands read."""

import csv
import sys
import time
from pathlib import Path

import pytest

from benchmarks import busy
from benchmarks.core.isolate import Failed, Stopped
from benchmarks.core.load import busy_loops, commands_in_turn, run_together
from benchmarks.data.text_network import CLASSES, write_text_network

COUNT = "import time\nwhile time.process_time() < 0.3: pass"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_commands_run_together_and_their_processor_time_is_measured(tmp_path: Path) -> None:
    code = "import pathlib, time, sys\npathlib.Path(sys.argv[1]).touch()\n"
    code += "while not pathlib.Path(sys.argv[2]).exists(): time.sleep(0.01)\n"
    pair = [[*python(code + COUNT), "a", "b"], [*python(code + COUNT), "b", "a"]]
    usages = run_together(pair, tmp_path, 100)
    assert len(usages) == 2
    for usage in usages:
        assert 0.3 <= usage.processor_seconds <= usage.seconds


def test_failed_command_is_reported_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="exit code 3\ntoo bad"):
        run_together([python("import sys; print('too bad'); sys.exit(3)")], tmp_path, 100)


def test_command_over_the_time_limit_is_killed(tmp_path: Path) -> None:
    began = time.perf_counter()
    with pytest.raises(Stopped, match=r"over 0 s"), busy_loops(1):
        run_together([python("import time; time.sleep(100)")], tmp_path, 0.2)
    assert time.perf_counter() - began < 50


def test_background_commands_run_one_after_another(tmp_path: Path) -> None:
    code = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\n"
    commands = iter([[*python(code), "a"], [*python(code + "time.sleep(1000)"), "b"]])
    began = time.perf_counter()
    with commands_in_turn(commands, tmp_path):
        while not (tmp_path / "b").exists():
            time.sleep(0.01)
        assert (tmp_path / "a").exists()
    assert time.perf_counter() - began < 100


def test_table_has_times_and_ratios() -> None:
    def usage(seconds: float) -> dict[str, float]:
        return {"seconds": seconds, "processor_seconds": seconds / 2}

    entries = [
        {
            "command": "nodes train", "side": "this",
            "loads": {busy.ALONE: usage(10), busy.PAIR: usage(19), busy.BUSY: "over 120 s"},
        },
        {"command": "nodes train, all epochs", "side": "this", "loads": {busy.ALONE: usage(30)}},
    ]  # fmt: skip
    rows = busy.table(entries).splitlines()[2:]
    assert rows == [
        "| nodes train | this | 10.0 (5.0) | 19.0 (9.5) | over 120 s | 1.90 | – |",
        "| nodes train, all epochs | this | 30.0 (15.0) | – | – | – | – |",
    ]


def test_generated_text_network_has_the_requested_size(tmp_path: Path) -> None:
    write_text_network(tmp_path, nodes=400, edges=900, words=1500)
    with (tmp_path / "nodes.csv").open(newline="") as file:
        nodes = list(csv.DictReader(file))
    with (tmp_path / "edges.csv").open(newline="") as file:
        edges = [(row["source"], row["target"]) for row in csv.DictReader(file)]
    assert len(nodes) == 400
    assert len(edges) == len({frozenset(edge) for edge in edges}) == 900
    assert all(len(set(edge)) == 2 for edge in edges)
    assert len({row["field"] for row in nodes}) == 1 + CLASSES
    assert all(len(row["text"].split()) == 60 for row in nodes)
