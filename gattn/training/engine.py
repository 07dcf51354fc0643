"""How Lightning runs the loop: its trainer, its callbacks, and what it keeps to itself."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import logging
import math
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping
from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from torch import nn

from gattn.training.checkpoint import SafeCheckpointIO
from gattn.training.loading import ordered_loader, shuffled_loader
from gattn.training.module import TrainingModule
from gattn.training.progress import StepBar
from gattn.training.types import Batches, History, LoopSettings, Loss, TrainingError

__all__ = ["run_epochs"]

CHECKPOINT = "checkpoint.safetensors"


def run_epochs(
    network: nn.Module,
    loss: Loss,
    train: Batches,
    validate: Batches,
    settings: LoopSettings,
    *,
    folder: Path | None,
    title: str,
) -> History:
    """Do what :func:`gattn.training.loop.fit_network` says, whose arguments these are."""
    if not len(train):
        raise TrainingError("the training part is empty")
    steps = settings.epochs * math.ceil(len(train) / settings.batch_size)
    fingerprint = _fingerprint(network, train, validate, settings)
    with _quiet(), _own_random_numbers():
        module = TrainingModule(copy.deepcopy(network), loss, settings, steps, fingerprint)
        if len(validate) <= settings.recorded_outputs:
            module.recorded_items = len(validate)
        trainer = _trainer(settings, _callbacks(validate, settings, folder, title), folder)
        where = trainer.global_rank, trainer.world_size
        training_loader = shuffled_loader(train, settings.batch_size, settings.seed, *where)
        validation_loader = ordered_loader(validate, settings.validation_batch_size, *where)
        checked = validation_loader if len(validate) else None
        with _interrupts():
            trainer.fit(module, training_loader, checked, ckpt_path=_checkpoint(folder))
    network.load_state_dict(module.chosen)
    network.eval()
    outputs = torch.stack(module.outputs) if module.outputs else None
    return History(tuple(module.records), module.chosen_epoch, outputs)


class Patience(EarlyStopping):
    """Early stopping that also stops a training that was interrupted after its last epoch."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop before the next epoch where the checkpoint was of the last."""
        trainer.should_stop = self.wait_count >= self.patience


class EpochCheckpoint(Checkpoint):
    """Saves after every epoch, in place of the last; Lightning runs it after other callbacks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        trainer.save_checkpoint(self.path)


def _callbacks(
    validate: Batches, settings: LoopSettings, folder: Path | None, title: str
) -> list[Callback]:
    callbacks: list[Callback] = [StepBar(title)] if title else []
    if len(validate):
        callbacks.append(Patience("validation_loss", patience=settings.patience))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        callbacks.append(EpochCheckpoint(folder / CHECKPOINT))
    return callbacks


def _checkpoint(folder: Path | None) -> Path | None:
    """The checkpoint to go on from."""
    path = None if folder is None else folder / CHECKPOINT
    return path if path is not None and path.exists() else None


def _trainer(settings: LoopSettings, callbacks: list[Callback], folder: Path | None) -> Trainer:
    """A trainer that does what the settings say and nothing else."""
    # As torchrun says.
    world, here = (int(os.environ.get(f"{of}WORLD_SIZE", "1")) for of in ("", "LOCAL_"))
    if settings.devices not in (1, world):
        raise TrainingError(
            f"to train in {settings.devices} processes start the program with torchrun "
            f"--nproc-per-node {settings.devices}; there are {world}"
        )
    if settings.accelerator == "gpu" and not _sees_gpu():
        raise TrainingError(
            "accelerator gpu wants a GPU that torch sees, and it sees none "
            "(gattn.backend_info() says more); auto takes a GPU where there is one"
        )
    cluster = TorchElasticEnvironment() if world > 1 else LightningEnvironment()
    return Trainer(
        accelerator=settings.accelerator,
        devices=here,
        num_nodes=world // here,
        strategy="ddp" if world > 1 else "auto",
        plugins=[SafeCheckpointIO(), cluster],
        precision="64-true" if settings.precision == "64" else settings.precision,
        gradient_clip_val=settings.gradient_clip or None,
        max_epochs=settings.epochs,
        callbacks=callbacks,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=folder is not None,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        inference_mode=False,  # gattn keeps layouts by the versions of tensors
    )


def _sees_gpu() -> bool:
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def _fingerprint(
    network: nn.Module, train: Batches, validate: Batches, settings: LoopSettings
) -> str:
    """What a training shares with its interrupted self: settings, sizes, first weights."""
    settings = dataclasses.replace(settings, devices=1)
    found = hashlib.sha256(repr((settings, len(train), len(validate))).encode())
    for name, value in network.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Lightning tells of itself off the terminal; its errors come through."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        # Lightning calls what newer versions of torch do otherwise.
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")
        # The stride of a dimension of size 1 says nothing.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    """Leave the caller's random numbers as they are."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        yield


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Give ^C to the caller: Lightning ends the program instead, and ignores the next."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as stop:
        if isinstance(stop.__context__, KeyboardInterrupt):
            signal.signal(signal.SIGINT, handler)
            raise KeyboardInterrupt from None
        raise
