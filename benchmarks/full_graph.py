"""Measurement of a training step on a graph with the size of ogbn-products, and an estimate for
PyG.

    python -m benchmarks.sampling.make FOLDER        # the graph, once: 1.7 GB
    python -m benchmarks.full_graph FOLDER           # minutes, and 12 GB of memory

A step consists of the forward pass, the backward pass and a step of Adam, for the cross-entropy of
8 % of the nodes. The model is a GAT with two layers of 4 heads with 16 channels, on 100 features,
and a linear layer to 47 classes. With ``--average``, the channels of the second layer are the
classes, and its heads are averaged, which is the default of PyG's GAT. gattn stores only the input
of each layer (``checkpoint=True``) and reads the features from a memory-mapped file; its graph
contains the self-loops. The peak memory is that of a new process, with Python, torch, the graph
and the features.

PyG is measured on two small graphs of the same kind, with edges in memory. The ratio of nodes to
edges is constant, so the memory of PyG is extrapolated by a straight line, a + b edges. On the
smaller graph, the losses of gattn and PyG are compared first. A JSON line is appended to
benchmarks/results/full_graph.jsonl.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.core import isolate, record, verify
from benchmarks.core.record import Record
from benchmarks.sampling import make
from benchmarks.tools.full_graph import line, step

SMALL = 0.0125, 0.025
"""Scales of the small graphs on which PyG is measured."""
GIB = 2**30


def main(arguments: Sequence[str]) -> None:
    """Measure gattn on the graph of a folder and PyG on small graphs, and print the memory."""
    options = _parser().parse_args(arguments)
    # With this malloc setting, the memory of small tensors returns to the system when they are
    # freed, so the measured memory use is exact.
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "1048576")

    def call(side: str, folder: Path, dtype: str = "float32") -> Record:
        inputs = side, folder, dtype, options.average
        limits = {"threads": options.threads, "gigabytes": options.gigabytes}
        return isolate.call(step, *inputs, **limits)

    with tempfile.TemporaryDirectory() as name:
        peers = []
        for scale in () if options.skip_pyg else SMALL:
            folder = Path(name, str(scale))
            make.main([str(folder), "--scale", str(scale)])
            peers.append(call("pyg", folder))
            if len(peers) == 1:
                _compare(call("gattn", folder), peers[0])
    ours = call("gattn", options.folder, options.dtype)
    head = "average" if options.average else "linear"
    row = {"case": f"full-graph/{head}/{options.dtype}", "gattn": ours, "pyg": peers}
    peak, built = (ours[name] / GIB for name in ("peak_bytes", "built_bytes"))
    print(f"gattn: peak {peak:.2f} GiB, {built:.2f} until the first step; {ours['seconds']:.1f} s")
    if peers:
        row["pyg_bytes"] = line(peers, ours["edges"])
        print(
            f"PyG: {row['pyg_bytes'] / GIB:.0f} GiB by the line through {len(peers)} small graphs"
        )
    environment = record.environment("benchmarks.full_graph", arguments)
    environment["threads"] = options.threads
    record.append(options.out, {**row, "environment": environment})


def _compare(ours: Record, theirs: Record) -> None:
    """Raise CheckFailed if the losses differ from PyG's."""
    for mine, other in zip(ours["losses"], theirs["losses"]):
        same = abs(mine - other) < 1e-3 * abs(other)
        verify.require(same, f"losses {ours['losses']}, but PyG's {theirs['losses']}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_graph")
    parser.add_argument("folder", type=Path, help="folder that benchmarks.sampling.make wrote")
    parser.add_argument(
        "--average",
        action="store_true",
        help="average the heads of the last layer instead of adding a linear layer",
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="dtype of the features (default: %(default)s)",
    )
    parser.add_argument("--skip-pyg", action="store_true", help="measure only gattn")
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--gigabytes",
        type=float,
        default=20.0,
        help="maximum size of the address space, in GB (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "full_graph.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
