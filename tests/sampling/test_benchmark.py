"""The benchmark of the sampler runs, at a small size."""

import json

import numpy as np
import torch

from benchmarks.sampling import make, measure


def test_a_graph_is_made_and_sampled(tmp_path, capsys):
    make.main([str(tmp_path), "--scale", "0.0005"])
    assert capsys.readouterr().out.startswith("1224 nodes, 31000 edges, degree 25.3 on average")
    indptr, indices = (np.load(tmp_path / f"{name}.npy") for name in ("indptr", "indices"))
    assert indptr[-1] == indices.size == 31000
    assert np.load(tmp_path / "x.npy").shape == (1224, 100)
    threads = torch.get_num_threads()
    options = ["--workers", "0", "1", "--threads", str(threads), "--seconds", "0.01"]
    measure.main([str(tmp_path), "gattn", "--features", *options])
    alone, background = map(json.loads, capsys.readouterr().out.splitlines())
    assert alone["edges_per_second"] > 0
    assert alone["edges_per_cpu_second"] > 0
    assert background["workers"] == 1
    assert "edges_per_cpu_second" not in background
