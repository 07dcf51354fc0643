"""Measurement of the overhead of the training loop, compared with a minimal loop that does the
same.

    python -m benchmarks.loop             # about a minute

Both loops train the network of molecules alternately, on batches of 64 molecules of CHEMBL2321810,
and must end with the same loss. The processor time on one thread is measured, because other
programs affect it little. A JSON line is appended to benchmarks/results/loop.jsonl.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from benchmarks.core import record
from gattn.data import load_molecules
from gattn.molecules.inputs import featurise
from gattn.molecules.members import MoleculeBatches, make_network
from gattn.molecules.settings import MoleculeSettings
from gattn.training.loop import LoopSettings, fit_network, shuffled_batches
from gattn.training.losses import squared_error

Part = MoleculeBatches


def main(arguments: Sequence[str]) -> None:
    """Measure both loops, and print the fraction that the training loop adds to the time of a
    step.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loop", description=main.__doc__)
    parser.add_argument(
        "--epochs",
        type=int,
        default=6,
        help="number of epochs; the first one is not timed (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=5,
        help="number of measurements of each loop (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=record.RESULTS / "loop.jsonl",
        help="file to which the results are appended, one JSON object per line",
    )
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    settings = LoopSettings(epochs=options.epochs)
    train, validate = _parts()
    bare: list[float] = []
    ours: list[float] = []
    for _ in range(options.rounds):
        bare_seconds, bare_loss = _time(_bare, train, validate, settings)
        seconds, loss = _time(_ours, train, validate, settings)
        if not math.isclose(loss, bare_loss, rel_tol=1e-3):
            raise SystemExit(f"the losses of the two loops differ: {loss} and {bare_loss}")
        bare.append(bare_seconds)
        ours.append(seconds)
    ratio = statistics.median(one / other for one, other in zip(ours, bare))
    environment = record.environment("benchmarks.loop", arguments)
    seconds = {"bare": bare, "fit_network": ours}
    row = {"case": "loop/64 molecules", "seconds": seconds, "ratio": ratio}
    record.append(options.out, {**row, "environment": environment})
    medians = ", ".join(
        f"{name} {statistics.median(s) * 1e3:.2f} ms" for name, s in seconds.items()
    )
    print(f"a step of 64 molecules: {medians}; fit_network adds {ratio - 1:.1%}")


def _parts() -> tuple[Part, Part]:
    data = load_molecules("chembl2321810").labelled()
    inputs, y = featurise(data.smiles).inputs, data.y[:, :1]
    y = (y - y.mean()) / y.std()
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    train, validate = order[:768], order[768:]
    return Part(inputs[train], y[train]), Part(inputs[validate], y[validate])


def _time(loop, train: Part, validate: Part, settings: LoopSettings) -> tuple[float, float]:
    """Return CPU seconds per step after the first epoch, and the last validation loss."""
    marks: list[float] = []

    class Marked(Part):
        """Batches that record the time at which the first batch of an epoch is read."""

        def batch(self, positions):
            marks.append(time.process_time())
            return super().batch(positions)

    network = make_network(MoleculeSettings(), 1, seed=0)
    loss = loop(network, Marked(train.inputs, train.y), validate, settings)
    steps = math.ceil(len(train) / settings.batch_size)
    assert len(marks) == settings.epochs * steps
    return (marks[-1] - marks[steps]) / (len(marks) - 1 - steps), loss


def _ours(network: nn.Module, train: Part, validate: Part, settings: LoopSettings) -> float:
    history = fit_network(network, squared_error, train, validate, settings)
    return history.records[-1].validation_loss


def _bare(network: nn.Module, train: Part, validate: Part, settings: LoopSettings) -> float:
    """Train with a minimal loop: AdamW, a one-cycle schedule, clipping, averaged weights and
    validation.
    """
    steps = settings.epochs * math.ceil(len(train) / settings.batch_size)
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(settings.average)).eval()
    optimizer = torch.optim.AdamW(
        network.parameters(),
        settings.learning_rate,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, steps, pct_start=settings.warmup
    )
    loss = math.nan
    for epoch in range(settings.epochs):
        for positions in shuffled_batches(len(train), settings.batch_size, settings.seed, epoch):
            batch, y = train.batch(positions)
            optimizer.zero_grad()
            squared_error(network(batch), y).mean().backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_clip)
            optimizer.step()
            cycle.step()
            average.update_parameters(network)
        with torch.no_grad():
            batch, y = validate.batch(torch.arange(len(validate)))
            loss = squared_error(average(batch), y).mean().item()
    return loss


if __name__ == "__main__":
    main(sys.argv[1:])
