"""Measure how fast an exported model predicts, compared with gattn.

    python -m benchmarks.molecules.export                       # the model bbb, 2,000 molecules
    python -m benchmarks.molecules.export --run RUN --threads 1

Exports the model to a temporary folder, and predicts the SMILES of ``benchmarks.molecules.screen``.
The network alone is measured on the same batches of features: gattn's kernel, and onnxruntime. The
whole prediction begins with the SMILES. Before the measurement, the predictions are compared. A
JSON line goes to benchmarks/results/export.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.core import record
from benchmarks.molecules.screen import smiles
from gattn.molecules.export.folder import export_model
from gattn.molecules.export.onnx import plain_batch
from gattn.molecules.export.predict import ExportedModel
from gattn.molecules.loading import load_model
from gattn.molecules.members import PREDICTION_BATCH
from gattn.molecules.network import batch_inputs

MODULE = "benchmarks.molecules.export"
TIMES = 3
"""Number of times that each side is measured; the fastest counts."""


def main(arguments: Sequence[str]) -> None:
    """Measure the rows per second of an exported model and of gattn."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("--run", default="bbb", help="folder of a trained model, or bbb")
    parser.add_argument("--molecules", type=int, default=2_000, help="number of molecules")
    parser.add_argument("--threads", type=int, default=2, help="threads of each side")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "export.jsonl")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    name, texts = smiles()
    rows = list(itertools.islice(texts, options.molecules))
    model, _ = load_model(options.run)
    predictor = model.predictor_
    predictor.threads = options.threads
    with tempfile.TemporaryDirectory() as scratch:
        difference = export_model(options.run, Path(scratch) / "out").difference
        exported = ExportedModel(Path(scratch) / "out", options.threads)
        session = exported.session
        if session is None:
            raise SystemExit(f"{options.run} has no network")
        inputs = model.featurise(rows).inputs
        pieces = [inputs[some] for some in torch.arange(len(inputs)).split(PREDICTION_BATCH)]
        batches = [plain_batch(piece)._asdict() for piece in pieces]
        feeds = [{name: batch[name].numpy() for name in exported.names} for batch in batches]

        graphs = [batch_inputs(piece) for piece in pieces]
        for network in predictor.networks:
            network.threads = options.threads

        @torch.inference_mode()
        def by_kernel() -> np.ndarray:
            networks = predictor.networks
            outputs = [torch.stack([network(batch) for network in networks]) for batch in graphs]
            return torch.cat(outputs, 1).numpy()

        def by_onnx() -> np.ndarray:
            return np.concatenate([session.run(None, feed)[0] for feed in feeds], 1)

        np.testing.assert_allclose(by_onnx(), by_kernel(), rtol=1e-4, atol=1e-4)
        entry: record.Record = {
            "case": f"export/{options.threads} threads",
            "data": name,
            "molecules": len(rows),
            "largest_difference": difference,
            "network_rows_per_second": len(rows) / fastest(by_kernel),
            "onnx_rows_per_second": len(rows) / fastest(by_onnx),
            "predict_rows_per_second": len(rows) / fastest(lambda: list(model.predictions(rows))),
            "exported_rows_per_second": len(rows) / fastest(lambda: exported.predict(rows)),
        }
    print(", ".join(f"{name} {value}" for name, value in entry.items()))
    settings = ["--run", Path(options.run).name, "--molecules", str(options.molecules)]
    settings += ["--threads", str(options.threads)]
    record.append(options.out, {**entry, "environment": record.environment(MODULE, settings)})


def fastest(run: Callable[[], object]) -> float:
    """Return the shortest time of a call in seconds. A first call is not timed."""
    run()
    seconds = []
    for _ in range(TIMES):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


if __name__ == "__main__":
    main(sys.argv[1:])
