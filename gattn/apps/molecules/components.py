"""Trained components of a model of molecules: neural networks, a Gaussian process and a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.molecules.classes import class_softmax, normalised
from gattn.apps.molecules.forest import Forest
from gattn.apps.molecules.gaussian_process import GaussianProcess
from gattn.apps.molecules.members import make_network, predict_members
from gattn.apps.molecules.network import MoleculeNetwork
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.run.model_io import add_prefix, remove_prefix

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

__all__ = ["ComponentPredictions", "Components", "disagreement"]


@dataclass(frozen=True, eq=False)
class ComponentPredictions:
    """Predictions of k molecules by each of P components.

    Attributes:
        means: mean [k, t] of each component by its name.
        members: [K, k, t] predictions of each network.
        variance: [k, t] variances of the Gaussian process; zeros if the model has none.
    """

    means: dict[str, Tensor]
    members: Tensor
    variance: Tensor


class Components:
    """Components of a model, restored from their tensors.

    Each component predicts the mean of each target. :mod:`gattn.apps.molecules.stacking` combines
    the means by weights, which are not stored here.

    Args:
        tensors: tensors by name: ``mean`` and ``scale`` [t] of the targets, the tensors of
            :meth:`state`, and possibly others.
        task: ``"regression"``, ``"classification"`` or ``"multiclass"``.
        settings: the settings of the model.
        targets: the number of columns of the labels.
        classes: for several classes the number of classes of each target; () for other tasks.
        extra: the number of descriptor columns of the user.
        molecules: the number of molecules in a row.

    Attributes:
        networks: the ensemble, empty if the model is the Gaussian process alone.
        kernel: the Gaussian process; None if the model has none.
        forest: the forest of trees; None if the model has none.
        names: names of the components, in the order of their weights.
        mean: [t] float64, the mean by which each target is scaled; 0 for classes.
        scale: [t] float64, the standard deviation by which each target is scaled; 1 for classes.
    """

    def __init__(
        self, tensors: dict[str, Tensor], task: Task, settings: MoleculeSettings, targets: int,
        classes: Sequence[int] = (), *, extra: int = 0, molecules: int = 1,
    ) -> None:  # fmt: skip
        self.task, self.settings, self.targets = task, settings, targets
        self.classes = tuple(classes)
        self.mean, self.scale = tensors["mean"], tensors["scale"]
        self.networks = [
            _loaded(
                make_network(settings, targets, extra=extra, molecules=molecules),
                remove_prefix(f"networks.{member}.", tensors),
            )
            for member in range(settings.ensemble if settings.model != "gp" else 0)
        ]
        kernel = remove_prefix("gp.", tensors)
        # In classification, predict does not need the variance of the Gaussian process.
        self.kernel = GaussianProcess(kernel, variance=task == "regression") if kernel else None
        trees = remove_prefix("forest.", tensors)
        self.forest = Forest(trees) if trees else None
        self.names = [settings.model]
        if settings.model == "stacked":
            self.names = ["attention", "gp", *(["forest"] if self.forest is not None else [])]

    def state(self) -> dict[str, Tensor]:
        """Return the tensors of the networks, the Gaussian process and the forest, by name."""
        tensors: dict[str, Tensor] = {}
        for member, network in enumerate(self.networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        if self.kernel is not None:
            tensors |= add_prefix("gp.", self.kernel.state())
        if self.forest is not None:
            tensors |= add_prefix("forest.", self.forest.state())
        return tensors

    def in_units(self, raw: Tensor) -> Tensor:
        """Convert the outputs of networks, [..., t], to the units of the transformed targets, or to
        probabilities.
        """
        if self.task == "multiclass":
            return class_softmax(raw, self.classes)
        if self.task == "classification":
            return raw.sigmoid()
        return raw * self.scale + self.mean

    def probabilities(self, mean: Tensor) -> Tensor:
        """Convert means [k, t] of the Gaussian process or the forest to probabilities if the labels
        are classes.
        """
        if self.task == "multiclass":
            return normalised(mean, self.classes)
        return mean.clamp(0, 1) if self.task == "classification" else mean

    def predict(self, inputs: MoleculeInputs, *, threads: int = 0) -> ComponentPredictions:
        """Predict k molecules with each component.

        Args:
            inputs: k molecules, with standardised descriptor columns.
            threads: number of threads that compute a batch; 0 to choose it.

        Returns:
            The predictions, in the units of the transformed targets.
        """
        members = self.in_units(
            predict_members(self.networks, inputs, self.targets, threads=threads)
        )
        mean = variance = torch.zeros(len(inputs), self.targets, dtype=torch.float64)
        if self.kernel is not None:
            mean, variance = self.kernel.predict(inputs)
        forest = mean if self.forest is None else self.forest.predict(inputs)
        means = dict(zip(self.names, self._means(members, mean, forest)))
        return ComponentPredictions(means, members, variance)

    def means(self, members: Tensor, mean: Tensor, forest: Tensor) -> Tensor:
        """Return the mean of each of P components, [P, k, t].

        Args:
            members: [K, k, t] means of each network.
            mean: [k, t] means of the Gaussian process; not read if the model has none.
            forest: [k, t] means of the forest; not read if the model has none.
        """
        return torch.stack(self._means(members, mean, forest))

    def error_inputs(self, means: Tensor, members: Tensor, variance: Tensor) -> Tensor:
        """Return the inputs of the model of the squared error, [s, k, t], in squares of the
        target's unit.

        The inputs are the variance of the target, the variance of the Gaussian process, the squared
        differences between the components, and the variance over the networks. Inputs that the
        model does not have are left out.

        Args:
            means: [P, k, t] means of the components.
            members: [K, k, t] means of each network.
            variance: [k, t] variances of the Gaussian process; not read if the model has none.
        """
        sources = [self.scale.square().expand_as(variance)]
        if self.kernel is not None:
            sources.append(variance)
        if len(means) > 1:
            sources.append((means[0] - means[1]).square())
        if len(means) > 2:
            sources.append((means[1] - means[2]).square())
        if len(members) > 1:
            # The variance is computed without Tensor.var, which warns if the batch is empty.
            deviations = members - members.mean(0)
            sources.append(deviations.square().sum(0) / (len(members) - 1))
        return torch.stack(sources)

    def _means(self, members: Tensor, mean: Tensor, forest: Tensor) -> list[Tensor]:
        """Return the mean [k, t] of each component, in the order of their names."""
        means = [members.mean(0)] if self.networks else []
        if self.kernel is not None:
            means.append(self.probabilities(mean))
        if self.forest is not None:
            means.append(self.probabilities(forest))
        return means


def disagreement(means: Tensor, members: Tensor) -> Tensor:
    """Return the standard deviation over components and networks: the expected error of classes.

    Args:
        means: [P, k, t] means of the components.
        members: [K, k, t] means of each network.

    Returns:
        [k, t].
    """
    predictions = torch.cat([means, members])
    return (predictions - predictions.mean(0)).square().mean(0).sqrt()


def _loaded(network: MoleculeNetwork, tensors: dict[str, Tensor]) -> MoleculeNetwork:
    """Return the network with its weights, in evaluation mode."""
    network.load_state_dict(tensors)
    return network.eval()
