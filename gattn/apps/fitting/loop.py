"""Training loop with shuffled mini-batches, averaged weights, and losses that ignore missing
labels.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import io
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.serialization import get_unsafe_globals_in_checkpoint
from tqdm.auto import tqdm

from gattn.apps.fitting.losses import check_finite
from gattn.apps.fitting.optimizer import AdamW, OneCycle
from gattn.apps.fitting.types import (
    Batches,
    EpochRecord,
    History,
    LoopSettings,
    Loss,
    TrainingError,
)
from gattn.files import replace_files


def progress_bar(
    items: Iterable[Any] | None, title: str, unit: str, *, progress: bool, **options: Any
) -> tqdm:
    """Create a progress bar.

    Args:
        items: the items to iterate over; None for a bar that the caller advances by ``update``.
        title: the text before the bar.
        unit: the name of an item.
        progress: whether to show the bar.
        options: further options of tqdm, for example ``total`` and ``initial``.

    Returns:
        A tqdm bar. It redraws every 0.1 seconds on a terminal, and every 10 seconds in a file.
    """
    interval = 0.1 if sys.stderr.isatty() else 10.0
    return tqdm(items, title, unit=unit, disable=not progress, mininterval=interval, **options)


DIGEST = hashlib.sha256().digest_size


def save_checkpoint(
    path: str | os.PathLike[str], checkpoint: dict[str, Any], *, check: bool = True
) -> None:
    """Write a checkpoint in torch's format, after its SHA-256; an existing file is replaced.

    Args:
        path: the file.
        checkpoint: dicts, lists and tuples of tensors, numbers, strings and None.
        check: whether to search for objects of other classes, which takes as long as writing. It
            can be False for a checkpoint with the same classes as an earlier one that was checked.

    Raises:
        TypeError: the checkpoint contains an object of another class; nothing is written.
        OSError: the file cannot be written; an existing file is unchanged.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "checkpoint.pt"
        >>> save_checkpoint(path, {"epoch": 3, "weight": torch.ones(2)})
        >>> load_checkpoint(path)
        {'epoch': 3, 'weight': tensor([1., 1.])}
    """
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    buffer.seek(0)
    if check and (unsafe := get_unsafe_globals_in_checkpoint(buffer)):
        raise TypeError(f"a checkpoint cannot contain {', '.join(sorted(unsafe))}")
    archive = buffer.getvalue()
    replace_files({Path(path): hashlib.sha256(archive).digest() + archive})


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Load a checkpoint to the CPU.

    Args:
        path: the file.

    Returns:
        The dict that :func:`save_checkpoint` wrote.

    Raises:
        TrainingError: the file is truncated or changed, or is not a checkpoint.
        FileNotFoundError: the file does not exist.
    """
    content = Path(path).read_bytes()
    digest, archive = content[:DIGEST], content[DIGEST:]
    if hashlib.sha256(archive).digest() != digest:
        raise TrainingError(_damaged(path, "its checksum is wrong"))
    try:
        checkpoint = torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, LookupError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise TrainingError(_damaged(path, reason)) from None
    if not isinstance(checkpoint, dict):
        raise TrainingError(
            _damaged(path, f"it contains a {type(checkpoint).__name__}, not a dict")
        )
    return checkpoint


def _damaged(path: str | os.PathLike[str], reason: str) -> str:
    return f"the checkpoint {path} is damaged ({reason}): remove it to start the training again"


CHECKPOINT = "checkpoint.pt"
CHECKPOINT_INTERVAL = 1.0
"""Minimum time between two checkpoints, in seconds.

Writing a checkpoint takes some 20 ms, as long as several steps on small molecules. An interrupted
training repeats at most the epochs of this time and one more.
"""
STATE = "state 3"
"""Version of the checkpoint format. A checkpoint of another version is not loaded."""


def fit_network(
    network: nn.Module,
    loss: Loss,
    train: Batches,
    validate: Batches,
    settings: LoopSettings,
    *,
    folder: Path | None = None,
    progress: bool = False,
    title: str = "training",
    starts: Mapping[str, float] | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> History:
    """Train a network in place, and set its weights to the averaged weights of the best epoch.

    A step minimises the mean loss over the known labels of one batch:

        L = Σ_ij known_ij loss(network(x), y)_ij / Σ_ij known_ij

    The order and the dropout of an epoch are functions of the seed and the epoch's number.
    Therefore an interrupted or killed training continues from its last checkpoint if the function
    is called again with the same folder, and its result has the same bits as without the
    interruption. A checkpoint is written after the first epoch, after the last one, and after each
    epoch that ends at least one second after the previous checkpoint. The states of torch's global
    generators are the same before and after the training.

    Args:
        network: network that returns [g, t] for the input of a batch. It is in eval mode at the
            end; if training fails, it is unchanged.
        loss: element-wise function of outputs and targets [g, t]. Targets that are NaN are replaced
            by 0, and their losses are ignored. Targets [g, t, 2] are the two ends of each label.
        train: the training part; at least one item.
        validate: the validation part, by which the epoch is chosen; if it is empty, the last epoch
            is chosen.
        settings: settings of the training.
        folder: directory of ``checkpoint.pt``, which is created if it is missing; None to write no
            checkpoint.
        progress: show a bar with the time left, on stderr.
        title: the text before the bar.
        starts: fraction of the steps before which some parameters do not change; see
            :class:`gattn.apps.fitting.optimizer.AdamW`.
        on_epoch: called with the record of each epoch that this call trains.

    Returns:
        The history, including the epochs before an interruption.

    Raises:
        TrainingError: the folder contains a damaged checkpoint or the checkpoint of another
            training; the training part is empty; a part has no label; the loss is not finite, or
            not one number for each target; or there is no GPU for the accelerator ``gpu``.
        OSError: the checkpoint cannot be written; the previous checkpoint is unchanged.
    """
    if not len(train):
        raise TrainingError("the training part is empty")
    training = _Training(network, loss, train, validate, settings, starts or {})
    path = None if folder is None else folder / CHECKPOINT
    saved = -math.inf
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            training.load(load_checkpoint(path))
    steps, first = training.steps_per_epoch, len(training.records)
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    bar = progress_bar(
        None, title, "step", progress=progress, total=settings.epochs * steps, initial=first * steps
    )
    with bar, torch.random.fork_rng(gpus):
        for epoch in range(first, settings.epochs):
            if training.is_finished:
                break
            bar.set_description(f"{title}, epoch {epoch + 1} of {settings.epochs}", refresh=False)
            training.run_epoch(epoch, bar.update)
            on_epoch(training.records[-1])
            if len(validate):
                value = f"{training.records[-1].validation_loss:.4g}"
                bar.set_postfix(validation_loss=value, refresh=False)
            if path is not None and training.needs_checkpoint(time.monotonic() - saved):
                training.save(path)
                saved = time.monotonic()
    network.load_state_dict(training.best)
    network.eval()
    outputs = torch.stack(training.outputs) if training.outputs else None
    return History(tuple(training.records), training.best_epoch, outputs)


def shuffled_batches(items: int, batch_size: int, *seed: int) -> Iterator[Tensor]:
    """Yield the indices of the items in each batch of one epoch, [b] int64. Without items, it
    yields one empty batch.

    Args:
        items: number of items.
        batch_size: items in a batch; the last batch may be smaller.
        seed: integers that determine the random order; without a seed, the items are not shuffled.
    """
    positions = torch.arange(items)
    if seed:
        generator = torch.Generator().manual_seed(_mixed_seed(*seed))
        positions = torch.randperm(items, generator=generator)
    yield from positions.split(batch_size)


class _Training:
    """State of a training run: a copy of the network, the optimizer, the averaged weights, and a
    record of each epoch.

    The arguments are those of :func:`fit_network`. The network itself is not changed. Raises
    TrainingError if there is no GPU for the accelerator ``gpu``.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss,
        train: Batches,
        validate: Batches,
        settings: LoopSettings,
        starts: Mapping[str, float],
    ) -> None:
        self.loss, self.train, self.validate = loss, train, validate
        self.settings, self.device = settings, _device(settings.accelerator)
        self.fingerprint = _fingerprint(network, train, validate, settings, starts)
        self.network = copy.deepcopy(network).train().to(self.device)
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self.steps_per_epoch = math.ceil(len(train) / settings.batch_size)
        steps = settings.epochs * self.steps_per_epoch
        self.optimizer = AdamW(
            self.network,
            self.average,
            OneCycle(settings.learning_rate, steps, settings.warmup),
            weight_decay=settings.weight_decay,
            decay=settings.average,
            starts=starts,
        )
        self.records: list[EpochRecord] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch, self.lowest = -1, math.inf
        self.outputs: list[Tensor] = []
        self.saved = False

    @property
    def is_finished(self) -> bool:
        """True if the training has reached its last epoch or stops early."""
        return (
            len(self.records) == self.settings.epochs
            or len(self.records) - 1 - self.best_epoch >= self.settings.patience
        )

    def needs_checkpoint(self, seconds: float) -> bool:
        """Return True if a checkpoint must be written, ``seconds`` after the previous one."""
        return self.is_finished or seconds >= CHECKPOINT_INTERVAL

    def state(self) -> dict[str, Any]:
        """Return the content of a checkpoint. Its tensors are not copied, so the next step changes
        them.
        """
        return {
            "fingerprint": self.fingerprint,
            **{name: part.state_dict() for name, part in self._stateful().items()},
            "records": [dataclasses.asdict(record) for record in self.records],
            "best": self.best,
            "best_epoch": self.best_epoch,
            "lowest": self.lowest,
            "outputs": self.outputs,
        }

    def save(self, path: Path) -> None:
        """Write the checkpoint. Raises OSError if the file cannot be written."""
        save_checkpoint(path, self.state(), check=not self.saved)
        self.saved = True

    def load(self, checkpoint: dict[str, Any]) -> None:
        """Restore the training from the content of a checkpoint, which :meth:`state` returned.

        Raises:
            TrainingError: the checkpoint belongs to another training.
        """
        if checkpoint.get("fingerprint") != self.fingerprint:
            raise TrainingError(
                "the checkpoint in the folder belongs to a training with other settings, "
                "data or initial weights: choose another folder, or remove the checkpoint to "
                "start again"
            )
        for name, part in self._stateful().items():
            part.load_state_dict(checkpoint[name])
        self.records = [EpochRecord(**record) for record in checkpoint["records"]]
        for name in ("best", "best_epoch", "lowest", "outputs"):
            setattr(self, name, checkpoint[name])

    def _stateful(self) -> dict[str, Any]:
        names = "network", "average", "optimizer"
        return {name: getattr(self, name) for name in names}

    def run_epoch(self, epoch: int, update_bar: Any) -> None:
        """Train for one epoch, validate the averaged weights, and record the epoch; if it is the
        best one, copy the averaged weights to ``best``. The function ``update_bar`` is called after
        each step. The seed of torch's global generator is set. Raises TrainingError if a part has
        no label or a loss is not finite.
        """
        started, settings = time.perf_counter(), self.settings
        torch.manual_seed(_mixed_seed(settings.seed, epoch, 1))
        sums = []
        for positions in shuffled_batches(
            len(self.train), settings.batch_size, settings.seed, epoch
        ):
            sums.append(self._step(positions))
            update_bar()
        validation = self._validate(epoch) if len(self.validate) else math.nan
        if math.isnan(validation) or validation < self.lowest:
            self.lowest, self.best_epoch = validation, epoch
            state = self.average.state_dict()
            self.best = {name: value.detach().to("cpu", copy=True) for name, value in state.items()}
        self.records.append(
            EpochRecord(
                epoch=epoch,
                train_loss=self._mean(sums, "training", epoch),
                validation_loss=validation,
                learning_rate=self.optimizer.learning_rate,
                seconds=time.perf_counter() - started,
            )
        )

    def _step(self, positions: Tensor) -> Tensor:
        """Take one optimisation step; return the summed loss and the number of labels as a tensor
        [2] float64. The weights, their average and the state of the optimizer are changed. Raises
        TrainingError as :meth:`_masked_loss`.
        """
        _, total, count = self._masked_loss(self.network, self.train, positions)
        self.optimizer.zero_grad()
        (total / count.clamp(min=1)).backward()
        if self.settings.gradient_clip:
            self.optimizer.clip(self.settings.gradient_clip)
        self.optimizer.step()
        self.optimizer.update_average()
        return torch.stack([total.detach().double(), count.double()])

    @torch.no_grad()
    def _validate(self, epoch: int) -> float:
        """Return the mean loss of the averaged weights on the validation part. If the part has at
        most ``recorded_outputs`` items, their outputs are appended to ``outputs``. Raises
        TrainingError if the part has no label or the loss is not finite.
        """
        sums, outputs = [], []
        batches = shuffled_batches(len(self.validate), self.settings.validation_batch_size)
        for positions in batches:
            output, total, count = self._masked_loss(self.average, self.validate, positions)
            sums.append(torch.stack([total.double(), count.double()]))
            outputs.append(output.float().cpu())
        if len(self.validate) <= self.settings.recorded_outputs:
            self.outputs.append(torch.cat(outputs))
        return self._mean(sums, "validation", epoch)

    def _masked_loss(
        self, network: nn.Module, part: Batches, positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs [g, t] of a network for the items at these positions of a part, the
        sum of the losses of their labels, and the number of labels, both as tensors. The network
        computes in its mode, training or evaluation. Raises TrainingError if the loss does not have
        one number for each target.
        """
        inputs, target, weight = part.batch(positions)
        if self.device.type != "cpu":
            inputs, target = inputs.to(self.device), target.to(self.device)
        output = network(inputs)
        labelled = ~target.isnan()
        loss = self.loss(output, target.nan_to_num(0.0).to(output.dtype))
        if weight is not None:
            loss = weight.to(output) * loss
        if target.dim() > output.dim():  # two bounds of each censored label
            labelled = labelled.all(-1)
        if loss.shape != labelled.shape:
            raise TrainingError(
                f"the loss of outputs {(*output.shape,)} and targets {(*target.shape,)} must "
                f"be one number for each target; it is {(*loss.shape,)}"
            )
        return output, torch.where(labelled, loss, 0.0).sum(), labelled.sum()

    def _mean(self, sums: list[Tensor], part: str, epoch: int) -> float:
        """Return the mean loss over the labels, from the sum of the losses and the number of labels
        of each batch, [2] each. Raises TrainingError if the part has no label or the loss is not
        finite.
        """
        total, count = torch.stack(sums).sum(0).tolist()
        if not count:
            raise TrainingError(f"the {part} part must have labels; all its labels are missing")
        check_finite(total, part, epoch, self.settings.learning_rate)
        return total / count


def _device(accelerator: str) -> torch.device:
    """Return the device of a training: for ``auto`` and ``gpu`` a CUDA GPU, or else Apple's MPS;
    for ``cpu``, and for ``auto`` without either, the CPU.

    Raises:
        TrainingError: the accelerator is ``gpu``, and there is none.
    """
    if accelerator != "cpu" and torch.cuda.is_available():
        return torch.device("cuda")
    if accelerator != "cpu" and torch.backends.mps.is_available():
        return torch.device("mps")
    if accelerator == "gpu":
        raise TrainingError(
            "accelerator gpu needs a GPU, but torch finds none (see gattn.backend_info()); "
            "auto uses a GPU only if there is one"
        )
    return torch.device("cpu")


def _fingerprint(
    network: nn.Module, train: Batches, validate: Batches, settings: LoopSettings,
    starts: Mapping[str, float],
) -> str:  # fmt: skip
    """Return a hash of the values that must be unchanged to resume a training run: the settings,
    ``starts``, the sizes of the parts, and the initial weights.
    """
    facts = STATE, settings, len(train), len(validate)
    digest = hashlib.sha256(repr(facts).encode())
    if starts:
        digest.update(repr(sorted(starts.items())).encode())
    for name, value in network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _mixed_seed(*numbers: int) -> int:
    """Combine several integers to one seed, so that different integers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
