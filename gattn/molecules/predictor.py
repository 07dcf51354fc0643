"""Networks and a kernel ridge, trained, weighed, and put into one prediction with its error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from gattn.molecules.expanded import in_pieces
from gattn.molecules.kernel import KernelRidge
from gattn.molecules.members import (
    ASKED,
    MoleculeBatches,
    fit_members,
    make_network,
    predict_members,
)
from gattn.molecules.nearest import NearestMolecules, pack_bits
from gattn.molecules.network import AttentiveFPNetwork, MoleculeNetwork, batch_inputs
from gattn.molecules.settings import MoleculeSettings, Task
from gattn.molecules.stack import combine, fit_spread, fit_weights, spread
from gattn.training.scaling import moments
from gattn.training.settings import from_table, to_table

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs
    from gattn.training.loop import History

__all__ = ["MoleculePredictor", "Prediction"]

PIECE = 1024
"""Molecules whose fingerprints are expanded at once."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """What is predicted of k molecules and t targets.

    Attributes:
        mean: [k, t] float64, in the target's unit; of classes the probability of class 1.
        std: [k, t] float64, in the target's unit: the error to be expected, in the sense of a
            standard deviation. Of classes how far the parts and networks are apart.
        parts: each part's own mean [k, t]: ``"attention"`` or ``"attentive_fp"``, ``"ridge"``.
        members: [K, k, t], what each network of the ensemble predicts.
        nearest: [k], the Tanimoto similarity to the most similar molecule that was learned from,
            on Morgan bits.
    """

    mean: Tensor
    std: Tensor
    parts: dict[str, Tensor]
    members: Tensor
    nearest: Tensor


class MoleculePredictor:
    """A trained model of molecules: what :meth:`fit` gives and :meth:`from_state` restores.

    Attributes:
        networks: the ensemble, without a member where the model is the kernel ridge alone.
        history: what was recorded of each network's training; empty after :meth:`from_state`.
        held: what was predicted of the validation part before the kernel ridge learned it, too:
            by this its errors are told, not by :meth:`predict`. Of no molecules after
            :meth:`from_state`.
        task: ``"regression"`` or ``"classification"``.
        settings: what it was trained by.
        weights: the share of each part in the mean, by the part's name.
        kernel: the part that is a kernel ridge; None where the model has none.
    """

    def __init__(
        self, tensors: dict[str, Tensor], task: Task, settings: MoleculeSettings, targets: int
    ) -> None:
        """Make it of what :meth:`state` gives; see :meth:`from_state`."""
        self.task, self.settings, self.targets = task, settings, targets
        self.history: list[History] = []
        self.held = _nothing(targets)
        self._tensors = {name: tensors[name] for name in _OWN}
        self.networks = [
            _loaded(make_network(settings, targets), _under(f"networks.{member}.", tensors))
            for member in range(settings.ensemble if settings.model != "ridge" else 0)
        ]
        self._nearest = NearestMolecules(tensors["bits"])
        kernel = _under("ridge.", tensors)
        # Only numbers have an error that is told by the variance; see predict.
        self.kernel = KernelRidge(kernel, variance=task == "regression") if kernel else None

    @classmethod
    def fit(
        cls,
        train: MoleculeInputs,
        y: Tensor,
        val: MoleculeInputs,
        y_val: Tensor,
        task: Task,
        settings: MoleculeSettings,
        *,
        folder: Path | None = None,
        progress: bool = False,
    ) -> MoleculePredictor:
        """Train the parts on one set of molecules and weigh them by another.

        At last the kernel ridge, which needs no one to stop it, reads the second set, too.

        Args:
            train: k molecules.
            y: [k, t] float64; NaN where a target was not measured; 0 and 1 for classes.
            val: m molecules, which choose the networks' epoch, weigh the parts, and tell how large
                errors are.
            y_val: [m, t] float64.
            task: ``"regression"`` or ``"classification"``.
            settings: what to train.
            folder: where checkpoints of the networks go; training goes on from what lies there.
            progress: whether to show a bar.

        Returns:
            The trained model.

        Raises:
            ValueError: shapes that do not fit, or a target without one training value.
        """
        _check(train, y, "y")
        _check(val, y_val, "y_val")
        y, y_val, targets = y.double(), y_val.double(), y.shape[1]
        if not y.isfinite().any(0).all():
            raise ValueError("y must hold a measured value of every target; one has none")
        mean, scale = _scaling(y, task)
        tensors: dict[str, Tensor] = {"mean": mean, "scale": scale, "bits": _bits(train)}
        history: list[History] = []
        if settings.model != "ridge":
            networks, history = fit_members(
                MoleculeBatches(train, (y - mean) / scale),
                MoleculeBatches(val, (y_val - mean) / scale),
                task, settings, folder=folder, progress=progress,
            )  # fmt: skip
            for member, network in enumerate(networks):
                tensors |= _prefixed(f"networks.{member}.", network.state_dict())
        rows, seed = settings.kernel_rows, settings.seed
        if settings.model in ("stacked", "ridge"):
            kernel = KernelRidge.fit(train, y, rows=rows, seed=seed, progress=progress)
            tensors |= _prefixed("ridge.", kernel.state())
        made = cls._weighed(tensors, val, y_val, task, settings, targets)
        made.history = history
        if made.kernel is not None:
            made.kernel = made.kernel.with_more(val, y_val, rows=rows, seed=seed)
        made._tensors["bits"] = torch.cat([made._tensors["bits"], _bits(val)], 1)
        made._nearest = NearestMolecules(made._tensors["bits"])
        return made

    @classmethod
    def _weighed(
        cls, tensors: dict[str, Tensor], val: MoleculeInputs, y_val: Tensor, task: Task,
        settings: MoleculeSettings, targets: int,
    ) -> MoleculePredictor:  # fmt: skip
        """Weigh the trained parts, and learn how large their errors are."""
        unknown = {"weights": torch.ones(0), "spread": torch.ones(0)}
        made = cls(tensors | unknown, task, settings, targets)
        parts, members, variance = made._ask(val)
        stacked = torch.stack(list(parts.values()))
        mean, scale = tensors["mean"], tensors["scale"]
        weights = fit_weights((stacked - mean) / scale, (y_val - mean) / scale)
        made._tensors["weights"] = weights
        if task == "regression":
            sources = made._sources(stacked, members, variance)
            made._tensors["spread"] = fit_spread(sources, y_val - combine(stacked, weights))
        made.held = made.predict(val)
        return made

    def predict(self, inputs: MoleculeInputs) -> Prediction:
        """Predict molecules.

        Args:
            inputs: k molecules.

        Returns:
            Means, errors to be expected, and what they come from; of no molecules empty tensors.
        """
        parts, members, variance = self._ask(inputs)
        stacked = torch.stack(list(parts.values()))
        mean = combine(stacked, self._tensors["weights"])
        if self.task == "regression":
            std = spread(self._sources(stacked, members, variance), self._tensors["spread"])
        else:
            voices = torch.cat([stacked, members])
            std = (voices - voices.mean(0)).square().mean(0).sqrt()
        nearest = [self._nearest.similarity(some.counts) for some in in_pieces(inputs, PIECE)]
        return Prediction(mean, std, parts, members, torch.cat(nearest))

    def embed(self, inputs: MoleculeInputs) -> Tensor:
        """Describe molecules by what the networks predict them from.

        The vectors of an ensemble's networks stand side by side: a feature of one is none of
        another, so that their mean would say nothing.

        Args:
            inputs: k molecules.

        Returns:
            [k, K d] float32, of each of the K networks d numbers.

        Raises:
            ValueError: the model has no network.
        """
        if not self.networks:
            raise ValueError('embed needs a network; this model is "ridge", which has none')
        made = []
        with torch.inference_mode():
            for positions in torch.arange(len(inputs)).split(ASKED):
                batch = batch_inputs(inputs[positions])
                made.append(torch.cat([network.embed(batch) for network in self.networks], 1))
        return torch.cat(made)

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Give what the model is made of, for :meth:`from_state`.

        Returns:
            Tensors by name, and facts that JSON can hold.
        """
        tensors = dict(self._tensors)
        for member, network in enumerate(self.networks):
            tensors |= _prefixed(f"networks.{member}.", network.state_dict())
        if self.kernel is not None:
            tensors |= _prefixed("ridge.", self.kernel.state())
        return tensors, {
            "task": self.task, "targets": self.targets, "settings": to_table(self.settings),
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], facts: dict[str, object]) -> MoleculePredictor:
        """Restore a model from what :meth:`state` gave.

        Args:
            tensors: by name.
            facts: the rest.

        Returns:
            A model that predicts the same; its history is empty.

        Raises:
            ValueError: a tensor or a fact is missing, or has another shape.
        """
        try:
            settings = from_table(MoleculeSettings, cast("dict[str, object]", facts["settings"]))
            return cls(tensors, cast(Task, facts["task"]), settings, cast(int, facts["targets"]))
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(f"these are not the tensors and facts of a model: {error}") from error

    @property
    def weights(self) -> dict[str, float]:
        """The share of each part in the mean; they sum to one."""
        return dict(zip(self._names, self._tensors["weights"].tolist()))

    def in_units(self, raw: Tensor) -> Tensor:
        """Turn what networks give, [..., t], into the targets' units; of classes probabilities."""
        if self.task == "classification":
            return raw.sigmoid()
        return raw * self._tensors["scale"] + self._tensors["mean"]

    @property
    def _names(self) -> list[str]:
        """The parts, in the order of their weights."""
        model = self.settings.model
        return ["attention", "ridge"] if model == "stacked" else [model]

    def _ask(self, inputs: MoleculeInputs) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Every part's mean [k, t], the networks' [K, k, t], the kernel's variance [k, t]."""
        members = self.in_units(predict_members(self.networks, inputs, self.targets))
        made, variance = [], torch.zeros(len(inputs), self.targets, dtype=torch.float64)
        if self.networks:
            made.append(members.mean(0))
        if self.kernel is not None:
            mean, variance = self.kernel.predict(inputs)
            made.append(mean.clamp(0, 1) if self.task == "classification" else mean)
        return dict(zip(self._names, made)), members, variance

    def _sources(self, parts: Tensor, members: Tensor, variance: Tensor) -> Tensor:
        """What may tell how large an error is: [s, k, t], in squares of the target's unit."""
        sources = [self._tensors["scale"].square().expand_as(variance)]
        if self.kernel is not None:
            sources.append(variance)
        if len(parts) > 1:
            sources.append((parts[0] - parts[1]).square())
        if len(members) > 1:
            apart = members - members.mean(0)
            sources.append(apart.square().sum(0) / (len(members) - 1))  # var warns of no molecule
        return torch.stack(sources)


_OWN = ("mean", "scale", "bits", "weights", "spread")


def _check(inputs: MoleculeInputs, y: Tensor, name: str) -> None:
    if y.dim() != 2 or len(y) != len(inputs) or not len(y):
        raise ValueError(f"{name} must be ({len(inputs)}, t), one or more; got {(*y.shape,)}")


def _bits(inputs: MoleculeInputs) -> Tensor:
    return pack_bits(some.counts for some in in_pieces(inputs, PIECE))


def _scaling(y: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each target; 0 and 1 for classes."""
    if task == "classification":
        return torch.zeros(y.shape[1]).double(), torch.ones(y.shape[1]).double()
    return moments(y)


def _nothing(targets: int) -> Prediction:
    """What is predicted of no molecules."""
    none = torch.empty(0, targets, dtype=torch.float64)
    return Prediction(none, none, {}, none[None][:0], torch.empty(0))


def _prefixed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor.detach().clone() for name, tensor in tensors.items()}


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): tensor for n, tensor in tensors.items() if n.startswith(prefix)}


def _loaded(
    network: MoleculeNetwork | AttentiveFPNetwork, tensors: dict[str, Tensor]
) -> MoleculeNetwork | AttentiveFPNetwork:
    network.load_state_dict(tensors)
    return network.eval()
