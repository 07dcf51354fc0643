"""How Lightning runs the loop: its module, its loaders, its callbacks and its trainer."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import math
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint, EarlyStopping
from lightning.pytorch.plugins.environments import LightningEnvironment, TorchElasticEnvironment
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Dataset, Sampler

from gattn.training.checkpoint import SafeCheckpointIO
from gattn.training.progress import EpochBar
from gattn.training.records import (
    Batches,
    EpochRecord,
    History,
    LoopSettings,
    Loss,
    TrainingError,
)

__all__ = ["run_epochs"]

CHECKPOINT = "checkpoint.safetensors"


def run_epochs(
    network: nn.Module,
    loss: Loss,
    train: Batches[object],
    validate: Batches[object],
    settings: LoopSettings,
    *,
    folder: Path | None,
    progress: bool,
) -> History:
    """Do what :func:`gattn.training.loop.fit_network` says, whose arguments these are."""
    if not len(train):
        raise TrainingError("the training part is empty")
    callbacks: list[Callback] = [EpochBar()] if progress else []
    if len(validate):
        callbacks.append(Patience("validation_loss", patience=settings.patience))
    path = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / CHECKPOINT
        callbacks.append(EpochCheckpoint(path))
    with quiet(), _own_random_numbers():
        trainer = make_trainer(settings, callbacks, folder)
        module = TrainingModule(network, loss, settings, steps_of(train, settings), len(validate))
        module.same = _fingerprint(module, train, validate)
        loaders = [
            _loader(train, Order(len(train), settings.batch_size, settings.seed), trainer),
            _loader(validate, Order(len(validate), 4 * settings.batch_size, None), trainer),
        ]
        resumed = path if path is not None and path.exists() else None
        try:
            trainer.fit(
                module, loaders[0], loaders[1] if len(validate) else None, ckpt_path=resumed
            )
        except SystemExit:  # what Lightning makes of ^C, which is not for a library to decide
            raise KeyboardInterrupt from None
    network.to("cpu").load_state_dict(module.chosen)
    network.eval()
    return History(tuple(module.records), module.chosen_epoch)


def steps_of(train: Batches[object], settings: LoopSettings) -> int:
    """Count the steps of all epochs."""
    return settings.epochs * math.ceil(len(train) / settings.batch_size)


class TrainingModule(LightningModule):
    """A network with its loss, its optimizer, its average and its best weights so far."""

    def __init__(
        self, network: nn.Module, loss: Loss, settings: LoopSettings, steps: int, validated: int
    ) -> None:
        super().__init__()
        self.network, self.loss, self.settings = network.train(), loss, settings
        self.steps, self.validated = steps, bool(validated)
        decay = get_ema_multi_avg_fn(settings.average)
        self.average = AveragedModel(network, multi_avg_fn=decay).requires_grad_(False).eval()
        self.records: list[EpochRecord] = []
        self.chosen: dict[str, Tensor] = {}
        self.chosen_epoch, self.lowest = -1, math.inf
        self.same = ""
        self.train_sum, self.validation_sum = MaskedSum(), MaskedSum()
        self.validation_loss, self.began = math.nan, 0.0

    def configure_optimizers(self) -> dict[str, object]:
        """AdamW, and one cycle of the learning rate over all steps."""
        s = self.settings
        optimizer = torch.optim.AdamW(
            self.network.parameters(), s.learning_rate, weight_decay=s.weight_decay
        )
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, s.learning_rate, self.steps, pct_start=s.warmup
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}

    def on_train_epoch_start(self) -> None:
        """Make dropout a function of the seed, the epoch and the process."""
        seed = self.settings.seed
        torch.manual_seed(_mixed(seed, self.current_epoch, self.global_rank))
        self.train_sum, self.began = MaskedSum(), time.perf_counter()

    def training_step(self, batch: tuple[object, Tensor]) -> Tensor:
        """The mean loss over the known labels of the whole batch, times the processes.

        The processes' gradients are averaged, so that of each is multiplied by their number.
        """
        total, known = self._masked(self.network, batch)
        self.train_sum.add(total, known)
        world = self.trainer.world_size
        if world > 1:
            known = self._over_processes(known)
        return total * world / known.clamp(min=1)

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        """Take the new weights into the average."""
        self.average.update_parameters(self.network)

    def on_validation_epoch_start(self) -> None:
        """Begin the sum anew."""
        self.validation_sum = MaskedSum()

    def validation_step(self, batch: tuple[object, Tensor]) -> None:
        """Add what the averaged weights lose on a batch."""
        self.validation_sum.add(*self._masked(self.average, batch))

    def on_validation_epoch_end(self) -> None:
        """Keep the averaged weights where they lose less than ever before."""
        self.validation_loss = self._mean(self.validation_sum, "validation")
        self.log("validation_loss", self.validation_loss)
        if self.validation_loss < self.lowest:
            self.lowest = self.validation_loss
            self._choose()

    def on_train_epoch_end(self) -> None:
        """Write the epoch's record."""
        if not self.validated:
            self._choose()
        self.records.append(
            EpochRecord(
                epoch=self.current_epoch,
                train_loss=self._mean(self.train_sum, "training"),
                validation_loss=self.validation_loss,
                learning_rate=float(self.trainer.optimizers[0].param_groups[0]["lr"]),
                seconds=time.perf_counter() - self.began,
            )
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the records, the best weights, and what a training must share to go on from here."""
        checkpoint["same"] = self.same
        checkpoint["records"] = [dataclasses.asdict(record) for record in self.records]
        checkpoint["chosen"] = self.chosen
        checkpoint["chosen_epoch"], checkpoint["lowest"] = self.chosen_epoch, self.lowest

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take them back, unless they are of another training."""
        if checkpoint["same"] != self.same:
            raise TrainingError(
                "the folder's checkpoint is of a training with other settings, data or first "
                "weights: take another folder, or remove the checkpoint to begin anew"
            )
        self.records = [EpochRecord(**record) for record in checkpoint["records"]]
        self.chosen = checkpoint["chosen"]
        self.chosen_epoch, self.lowest = checkpoint["chosen_epoch"], checkpoint["lowest"]

    def transfer_batch_to_device(
        self, batch: tuple[object, Tensor], device: torch.device, dataloader_idx: int
    ) -> tuple[object, Tensor]:
        """Copy a batch to where the network is; one on the CPU is there already."""
        if device.type == "cpu":
            return batch
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def _masked(self, network: nn.Module, batch: tuple[object, Tensor]) -> tuple[Tensor, Tensor]:
        """The loss summed over the known labels, and their number."""
        inputs, target = batch
        output = network(inputs)
        if output.shape != target.shape[:1] + output.shape[1:] or output.dim() != 2:
            raise TrainingError(
                f"the network gives {(*output.shape,)} for targets {(*target.shape,)}"
            )
        output = output.float() if output.dtype in (torch.bfloat16, torch.float16) else output
        known = ~target.isnan()
        loss = self.loss(output, target.nan_to_num(0.0).to(output.dtype))
        return torch.where(known, loss, 0.0).sum(), known.sum()

    def _choose(self) -> None:
        state = self.average.module.state_dict()
        self.chosen = {name: value.detach().to("cpu", copy=True) for name, value in state.items()}
        self.chosen_epoch = self.current_epoch

    def _mean(self, summed: MaskedSum, part: str) -> float:
        total, known = self._over_processes(summed.values()).tolist()
        if not known:
            raise TrainingError(f"no label of the {part} part is known")
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss of the {part} part is not finite in epoch {self.current_epoch}: lower "
                f"the learning rate ({self.settings.learning_rate}) or look at the data"
            )
        return total / known

    def _over_processes(self, value: Tensor) -> Tensor:
        """The sum over all processes."""
        return self.trainer.strategy.reduce(value.to(self.device), reduce_op="sum")


class MaskedSum:
    """A sum of losses and the number of labels in it, in float64, without waiting for a device."""

    def __init__(self) -> None:
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, total: Tensor, known: Tensor) -> None:
        """Take in one batch."""
        self.parts.append((total.detach(), known))

    def values(self) -> Tensor:
        """[2] float64: the sum and the number."""
        pairs = [torch.stack([total.double(), known.double()]) for total, known in self.parts]
        return torch.stack(pairs).sum(0)


class Order(Sampler[Tensor]):
    """The batches of an epoch as positions: shuffled by seed and epoch, or in order without."""

    def __init__(self, items: int, batch_size: int, seed: int | None) -> None:
        self.items, self.batch_size, self.seed, self.epoch = items, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning says which epoch comes."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.items / self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        if self.seed is None:
            return iter(torch.arange(self.items).split(self.batch_size))
        generator = torch.Generator().manual_seed(_mixed(self.seed, self.epoch))
        return iter(torch.randperm(self.items, generator=generator).split(self.batch_size))


class Share(Dataset[tuple[object, Tensor]]):
    """One process's share of each batch."""

    def __init__(self, batches: Batches[object], trainer: Trainer) -> None:
        self.batches, self.rank, self.world = batches, trainer.global_rank, trainer.world_size

    def __getitem__(self, positions: Tensor) -> tuple[object, Tensor]:
        mine = positions[self.rank :: self.world]
        if len(mine):
            return self.batches.batch(mine)
        # Fewer items than processes: one item takes part without its labels.
        inputs, target = self.batches.batch(positions[:1])
        return inputs, torch.full_like(target, math.nan)


def _loader(
    part: Batches[object], order: Order, trainer: Trainer
) -> DataLoader[tuple[object, Tensor]]:
    return DataLoader(Share(part, trainer), sampler=order, batch_size=None)


class Patience(EarlyStopping):
    """Early stopping that also stops a training that was interrupted after its last epoch."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop before the next epoch where the checkpoint was the last."""
        trainer.should_stop = self.wait_count >= self.patience


class EpochCheckpoint(Checkpoint):
    """Saves after every epoch, in place of the last; runs after all other callbacks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save."""
        trainer.save_checkpoint(self.path)


def make_trainer(settings: LoopSettings, callbacks: list[Callback], folder: Path | None) -> Trainer:
    """Make a trainer that does what the settings say and nothing else."""
    world = int(os.environ.get("WORLD_SIZE", 1))
    if settings.devices not in (1, world):
        raise TrainingError(
            f"{settings.devices} processes are to be started by torchrun "
            f"--nproc-per-node {settings.devices}; there are {world}"
        )
    here = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return Trainer(
        accelerator=settings.accelerator,
        devices=here,
        num_nodes=world // here,
        strategy="ddp" if world > 1 else "auto",
        plugins=[
            SafeCheckpointIO(),
            TorchElasticEnvironment() if world > 1 else LightningEnvironment(),
        ],
        precision=settings.precision,
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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what Lightning tells of itself off the terminal; its errors come through."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated")
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


def _mixed(*numbers: int) -> int:
    """One seed of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _fingerprint(module: TrainingModule, train: Batches[object], validate: Batches[object]) -> str:
    """What a training shares with its interrupted self: settings, sizes, first weights."""
    settings = dataclasses.replace(module.settings, devices=1)
    found = hashlib.sha256(repr((settings, len(train), len(validate))).encode())
    for name, value in module.network.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()
