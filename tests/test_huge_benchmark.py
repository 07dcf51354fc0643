"""Generated networks and the measured memory of the benchmark of large networks."""

import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import huge
from benchmarks.data.huge_network import write_network


@pytest.mark.parametrize("texts", [True, False])
def test_generated_network_has_the_requested_size_and_homophily(tmp_path, texts):
    arguments = write_network(
        tmp_path, 1000, 20_000, classes=4, columns=3, homophily=0.8, signal=0.5, texts=texts,
        strengths=texts,
    )  # fmt: skip
    edges, nodes = (pd.read_parquet(path) for path in (arguments[0], arguments[2]))
    assert (len(edges), len(nodes)) == (20_000, 1000)
    assert nodes.columns.tolist() == ["id", "c0", "c1", "c2", "kind"]
    assert nodes["id"].is_unique
    kinds = nodes.set_index("id")["kind"]
    same = kinds[edges["source"]].to_numpy() == kinds[edges["target"]].to_numpy()
    assert ("strength" in edges) == texts
    if texts:
        strength = edges["strength"].to_numpy()
        assert strength[same].mean() == pytest.approx(np.e * strength[~same].mean(), rel=0.2)
    assert same.mean() == pytest.approx(0.8 + 0.2 / 4, abs=0.03)


def test_peak_memory_includes_child_processes(monkeypatch):
    child = "x = b'1' * 200_000_000; import time; time.sleep(1)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    monkeypatch.setattr(huge, "COMMAND", [sys.executable, "-c", parent])
    used = huge.run_measured([])
    assert 0.15 < used["peak_anonymous_gib"] < 1
    assert used["seconds"] > 1
