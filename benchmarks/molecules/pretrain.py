"""Train the encoder of the molecule networks from random weights.

    pip download --no-deps molsets chemicals -d WHEELS          # SMILES, both MIT
    python -m benchmarks.molecules.pretrain WHEELS --work WORK  # weights and their card in WORK
    python -m benchmarks.molecules.pretrain WHEELS --work WORK --ship

A network predicts descriptors, two-dimensional autocorrelations, and folded counts of Morgan
environments and atom pairs. No measured property is read. The same command gives the same weights
on one processor. An interrupted training continues if the command is started again.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from benchmarks.core import record
from benchmarks.molecules.pretraining_data import GROUPS, PretrainingBatches, molecules, prepare
from gattn.apps.fitting.loop import LoopSettings, fit_network
from gattn.apps.fitting.losses import squared_error
from gattn.apps.fitting.types import Loss
from gattn.apps.molecules.members import make_network, write_foundation
from gattn.apps.molecules.pretrained import FILES, encoder_folder
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.run.model_io import read_model
from gattn.apps.runtime.threads import limited_threads

MODULE = "benchmarks.molecules.pretrain"
NAME = "encoder-128"
"""Name of the encoder that gattn ships."""
TEMPLATE = Path(__file__).with_name("encoder_card.md")
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "encoder.md"
"""Page of the guide that contains the card."""
WARMUP, AVERAGE = 0.05, 0.999
"""Share of the steps in which the learning rate rises, and decay of the mean of the weights."""
HELD_OUT = 2048
"""Number of molecules on which the loss is measured after each epoch."""


def main(arguments: Sequence[str]) -> None:
    """Read the molecules, train the network, and write its weights and its card."""
    options = _parser().parse_args(arguments)
    with limited_threads(1, 1):
        pretrain(options)
    print((options.work / "card.md").read_text("utf-8"))
    if options.ship:
        folder = encoder_folder(NAME)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*FILES, "card.md"):
            shutil.copyfile(options.work / name, folder / name)
        shutil.copyfile(options.work / "card.md", PAGE)


def pretrain(options: argparse.Namespace) -> None:
    """Train the network, and write its encoder and its card to the folder ``work``."""
    begin = time.process_time()
    smiles, sources = molecules(options.wheels, options.molecules, options.joined, options.seed)
    options.work.mkdir(parents=True, exist_ok=True)
    inputs, targets = prepare(smiles)
    print(f"{len(inputs):,} molecules in {time.process_time() - begin:.0f} s", flush=True)
    order = torch.arange(len(inputs))
    train, validation = (
        PretrainingBatches(inputs, targets, rows) for rows in (order[HELD_OUT:], order[:HELD_OUT])
    )
    settings = MoleculeSettings(model="attention", width=options.width, seed=options.seed)
    network = make_network(settings, sum(GROUPS.values()), seed=options.seed)
    loop = LoopSettings(
        epochs=options.epochs, batch_size=options.batch_size, seed=options.seed,
        learning_rate=options.learning_rate, warmup=WARMUP, average=AVERAGE,
    )  # fmt: skip
    history = fit_network(
        network,
        group_loss(),
        train,
        validation,
        loop,
        folder=options.work,
        progress=options.progress,
    )
    facts = {
        "name": NAME, "command": shlex.join(["python", "-m", MODULE, "WHEELS", *_shown(options)]),
        "sources": [asdict(source) for source in sources],
        "molecules": len(inputs), "epochs": options.epochs, "targets": dict(GROUPS),
        "losses": [round(each.validation_loss, 4) for each in history.records],
        "processor_seconds": round(time.process_time() - begin), "processor": record.cpu_model(),
    }  # fmt: skip
    write_foundation(options.work, network, settings, facts)
    (options.work / "card.md").write_text(card(options.work), "utf-8")


def _shown(options: argparse.Namespace) -> list[str]:
    """Return the options of the command that determine the weights."""
    names = ("molecules", "joined", "epochs", "width", "batch_size", "learning_rate", "seed")
    return [
        text for name in names for text in (f"--{name.replace('_', '-')}", str(vars(options)[name]))
    ]


def card(folder: Path) -> str:
    """Return the card of the encoder in a folder as Markdown."""
    _, facts = read_model(folder)
    line = "| `{package}` {version} | {licence} | {smiles:,} |"
    rows = "\n".join(line.format(**each) for each in cast("list[Any]", facts["sources"]))
    digest = cast("dict[str, str]", facts["sha256"])["weights"]
    return TEMPLATE.read_text("utf-8").format(**facts, rows=rows, digest=digest)


def group_loss() -> Loss:
    """Return the squared errors, weighted so that each group of targets has the same weight."""
    total = sum(GROUPS.values())
    factors = torch.cat([torch.full((size,), total / size) for size in GROUPS.values()])
    return lambda output, target: factors.to(output) * squared_error(output, target)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=main.__doc__)
    parser.add_argument("wheels", type=Path, help="folder of the wheels of the two packages")
    parser.add_argument("--work", type=Path, required=True, help="folder of the training")
    parser.add_argument("--molecules", type=int, default=50_000, help="drawn from molsets")
    parser.add_argument("--joined", type=int, default=80_000, help="pairs to join")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--width", type=int, default=MoleculeSettings.width)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ship", action="store_true", help="write the files that gattn ships")
    parser.add_argument("--progress", action="store_true", help="show a progress bar")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
