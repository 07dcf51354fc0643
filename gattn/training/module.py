"""The network as Lightning trains it: loss, optimizer, averaged weights, the best epoch."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gattn.training.loading import mixed_seed
from gattn.training.types import EpochRecord, Input, LoopSettings, Loss, TrainingError

__all__ = ["TrainingModule"]


class TrainingModule(LightningModule):
    """A network with its loss, its optimizer, its average and its best weights so far.

    Args:
        network: what is trained.
        loss: element by element.
        settings: how.
        steps: of all epochs together.
        fingerprint: what a checkpoint must have in common with this training.
    """

    def __init__(
        self, network: nn.Module, loss: Loss, settings: LoopSettings, steps: int, fingerprint: str
    ) -> None:
        super().__init__()
        self.network, self.loss, self.settings = network.train(), loss, settings
        self.steps, self.fingerprint = steps, fingerprint
        decay = get_ema_multi_avg_fn(settings.average)
        self.average = AveragedModel(network, multi_avg_fn=decay).requires_grad_(False).eval()
        self.records: list[EpochRecord] = []
        self.chosen: dict[str, Tensor] = {}
        self.chosen_epoch, self.lowest = -1, math.inf
        self.train_sum, self.validation_sum = MaskedSum(), MaskedSum()
        self.validation_loss, self.began = math.nan, 0.0
        self.recorded_items = 0
        self.batch_outputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def configure_optimizers(self) -> dict[str, object]:
        """AdamW, and one cycle of the learning rate over all steps."""
        s = self.settings
        # Mixed precision clips gradients only of optimizers that leave their scale alone.
        optimizer = torch.optim.AdamW(
            self.network.parameters(),
            s.learning_rate,
            weight_decay=s.weight_decay,
            fused=s.precision in ("32", "64"),
        )
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, s.learning_rate, self.steps, pct_start=s.warmup
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}

    def on_train_epoch_start(self) -> None:
        """Make dropout a function of the seed, the epoch and the process."""
        torch.manual_seed(mixed_seed(self.settings.seed, self.current_epoch, 1 + self.global_rank))
        self.train_sum, self.began = MaskedSum(), time.perf_counter()

    def training_step(self, batch: tuple[Input, Tensor]) -> Tensor:
        """The mean loss over the known labels of the whole batch, times the processes.

        Lightning averages the gradients of the processes, hence the factor.
        """
        _, total, known = self._masked(self.network, batch)
        self.train_sum.add(total, known)
        world = self.trainer.world_size
        if world > 1:
            known = self._over_processes(known)
        return total * world / known.clamp(min=1)

    def on_train_batch_end(self, outputs: object, batch: object, batch_idx: int) -> None:
        """Take the new weights into the average."""
        self.average.update_parameters(self.network)

    def on_validation_epoch_start(self) -> None:
        """Reset the sum and the outputs."""
        self.validation_sum, self.batch_outputs = MaskedSum(), []

    def validation_step(self, batch: tuple[Input, Tensor]) -> None:
        """Add the loss of the averaged weights on a batch, and record their outputs."""
        output, total, known = self._masked(self.average, batch)
        self.validation_sum.add(total, known)
        if self.recorded_items:
            self.batch_outputs.append(output.detach().float().cpu())

    def on_validation_epoch_end(self) -> None:
        """Keep the averaged weights where they lose less than ever before."""
        self.validation_loss = self._mean(self.validation_sum, "validation")
        self.log("validation_loss", self.validation_loss)
        if self.validation_loss < self.lowest:
            self.lowest = self.validation_loss
            self._choose()
        if self.recorded_items:
            self.outputs.append(self._outputs_of_all())

    def on_train_epoch_end(self) -> None:
        """Write the epoch's record."""
        if math.isnan(self.validation_loss):  # there is no validation part
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
        """Add the records, the best weights and the fingerprint."""
        checkpoint["fingerprint"] = self.fingerprint
        checkpoint["records"] = [dataclasses.asdict(record) for record in self.records]
        checkpoint["chosen"], checkpoint["lowest"] = self.chosen, self.lowest
        checkpoint["chosen_epoch"] = self.chosen_epoch
        checkpoint["outputs"] = self.outputs

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take them back, unless they are of another training."""
        if checkpoint["fingerprint"] != self.fingerprint:
            raise TrainingError(
                "the folder's checkpoint is of a training with other settings, data or first "
                "weights: take another folder, or remove the checkpoint to begin anew"
            )
        self.records = [EpochRecord(**record) for record in checkpoint["records"]]
        self.chosen, self.lowest = checkpoint["chosen"], checkpoint["lowest"]
        self.chosen_epoch = checkpoint["chosen_epoch"]
        self.outputs = checkpoint["outputs"]

    def transfer_batch_to_device(
        self, batch: tuple[Input, Tensor], device: torch.device, dataloader_idx: int
    ) -> tuple[Input, Tensor]:
        """Give a batch the device and the precision of the network."""
        inputs, target = batch
        if device.type != "cpu":
            inputs, target = inputs.to(device), target.to(device)
        return (_doubled(inputs) if self.settings.precision == "64" else inputs), target

    def _masked(
        self, network: nn.Module, batch: tuple[Input, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs [g, t], the loss summed over the measured labels, and their number."""
        inputs, target = batch
        output = network(inputs)
        if output.dtype in (torch.bfloat16, torch.float16):
            output = output.float()
        known = ~target.isnan()
        loss = self.loss(output, target.nan_to_num(0.0).to(output.dtype))
        if loss.shape != target.shape:
            raise TrainingError(
                f"the loss of outputs {(*output.shape,)} and targets {(*target.shape,)} must be "
                f"one number a target; it is {(*loss.shape,)}"
            )
        return output, torch.where(known, loss, 0.0).sum(), known.sum()

    def _choose(self) -> None:
        state = self.average.module.state_dict()
        self.chosen = {name: value.detach().to("cpu", copy=True) for name, value in state.items()}
        self.chosen_epoch = self.current_epoch

    def _outputs_of_all(self) -> Tensor:
        """The outputs of all processes for the validation part, [n, t] in the order of its items.

        Each process computes every ``world_size``-th item of a batch; a process without an item
        in a batch computes the first one again, which is left out here.
        """
        items = torch.arange(self.recorded_items)
        batches = items.split(self.settings.validation_batch_size)
        rank, world = self.trainer.global_rank, self.trainer.world_size
        shares = [batch[rank::world] for batch in batches]
        full = torch.zeros(self.recorded_items, *self.batch_outputs[0].shape[1:])
        for share, output in zip(shares, self.batch_outputs, strict=True):
            full[share] = output[: len(share)]
        return self._over_processes(full).cpu() if world > 1 else full

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
        """The sum over all processes; of a copy, for the strategy sums in place."""
        return self.trainer.strategy.reduce(value.to(self.device, copy=True), reduce_op="sum")


def _doubled(inputs: Input) -> Input:
    """The inputs with floating tensors in float64; those of the caller stay as they are."""
    if isinstance(inputs, Tensor):
        return inputs.double() if inputs.is_floating_point() else inputs
    return copy.copy(inputs).apply(_doubled)


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
