"""Model of atoms, bonds and molecules, which combines attention networks with mean labels of
environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.types import History
from gattn.apps.molecules.atoms.environments import (
    EnvironmentMeans,
    GroupedScores,
    environment_codes,
)
from gattn.apps.molecules.atoms.network import (
    AtomTraining,
    new_network,
    one_hot_labels,
    output_width,
)
from gattn.apps.molecules.atoms.values import LabelledAtoms, Targets, Values, pointers
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.members import PREDICTION_BATCH, batch_elements
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.molecules.stacking import fit_spread, predicted_std
from gattn.apps.run.model_io import add_prefix, remove_prefix
from gattn.apps.runtime.threads import limited_threads
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.features import FEATURISER

NEVER = -1e4
"""Logit of the outputs that exceed a target's number of classes. Their probability is 0."""


@dataclass(frozen=True, eq=False)
class AtomPrediction:
    """Predictions for k molecules, their atoms and their bonds.

    Attributes:
        mean: [r, t, d] float64 by kind; for numbers d = 1, for two classes the probability of the
            second, for several classes the probability of each.
        std: [r, t] float64 by kind, the standard deviation of the expected error; for classes the
            standard deviation over the components of the model.
        parts: the means by the name of the component: ``"attention"`` and ``"environments"``.
        radius: for ``"atom"`` and ``"bond"`` [r] int64, the largest radius of the environment that
            the training part contains, -1 for an unknown atom.
        graphs: the graphs of the molecules.
    """

    mean: Values
    std: Values
    parts: dict[str, Mapping[str, Tensor]]
    radius: dict[str, Tensor]
    graphs: MoleculeArrays

    @property
    def numbers(self) -> Values:
        """The means [r, t], for a regression."""
        return Values({kind: mean[..., 0] for kind, mean in self.mean.rows.items()}, self.mean.ptr)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Predictions of the components for k molecules.

    Attributes:
        members: predictions [K, r, t, d] of the K networks, by kind.
        means: prediction [r, t, d] of each component by its name, by kind.
        labels: [r, t] the number of labels of the environment, by kind.
        radius: see :class:`AtomPrediction`.
        graphs: the graphs of the molecules.
    """

    members: dict[str, Tensor]
    means: dict[str, Mapping[str, Tensor]]
    labels: dict[str, Tensor]
    radius: dict[str, Tensor]
    graphs: MoleculeArrays

    def stacked(self, kind: str, column: int) -> Tensor:
        """Return the predictions of a target by all components, [P, r, d]."""
        return torch.stack([part[kind][:, column] for part in self.means.values()])


class AtomPredictor:
    """Trained model of atoms, bonds and molecules, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        networks: the ensemble.
        history: the training history of each network; empty after :meth:`from_state`.
        validation: the prediction of the validation part; None after :meth:`from_state`.
        task: the task.
        targets: the names of the targets by kind.
        classes: for classes the number of classes of each target; () for numbers.
        threads: number of threads inside an operator; 0 to choose it by the size.
    """

    threads = 0

    def __init__(
        self, tensors: Mapping[str, Tensor], task: Task, settings: MoleculeSettings,
        targets: Targets, classes: Sequence[int],
    ) -> None:  # fmt: skip
        """Restore a model from its tensors; see :meth:`from_state`."""
        self.task, self.settings, self.targets = task, settings, targets
        self.classes = tuple(classes)
        self.history: list[History] = []
        self.validation: AtomPrediction | None = None
        self._tensors = {n: t for n, t in tensors.items() if not n.startswith("networks.")}
        self.width = output_width(task, classes)
        self.networks = [
            new_network(settings, targets, self.width, member)
            for member in range(settings.ensemble)
        ]
        for member, network in enumerate(self.networks):
            network.load_state_dict(remove_prefix(f"networks.{member}.", tensors))
            network.eval()
        self.environments = {
            kind: EnvironmentMeans.from_state(remove_prefix(f"environments.{kind}.", tensors))
            for kind in targets.kinds
        }
        self.scores = [
            GroupedScores.from_state(remove_prefix(f"scores.{i}.", tensors))
            for i in range(len(targets))
        ]

    @classmethod
    def fit(
        cls,
        train: LabelledAtoms,
        val: LabelledAtoms,
        task: Task,
        settings: MoleculeSettings,
        targets: Targets,
        classes: Sequence[int] = (),
        *,
        folder: Path | None = None,
        progress: bool = False,
        threads: int = 0,
    ) -> AtomPredictor:
        """Train the networks and the mean labels of environments; fit the weights of both on the
        validation part.

        The validation part chooses the epoch of each network, the weight of both parts for each
        target, and the calibration of the intervals.

        Args:
            train: training part.
            val: validation part.
            task: the task.
            settings: settings of the model and its training.
            targets: the names of the targets by kind.
            classes: for classes the number of classes of each target.
            folder: folder of the checkpoints of the networks, from which training continues.
            progress: whether to show a progress bar.
            threads: number of threads inside an operator; 0 to choose it.

        Raises:
            ValueError: a target has no label in the training part.
        """
        tensors: dict[str, Tensor] = {}
        codes = environment_codes(train.inputs.molecules.arrays)
        for kind in targets.kinds:
            y = train.y.rows[kind]
            measured = y.isfinite().any(0)
            if not measured.all():
                name = targets.of(kind)[int((~measured).nonzero()[0])]
                raise ValueError(
                    f"the training part has no label of {name!r}: choose another split"
                )
            mean, scale = torch.zeros(y.shape[1]).double(), torch.ones(y.shape[1]).double()
            if task == "regression":
                mean, scale = moments(y)
            tensors |= {f"mean.{kind}": mean, f"scale.{kind}": scale}
            labels = one_hot_labels(y, output_width(task, classes))
            means = EnvironmentMeans.fit(codes[kind], labels)
            tensors |= add_prefix(f"environments.{kind}.", means.state())
        training = AtomTraining(task, settings, targets, tuple(classes), tensors)
        networks, history = training.fit(train, val, folder, progress=progress, threads=threads)
        for member, network in enumerate(networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        for i in range(len(targets)):
            nothing = GroupedScores.fit(torch.empty(0), torch.empty(0, dtype=torch.int64))
            tensors |= add_prefix(f"scores.{i}.", nothing.state())
        predictor = cls(tensors, task, settings, targets, classes)
        predictor.history, predictor.threads = history, threads
        predictor._calibrate(val)
        return predictor

    def predict(self, inputs: MoleculeInputs) -> AtomPrediction:
        """Predict molecules, their atoms and bonds; empty inputs give empty values."""
        return self._combine(self._predict_parts(inputs))

    def _predict_parts(self, inputs: MoleculeInputs) -> _Parts:
        """Return the predictions of the components."""
        arrays = inputs.molecules.arrays
        codes = environment_codes(arrays)
        members = self._predict_networks(inputs)
        attention = {kind: values.mean(0) for kind, values in members.items()}
        means: dict[str, Tensor] = {}
        labels: dict[str, Tensor] = {}
        radius: dict[str, Tensor] = {}
        for kind, environments in self.environments.items():
            means[kind], labels[kind], radius[kind] = environments.predict(codes[kind])
        parts: dict[str, Mapping[str, Tensor]] = {"attention": attention, "environments": means}
        return _Parts(members, parts, labels, radius, arrays)

    def _combine(self, each: _Parts) -> AtomPrediction:
        """Combine the predictions of the components with the weights of each target."""
        attention, ptr = each.means["attention"], pointers(each.graphs)
        mean = {kind: values.clone() for kind, values in attention.items()}
        std = {kind: torch.zeros(values.shape[:2]).double() for kind, values in attention.items()}
        for i, (kind, column, _) in enumerate(self.targets):
            stacked = each.stacked(kind, column)
            weights = self._tensors.get(f"weights.{i}", torch.tensor([1.0, 0.0]).double())
            mean[kind][:, column] = torch.einsum("prd,p->rd", stacked, weights)
            if self.task == "regression":
                sources = self._error_inputs(kind, column, each)
                shape = (len(sources), 1)
                spread = self._tensors.get(f"spread.{i}", torch.ones(shape).double())
                std[kind][:, column] = predicted_std(sources, spread)[:, 0]
            else:
                std[kind][:, column] = (stacked[0] - stacked[1]).abs().amax(1) / 2
        return AtomPrediction(
            Values(mean, ptr), Values(std, ptr), each.means, each.radius, each.graphs
        )

    def interval(self, predicted: AtomPrediction, coverage: float) -> tuple[Values, Values]:
        """Return the lower and the upper ends of prediction intervals for numbers, [r, t] each.

        They are infinite for a target with too few validation molecules for the coverage.
        """
        lower, upper = {}, {}
        for kind in self.targets.kinds:
            mean, _std = predicted.mean.rows[kind][..., 0], predicted.std.rows[kind]
            lower[kind], upper[kind] = mean.clone(), mean.clone()
        for i, (kind, column, _) in enumerate(self.targets):
            half = self.scores[i].quantile(coverage) * predicted.std.rows[kind][:, column]
            lower[kind][:, column] -= half
            upper[kind][:, column] += half
        return Values(lower, predicted.mean.ptr), Values(upper, predicted.mean.ptr)

    @property
    def weights(self) -> dict[str, dict[str, float]]:
        """Weights of the components in the mean prediction of each target, as a dictionary by
        target name.
        """
        names = ("attention", "environments")
        return {
            name: dict(zip(names, self._tensors[f"weights.{i}"].tolist()))
            for i, name in enumerate(self.targets.names)
        }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the model."""
        tensors = dict(self._tensors)
        for member, network in enumerate(self.networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        return tensors, {
            "task": self.task, "settings": to_table(self.settings), "featuriser": FEATURISER,
            "classes": list(self.classes),
            "targets": {kind: list(self.targets.of(kind)) for kind in self.targets.kinds},
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], facts: dict[str, Any]) -> AtomPredictor:
        """Restore a model from the result of :meth:`state`.

        Raises:
            ValueError: a tensor or a fact is missing, or has another shape.
        """
        try:
            settings = from_table(MoleculeSettings, facts["settings"])
            targets = Targets(**{kind: tuple(names) for kind, names in facts["targets"].items()})
            return cls(tensors, cast(Task, facts["task"]), settings, targets, facts["classes"])
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"these tensors and values are not the state of a model: {error}"
            ) from error

    def _predict_networks(self, inputs: MoleculeInputs) -> dict[str, Tensor]:
        """Return the predictions of K networks, [K, r, t, d] float64, as a dictionary by kind."""
        pieces: dict[str, list[Tensor]] = {kind: [] for kind in self.targets.kinds}
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with torch.inference_mode(), limited_threads(elements, self.threads):
            for positions in torch.arange(len(inputs)).split(PREDICTION_BATCH):
                batch = batch_inputs(inputs[positions])
                raw = torch.stack([network(batch) for network in self.networks]).double()
                for kind, values in self._split(raw, batch).items():
                    pieces[kind].append(self._in_units(kind, values))
        return {kind: torch.cat(each, 1) for kind, each in pieces.items()}

    def _split(self, raw: Tensor, batch: MoleculeBatch) -> dict[str, Tensor]:
        """Split the outputs of K networks, [K, N, c], into tensors [K, r, t, c] by kind."""
        rows = {"atom": len(batch.x), "bond": len(batch.edge_attr) // 2}
        shapes = {kind: (rows[kind], len(self.targets.of(kind))) for kind in self.targets.kinds}
        parts = raw.split([r * t for r, t in shapes.values()], 1)
        return {
            kind: part.reshape(len(raw), *shape, self.width)
            for (kind, shape), part in zip(shapes.items(), parts)
        }

    def _in_units(self, kind: str, raw: Tensor) -> Tensor:
        """Convert outputs [K, r, t, c] to the targets' units, or to probabilities."""
        if self.task == "regression":
            mean, scale = self._tensors[f"mean.{kind}"], self._tensors[f"scale.{kind}"]
            return raw * scale[:, None] + mean[:, None]
        if self.task == "classification":
            return raw.sigmoid()
        pairs = zip(self.targets, self.classes)
        counts = torch.tensor([count for (of, _, _), count in pairs if of == kind])
        beyond = torch.arange(raw.shape[-1]) >= counts[:, None]
        return raw.masked_fill(beyond, NEVER).softmax(-1)

    def _error_inputs(self, kind: str, column: int, each: _Parts) -> Tensor:
        """Return the s inputs of the model of the squared error of a target, [s, r, 1]."""
        stacked, members = each.stacked(kind, column), each.members[kind]
        unit = self._tensors[f"scale.{kind}"][column].square()
        labels = each.labels[kind][:, column, None]
        sources = [
            unit.expand(stacked.shape[1], 1),
            (stacked[0] - stacked[1]).square(),
            unit / (1 + labels),
        ]
        if len(members) > 1:
            deviations = members[:, :, column] - members[:, :, column].mean(0)
            sources.append(deviations.square().sum(0) / (len(members) - 1))
        return torch.stack(sources)

    def _calibrate(self, val: LabelledAtoms) -> None:
        """Fit the weights of the components, the coefficients of the error variance, and the
        intervals.
        """
        each = self._predict_parts(val.inputs)
        stacked_model = self.settings.model == "stacked"
        for i, (kind, column, _) in enumerate(self.targets):
            y = val.y.rows[kind]
            labels = one_hot_labels(y, self.width)[:, column]
            stacked = each.stacked(kind, column)
            weights = torch.tensor([1.0, 0.0]).double()
            if stacked_model:
                weights = mixture_weights(stacked[0], stacked[1], labels)
            self._tensors[f"weights.{i}"] = weights
            if self.task == "regression":
                mean = torch.einsum("prd,p->rd", stacked, weights)
                sources = self._error_inputs(kind, column, each)
                self._tensors[f"spread.{i}"] = fit_spread(sources, labels - mean)
        self.validation = self._combine(each)
        if self.task != "regression":
            return
        for i, (kind, column, _) in enumerate(self.targets):
            mean = self.validation.mean.rows[kind][:, column, 0]
            error = (val.y.rows[kind][:, column] - mean).abs()
            scores = error / self.validation.std.rows[kind][:, column]
            self.scores[i] = GroupedScores.fit(scores, val.y.owners(kind))
            self._tensors |= add_prefix(f"scores.{i}.", self.scores[i].state())


EQUAL_ROWS = 20.0
"""Strength of the penalty on unequal weights, as a number of additional labels."""


def mixture_weights(first: Tensor, second: Tensor, y: Tensor) -> Tensor:
    r"""Fit the weights of two predictions to labels that were not used for training.

    .. math::
        \min_{0 \le w \le 1} \sum_i \bigl(y_i - (1 - w)\, a_i - w\, b_i\bigr)^2
        + \lambda s^2 \bigl(w - \tfrac{1}{2}\bigr)^2, \qquad
        s^2 = \frac{1}{n} \sum_i (a_i - b_i)^2

    :math:`\lambda` is the strength of the penalty as a number of labels. With few labels, the
    weights stay nearly equal.

    Args:
        first: [r, d] predictions a.
        second: [r, d] predictions b.
        y: [r, d] labels, NaN where one is missing.

    Returns:
        [2] float64, the weights 1 - w and w; equal ones without labels, or if the predictions are
        equal.

    Reference: Breiman, "Stacked regressions" (Machine Learning 1996).

    Example:
        >>> y = torch.linspace(-1, 1, 400)[:, None]
        >>> mixture_weights(y + 0.1, y, y).round(decimals=2)
        tensor([0.0200, 0.9800], dtype=torch.float64)
    """
    labelled = y.isfinite()
    a, b, label = (each[labelled].double() for each in (first, second, y))
    apart = (a - b).square()
    weight = 0.5
    if len(label) and apart.sum() > 0:
        penalty = EQUAL_ROWS * apart.mean()
        best = (((a - label) * (a - b)).sum() + 0.5 * penalty) / (apart.sum() + penalty)
        weight = float(best.clamp(0, 1))
    return torch.tensor([1 - weight, weight], dtype=torch.float64)
