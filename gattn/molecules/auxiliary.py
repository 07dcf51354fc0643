"""RDKit's descriptors as additional targets in the training of networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gattn.molecules.layers import MoleculeBatch
from gattn.training.losses import squared_error
from gattn.training.scaling import moments

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs
    from gattn.training.types import Loss

__all__ = ["AuxiliaryNetwork", "descriptor_targets", "with_auxiliary"]

FARTHEST = 6.0
"""Standardised descriptors are clipped to plus or minus this value."""


def descriptor_targets(inputs: MoleculeInputs) -> Tensor:
    """Return the descriptors of k molecules, standardised and clipped: [k, a] float32.

    Args:
        inputs: k molecules.
    """
    descriptors = inputs.descriptors.double()
    mean, scale = moments(descriptors)
    return ((descriptors - mean) / scale).clamp(-FARTHEST, FARTHEST).float()


def with_auxiliary(
    loss: Loss, targets: int, weight: float, *, has_weights: bool, outputs: int | None = None
) -> Loss:
    r"""Return a loss function that includes the squared errors of the additional targets.

    .. math:: L = \frac{1}{t} \sum_{j \le t} \mathrm{loss}_j
        + \frac{w}{a} \sum_{j > t} (z_j - y_j)^2

    as a mean over the labels of a molecule. Outputs without the additional targets, as in the
    validation, have the loss of the targets alone.

    Args:
        loss: element-wise loss of the t targets.
        targets: number t of targets.
        weight: weight w of the a additional targets.
        has_weights: whether the last entry of a target is the weight of its row.
        outputs: number o of outputs for the t targets; by default t.

    Returns:
        A function of outputs [g, o + a] and targets [g, t + a], or of [g, o] and [g, t].
    """
    width = targets if outputs is None else outputs

    def of_columns(output: Tensor, target: Tensor) -> Tensor:
        main = loss(output[:, :width], target[:, :targets])
        if output.shape[1] == width:
            return main
        count = target.shape[1]
        labels = target[:, targets:]
        factor = labels[..., -1] if has_weights else 1.0
        value = labels if labels.dim() == 2 else labels[..., 0]
        added = factor * squared_error(output[:, width:], value)
        shares = count / targets, weight * count / (count - targets)
        return torch.cat([shares[0] * main, shares[1] * added], 1)

    return of_columns


class AuxiliaryNetwork(nn.Module):
    """Network that returns additional outputs in training mode only.

    Args:
        network: a network with o + a outputs.
        outputs: number o of outputs for the targets.
    """

    def __init__(self, network: nn.Module, outputs: int) -> None:
        super().__init__()
        self.network, self.outputs = network, outputs

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Return [g, o + a] in training mode, and [g, o] otherwise."""
        output = self.network(batch)
        return output if self.training else output[:, : self.outputs]

    def trimmed_state(self, like: nn.Module) -> dict[str, Tensor]:
        """Return the parameters, without those of the additional outputs.

        Args:
            like: a network with o outputs, which determines the shapes.
        """
        shapes: Mapping[str, Tensor] = like.state_dict()
        state = self.network.state_dict()
        return {name: state[name][: len(value)] if value.dim() else state[name]
                for name, value in shapes.items()}  # fmt: skip
