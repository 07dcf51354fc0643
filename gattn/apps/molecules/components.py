"""Trained components of a model of molecules: neural networks, a Gaussian process and a forest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.tasks import TASKS, Task
from gattn.apps.molecules import stacking
from gattn.apps.molecules.descriptor_columns import SCALE
from gattn.apps.molecules.forest import Forest
from gattn.apps.molecules.gaussian_process import GaussianProcess
from gattn.apps.molecules.members import make_network, predict_members
from gattn.apps.molecules.network import MoleculeColumns, MoleculeNetwork
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.run.model_io import add_prefix, remove_prefix
from gattn.data.molecules.features import FEATURISER

if TYPE_CHECKING:
    from gattn.apps.fitting.loop import History
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.apps.molecules.rows import FitPart

PREFIXES = ("networks.", "gp.", "forest.", "environments.")
"""Beginnings of the names of the tensors of the components."""
LEVEL_ROWS = 100.0
"""Strength of the prior that errors with and without the network have the same level, as a number
of validation molecules. They select the epoch of the network, so its errors are too small there.
"""
Self = TypeVar("Self", bound="NetworkPredictor")


class NetworkPredictor(ABC):
    """Base class of the trained models of molecules, atoms and bonds, which combine an ensemble of
    networks with other components.

    Args:
        tensors: tensors by name: ``mean`` and ``scale`` [t] of the targets, those of the
            components, and those of the subclass.
        task: the type of the labels.
        settings: the settings of the model and its training.
        classes: for several classes the number of classes of each target; () for other tasks.
        level: ``"atom"``, ``"bond"``, or "" for molecules.

    Attributes:
        networks: the ensemble, empty if the model is the Gaussian process alone.
        names: names of the components, in the order of their weights.
        targets: number of the columns of the labels.
        mean: [t] float64, the mean by which each target is scaled; 0 for classes.
        scale: [t] float64, the standard deviation by which each target is scaled; 1 for classes.
        history: the training history of each network; empty after :meth:`from_state`.
        threads: number of threads inside an operator of a prediction; 0 to choose it by the size.
        without_forest: the reason why a stacked model has no forest; empty if it has one, after
            :meth:`from_state`, and for atoms and bonds.
    """

    threads = 0
    without_forest = ""
    names: Sequence[str]

    def __init__(
        self, tensors: dict[str, Tensor], task: Task, settings: MoleculeSettings,
        classes: Sequence[int] = (), level: str = "",
    ) -> None:  # fmt: skip
        self.task, self.settings, self.level = task, settings, level
        self.classes = tuple(classes)
        self.mean, self.scale = tensors["mean"], tensors["scale"]
        self.targets = len(self.mean)
        self.history: list[History] = []
        rest = {name: each for name, each in tensors.items() if not name.startswith(PREFIXES)}
        self._tensors: dict[str, Tensor] = rest
        self.networks: list[Any] = []
        for member in range(settings.ensemble if settings.model != "gp" else 0):
            saved = remove_prefix(f"networks.{member}.", tensors)
            network = self._new_network(saved)
            network.load_state_dict(saved)
            self.networks.append(network.eval())
        self._restore_others(tensors)

    @abstractmethod
    def _restore_others(self, tensors: dict[str, Tensor]) -> None:
        """Restore the components that are not networks, and what is computed from the tensors."""

    @abstractmethod
    def _new_network(self, saved: dict[str, Tensor]) -> Any:
        """Create a network with the sizes of the saved one."""

    @abstractmethod
    def _others(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of the components that are not networks, by prefix."""

    def in_units(self, raw: Tensor) -> Tensor:
        """Convert the outputs of networks, [..., t], to the units of the transformed targets, or to
        probabilities.
        """
        return self.task.link(raw * self.scale + self.mean, self.classes)

    @property
    def weights(self) -> dict[str, float]:
        """Mean weight of each component over the targets."""
        weights = self._tensors["weights"].view(len(self.names), -1).mean(1)
        return dict(zip(self.names, weights.tolist()))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the JSON values from which :meth:`from_state` restores the
        model.
        """
        tensors = dict(self._tensors)
        for member, network in enumerate(self.networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        for name, others in self._others().items():
            tensors |= add_prefix(name, others)
        return tensors, {
            "task": self.task.name, "settings": to_table(self.settings), "featuriser": FEATURISER,
            "classes": list(self.classes), "level": self.level,
        }  # fmt: skip

    @classmethod
    def from_state(cls: type[Self], tensors: dict[str, Tensor], facts: dict[str, Any]) -> Self:
        """Restore a model from the result of :meth:`state`.

        Returns:
            A model with the same predictions; its history is empty.

        Raises:
            KeyError: a tensor or a value is missing.
            RuntimeError: a tensor has another shape.
            SettingsError: a setting is unknown or out of range.
        """
        settings = from_table(MoleculeSettings, facts["settings"])
        return cls(tensors, TASKS[facts["task"]], settings, facts["classes"], facts["level"])


class Outputs(NamedTuple):
    """Predictions of k molecules in the units of the transformed targets.

    Attributes:
        means: [P, k, t] means of the components.
        members: [K, k, t] means of the networks.
        variance: [k, t] variances of the Gaussian process; zeros if the model has none.
    """

    means: Tensor
    members: Tensor
    variance: Tensor


class Fitted(NamedTuple):
    """Weights of the components and the model of the error, fitted to labels.

    Attributes:
        weights: [P, t] float64. For each target they sum to one, and for classes to the factor of
            :func:`gattn.apps.molecules.stacking.fit_shrinkage`.
        spread: [s, t] float64, the coefficients of the model of the squared error; empty for
            classes.
        offset: [t] float64, the number that is added to the probability of each class; zero for
            regression.
    """

    weights: Tensor
    spread: Tensor
    offset: Tensor


class Components(NetworkPredictor):
    """Components of a model of molecules: networks, a Gaussian process and a forest.

    Each component predicts the mean of each target. :mod:`gattn.apps.molecules.stacking` combines
    the means by weights.

    Attributes:
        kernel: the Gaussian process; None if the model has none.
        forest: the forest of trees; None if the model has none.
    """

    def _restore_others(self, tensors: dict[str, Tensor]) -> None:
        """Set the Gaussian process and the forest from their tensors, None without tensors, and the
        names of the components.
        """
        kernel = remove_prefix("gp.", tensors)
        # In classification, predict does not need the variance of the Gaussian process.
        variance = not self.task.is_class
        self.kernel = GaussianProcess(kernel, variance=variance) if kernel else None
        trees = remove_prefix("forest.", tensors)
        self.forest = Forest(trees) if trees else None
        self.names = [self.settings.model]
        if self.settings.model == "stacked":
            self.names = ["attention", "gp", *(["forest"] if self.forest is not None else [])]

    @property
    def extra(self) -> int:
        """Number of descriptor columns, with those of related targets."""
        return len(self._tensors.get(SCALE[0], ()))

    @property
    def molecules(self) -> int:
        """Number of molecules in a row."""
        return int(self._tensors.get("molecules", 1))

    def _new_network(self, saved: dict[str, Tensor]) -> MoleculeNetwork:
        """Return a new network with the sizes of the model and the columns in its saved tensors;
        the other tensors are not read.
        """
        read = remove_prefix("columns.", saved)
        # The network of a stacked model reads no columns.
        columns = MoleculeColumns(**read) if read else None
        sizes = {"extra": self.extra, "molecules": self.molecules}
        return make_network(self.settings, self.targets, columns=columns, **sizes)

    def _others(self) -> dict[str, dict[str, Tensor]]:
        parts = {"gp.": self.kernel, "forest.": self.forest}
        return {name: part.state() for name, part in parts.items() if part is not None}

    def clipped(self, mean: Tensor) -> Tensor:
        """Convert means [k, O] of the Gaussian process or the forest to predictions, which are
        probabilities if the labels are classes.
        """
        return self.task.clip(mean, self.classes)

    def predict_components(self, inputs: MoleculeInputs) -> Outputs:
        """Predict k molecules, with standardised descriptor columns, by each component, in the
        units of the transformed targets.

        Raises:
            ValueError: the kernel matrix of the Gaussian process cannot be factorised.
        """
        raw = predict_members(self.networks, inputs, self.targets, threads=self.threads)
        mean = variance = torch.zeros(len(inputs), self.targets, dtype=torch.float64)
        if self.kernel is not None:
            mean, variance = self.kernel.predict(inputs)
        forest = mean if self.forest is None else self.forest.predict(inputs)
        return self._outputs(self.in_units(raw), mean, variance, forest)

    def _outputs(self, members: Tensor, mean: Tensor, variance: Tensor, forest: Tensor) -> Outputs:
        """Return the outputs of the components for k molecules, given the means [K, k, t] of each
        network, the means and variances [k, t] of the Gaussian process, and the means [k, t] of the
        forest. Those of components that the model does not have are not read.
        """
        means = [members.mean(0)] if self.networks else []
        if self.kernel is not None:
            means.append(self.clipped(mean))
        if self.forest is not None:
            means.append(self.clipped(forest))
        return Outputs(torch.stack(means), members, variance)

    def _error_inputs(self, outputs: Outputs) -> Tensor:
        """Return the inputs of the model of the squared error, [s, k, t], in squares of the
        target's unit.

        The inputs are the variance of the target, the variance of the Gaussian process, the squared
        differences between the components, and the variance over the networks. Inputs that the
        model does not have are left out.
        """
        means, members, variance = outputs
        sources = [self.scale.square().expand_as(variance)]
        if self.kernel is not None:
            sources.append(variance)
        sources += [(first - second).square() for first, second in pairwise(means)]
        return torch.stack([*sources, *network_variance(members)])

    def combined(self, outputs: Outputs, fitted: Fitted) -> tuple[Tensor, Tensor]:
        """Return the mean and the standard deviation of the error, [k, t] float64 each. For
        classes, the standard deviation is that of :func:`disagreement`.
        """
        mean = stacking.combine(outputs.means, fitted.weights) + fitted.offset
        if self.task.is_class:
            return mean, disagreement(outputs.means, outputs.members, fitted.weights)
        return mean, stacking.predicted_std(self._error_inputs(outputs), fitted.spread)

    def calibrate(
        self, val: FitPart, members: Tensor, *, similarities: Tensor, kernel_index: Tensor,
        folds: Tensor, train_weights: Tensor, evidence: stacking.Evidence | None,
    ) -> tuple[Fitted, Prediction, Tensor]:  # fmt: skip
        """Fit the weights of the components, and the coefficients of the error variance.

        The prediction of a validation molecule uses weights and coefficients that are fitted to the
        molecules of the other folds. See
        :meth:`gattn.apps.molecules.predictor.MoleculePredictor.fit`.

        Args:
            val: m molecules of the validation part.
            members: [K, m, t], cross-fitted predictions of the networks.
            similarities: [m] similarity of each molecule to the most similar training molecule.
            kernel_index: indices of the validation molecules on which the Gaussian process is
                trained.
            folds: [m], the fold of each row.
            train_weights: weights of the rows of the training part.
            evidence: predictions by components that were not trained on a molecule; None for a
                model of one component.

        Returns:
            - the weights and coefficients
            - cross-fitted predictions of the validation part, on the scale on which the model is
              trained
            - for regression the labels, means and standard deviations [3, n, t] of training
              molecules by components that were not trained on them
        """
        y_val, is_class = val.y, self.task.is_class
        # The trees that were trained on the validation part must not be used to fit the
        # coefficients of the error, because they have read the labels of the fold that is
        # predicted.
        forest_few = forest_all = torch.zeros_like(y_val)
        if evidence is not None and evidence.forest_val is not None:
            forest_few, forest_all = evidence.forest_val.mean, evidence.forest_all
        left_out = torch.empty(0), torch.zeros_like(y_val)
        if self.kernel is not None:
            groups = val.group_numbers()
            left_out = _leave_out(self.kernel, val.inputs, kernel_index, groups)
        prior = 0.0 if evidence is None else stacking.network_prior(similarities, len(evidence.y))
        # The validation part alone has too few errors, so training molecules are added.
        y = kernel = variance = forest = y_val[:0]
        if evidence is not None and not is_class:
            y, kernel, variance = evidence.y, evidence.kernel, evidence.kernel_variance
            forest = kernel if evidence.forest is None else evidence.forest.mean
        # The Gaussian process replaces the networks, which were trained on all training molecules.
        of_train = self._outputs(kernel.expand(len(members), -1, -1), kernel, variance, forest)
        of_val = self._outputs(members, *left_out, forest_few)
        sources = self._error_inputs(of_val), self._error_inputs(of_train)

        def fit(rows: Tensor) -> Fitted:
            """Fit the weights of the components, and the coefficients of the error variance or the
            calibration of the classes, to the molecules at ``rows``.
            """
            weights = y_val.new_ones(1, y_val.shape[1]).double()
            if evidence is not None:
                weights = stacking.part_weights(
                    evidence, members.mean(0), y_val, rows, self.scale, prior,
                    (train_weights, val.weights), self.clipped, by_target=not self.classes,
                )  # fmt: skip
            mean = stacking.combine(of_val.means[:, rows], weights)
            if is_class:
                factor, offset = stacking.fit_shrinkage(
                    mean, y_val[rows], val.weights[rows], self.classes
                )
                return Fitted(factor * weights, torch.ones(0), offset)
            spread = stacking.fit_spread(
                torch.cat([sources[0][:, rows], sources[1]], 1),
                torch.cat([y_val[rows] - mean, y - stacking.combine(of_train.means, weights)]),
                torch.cat([val.weights[rows], train_weights[: len(y)]]),
            )
            return Fitted(weights, spread, torch.zeros(1))

        chosen = fit(torch.ones(len(y_val), dtype=torch.bool))
        outputs = self._outputs(members, *left_out, forest_all)
        mean, std = self.combined(outputs, chosen)
        for fold in range(int(folds.max()) + 1):
            inside = folds == fold
            others = fit(~inside) if not inside.all() else chosen
            if not is_class:
                measured = y_val[~inside].isfinite().any(0)
                others = others._replace(spread=others.spread.where(measured, chosen.spread))
            of_fold = self.combined(outputs, others)
            mean[inside], std[inside] = (each[inside] for each in of_fold)
        named = dict(zip(self.names, outputs.means))
        validation = Prediction(mean, std, named, members, similarities)
        calibration = y_val.new_empty(3, 0, y_val.shape[1])
        if evidence is not None and not is_class:
            networks = left_out[0].expand(len(members), -1, -1)
            without = self.combined(self._outputs(networks, *left_out, forest_all), chosen)
            level, unit = (
                ((y_val - each) / error).square().nansum(0) + LEVEL_ROWS
                for each, error in (without, (mean, std))
            )
            means, errors = self.combined(of_train, chosen)
            labels = y.where(means.isfinite(), torch.nan)
            calibration = torch.stack([labels, means, errors * (level / unit).sqrt()])
        return chosen, validation, calibration


def network_variance(members: Tensor) -> list[Tensor]:
    """Return the variance of predictions [K, k, t] over the networks; nothing for one network."""
    if len(members) < 2:
        return []
    # The variance is computed without Tensor.var, which warns if the batch is empty.
    return [(members - members.mean(0)).square().sum(0) / (len(members) - 1)]


def disagreement(means: Tensor, members: Tensor, weights: Tensor) -> Tensor:
    r"""Return the standard deviation of a predicted probability over components and networks, with
    the weights of the prediction.

    .. math::
        \Bigl(\sum_p w_p\Bigr) \sqrt{\sum_p s_p (m_p - \bar m)^2}, \qquad
        s_p = \frac{w_p}{\sum_q w_q}, \quad \bar m = \sum_p s_p m_p

    The K networks share the weight of the first component, whose mean is their mean. A constant
    has the rest of the weight, so that the sum of the weights is a factor of the deviation.

    Args:
        means: [P, k, t] means of the components.
        members: [K, k, t] means of each network; K is 0 in a model without networks.
        weights: [P, t] weights of the components, or [P] if they are equal for all targets.

    Returns:
        [k, t] float64.

    Example:
        >>> means = torch.tensor([0.2, 0.8])[:, None, None]
        >>> round(disagreement(means, means[:1], torch.tensor([0.9, 0.1])).item(), 3)
        0.18
    """
    weights = weights.view(len(weights), 1, -1)
    if len(members):
        means = torch.cat([members, means[1:]])
        weights = torch.cat([weights[:1] / len(members)] * len(members) + [weights[1:]])
    total = weights.sum(0)
    apart = means - (weights * means).sum(0) / total
    return ((weights * apart.square()).sum(0) * total).sqrt()


def _leave_out(
    kernel: GaussianProcess, val: MoleculeInputs, kernel_index: Tensor, group: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the means and variances [m, t] of validation molecules by Gaussian processes that were
    not trained on the group of a molecule.

    ``kernel_index`` are the indices of the validation molecules that are the last training
    molecules of ``kernel``, and ``group`` [m] is the group of each validation molecule.
    """
    rows = len(kernel.counts) - len(kernel_index) + torch.arange(len(kernel_index))
    left_out = kernel.leave_out(group[kernel_index], rows)
    full = kernel.predict(val)
    for each, out in zip(full, left_out):
        # A row without a label was not used to fit the Gaussian process.
        each[kernel_index] = torch.where(out.isfinite(), out, each[kernel_index])
    return full
