"""Model of atoms or bonds, which combines attention networks with mean labels of environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from gattn.apps.fitting.settings import check_fraction
from gattn.apps.fitting.tasks import Task
from gattn.apps.molecules.components import NetworkPredictor, disagreement, network_variance
from gattn.apps.molecules.members import (
    PREDICTION_BATCH,
    MoleculeBatches,
    batch_elements,
    fit_members,
    predict_members,
)
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import AtomLayers, MoleculeBatch, feature_sizes
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.stacking import fit_spread, predicted_std
from gattn.apps.run.model_io import add_prefix, remove_prefix
from gattn.apps.runtime.threads import limited_threads
from gattn.data.molecules.arrays import MoleculeArrays, ranges
from gattn.data.molecules.environments import environments
from gattn.ops.registration import path_trace

RADII = 4
"""Number of radii. An environment contains the atoms within 0, 1, 2 or 3 bonds."""
STRENGTH = 1.0
"""The mean of an environment is shrunk towards the mean of the next smaller environment, as if
it had this number of additional labels.
"""


def environment_codes(arrays: MoleculeArrays, level: str) -> np.ndarray:
    """Return hash codes of the environments of atoms or bonds; equal environments have equal
    codes.

    Args:
        arrays: graphs of molecules, with n atoms or bonds.
        level: ``"atom"`` or ``"bond"``. The code of a bond combines those of its two atoms, in any
            order, with its features.

    Returns:
        [radii, n] int64.
    """
    edges = arrays.edge_ptr.diff()
    first = arrays.ptr[:-1].repeat_interleave(edges)
    ends = (arrays.edge_index + first)[:, ::2].t().numpy()
    atoms = _hashed(arrays.x)
    bonds = _hashed(arrays.edge_attr[::2])
    nowhere = np.zeros(len(atoms), np.bool_)
    of_atoms = [atoms]
    for _ in range(RADII - 1):
        of_atoms.append(environments(of_atoms[-1], of_atoms[-1], nowhere, bonds, ends))
    if level == "atom":
        return np.stack(of_atoms).view(np.int64)
    of_bonds = [codes[ends].sum(1, dtype=np.uint64) + np.uint64(3) * bonds for codes in of_atoms]
    return np.stack(of_bonds).view(np.int64).reshape(RADII, len(bonds))


def _hashed(features: Tensor) -> np.ndarray:
    """Return a hash code for each of r rows of features, [r, d] float32: [r] uint64. The factors of
    the hash are random numbers with a fixed seed.
    """
    words = features.contiguous().numpy().view(np.uint32).astype(np.uint64)
    random = np.random.default_rng(0).integers(1, 2**62, words.shape[1], dtype=np.uint64)
    return (words * (2 * random + np.uint64(1))).sum(1, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class EnvironmentMeans:
    r"""Mean labels of environments. Each mean is shrunk towards the mean of the next smaller
    environment.

    .. math:: m_r = \frac{\sum_i y_i + \lambda\, m_{r-1}}{n_r + \lambda}

    for the n_r labels of an environment of radius r; m before the smallest radius is the mean of
    all labels. The prediction is that of the largest environment that was labelled. An atom of an
    unknown element has the mean of all labels. This model needs no network; it is equivalent to a
    table with one value for each type of atom.

    Attributes:
        tensors: ``overall`` [o] float64, the mean of all labels; and for each radius r
            ``{r}.codes`` [u] int64, the codes of the environments, ascending, ``{r}.means`` [u, o]
            float64, and ``{r}.counts`` [u, o] float64, the number of labels.
    """

    tensors: dict[str, Tensor]

    @classmethod
    def fit(cls, codes: np.ndarray, y: Tensor) -> EnvironmentMeans:
        """Compute the mean label of each environment.

        Args:
            codes: [radii, r] from :func:`environment_codes`.
            y: [r, o] float64, NaN where a label is missing.
        """
        factor = (~y.isnan()).double()
        values = y.nan_to_num(0.0)
        overall = values.sum(0) / factor.sum(0).clamp(min=1e-12)
        coarse = overall.expand(len(y), *overall.shape)
        tensors = {"overall": overall}
        for r, row in enumerate(codes):
            distinct, place = np.unique(row, return_inverse=True)
            index = torch.from_numpy(place.reshape(-1))
            shape = (len(distinct), *overall.shape)
            total = torch.zeros(shape, dtype=torch.float64).index_add_(0, index, values)
            count = torch.zeros(shape, dtype=torch.float64).index_add_(0, index, factor)
            before = torch.zeros(shape, dtype=torch.float64).index_copy_(0, index, coarse)
            mean = (total + STRENGTH * before) / (count + STRENGTH)
            columns = {"codes": torch.from_numpy(distinct), "means": mean, "counts": count}
            tensors |= add_prefix(f"{r}.", columns)
            coarse = mean[index]
        return cls(tensors)

    def predict(self, codes: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean labels of environments, given their codes.

        Args:
            codes: [radii, r].

        Returns:
            The means [r, o]; the numbers of their labels [r, o]; and the radius of the largest
            known environment of each row, [r] int64, -1 if its atom is unknown.
        """
        count, overall = codes.shape[1], self.tensors["overall"]
        mean = overall.expand(count, *overall.shape).clone()
        labels = torch.zeros(count, len(overall), dtype=torch.float64)
        radius = torch.full((count,), -1)
        for r in range(RADII):
            distinct, row = self.tensors[f"{r}.codes"], torch.from_numpy(codes[r])
            if not len(distinct):
                continue
            place = torch.searchsorted(distinct, row).clamp(max=len(distinct) - 1)
            is_known = distinct[place] == row
            # If a larger environment occurred in training, its smaller environments occurred, too.
            mean[is_known] = self.tensors[f"{r}.means"][place[is_known]]
            labels[is_known] = self.tensors[f"{r}.counts"][place[is_known]]
            radius[is_known] = r
        return mean, labels, radius


class GroupedScores(NamedTuple):
    r"""Conformal scores of atoms, where every molecule has the same total weight.

    The atoms of a molecule depend on one another, so that they are not exchangeable with the atoms
    of a new molecule. Whole molecules are exchangeable. The scores of K calibration molecules with
    n_k atoms are

    .. math:: r_{ki} = |y_{ki} - m_{ki}| / s_{ki}

    and the interval of an atom is m ± q s, where q is the quantile of the scores at the requested
    coverage, with the probabilities

    .. math:: \sum_k \sum_i \frac{1}{(K + 1)\, n_k}\, \delta_{r_{ki}}
        + \frac{1}{K + 1}\, \delta_\infty

    **Guarantee.** If the calibration molecules and a new molecule are exchangeable and the model
    was not trained on either, the interval of a random atom of the new molecule contains its value
    with a probability of at least the coverage.

    Attributes:
        scores: [r] float64, ascending.
        mass: [r] float64, the sum of the probabilities up to each score.

    Reference:
        Lee, Barber and Willett, "Distribution-free inference with hierarchical data" (2023), HCP.

    Example:
        >>> scores = GroupedScores.fit(torch.arange(19.0), torch.arange(19))
        >>> scores.quantile(0.9), scores.quantile(0.99)
        (17.0, inf)
        >>> scores.molecules
        19
    """

    scores: Tensor
    mass: Tensor

    @classmethod
    def fit(cls, scores: Tensor, groups: Tensor) -> GroupedScores:
        """Collect the conformal scores of a calibration part.

        Args:
            scores: [r], NaN where nothing was measured.
            groups: [r] int64, the molecule of each score.
        """
        measured = ~scores.isnan()
        values, owners = scores[measured].double(), groups[measured]
        _, place, sizes = owners.unique(return_inverse=True, return_counts=True)
        share = 1 / ((len(sizes) + 1) * sizes.double())[place]
        order = values.argsort(stable=True)
        return cls(values[order], share[order].cumsum(0))

    @property
    def molecules(self) -> int:
        """Number of calibration molecules with a measured value."""
        # With K molecules, the probabilities of all scores sum to K / (K + 1), from which K is
        # computed.
        total = float(self.mass[-1]) if len(self.mass) else 0.0
        return round(total / (1 - total))

    def quantile(self, coverage: float) -> float:
        """Return the score q for a coverage in (0, 1). It is infinite if there are too few
        molecules. Raises ValueError for another coverage.
        """
        check_fraction("coverage", coverage)
        # A sum of probabilities has a rounding error of about 1e-16 for each score.
        place = int(torch.searchsorted(self.mass, coverage - 1e-9))
        return float(self.scores[place]) if place < len(self.scores) else float("inf")


class AtomNetwork(AtomLayers):
    r"""Graph attention network that predicts values of atoms or of bonds.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y_i = \mathrm{MLP}(x_i) \text{ or }
        y_{ij} = \mathrm{MLP}(x_i + x_j \,\Vert\, |x_i - x_j| \,\Vert\, e_{ij})

    for the last features x of the atoms, after a LayerNorm, and the features e of the bonds. The
    result of a bond does not depend on its direction.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        level: ``"atom"`` or ``"bond"``.
        outputs: number o of outputs.

    Attributes:
        threads: not used; the layers use torch's threads.

    Shapes:
        - **input:** a batch of molecules with n atoms or bonds from
          :func:`gattn.apps.molecules.network.batch_inputs`
        - **output:** [n, o]

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = AtomNetwork(MoleculeSettings(width=16), "bond", 2)
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([2, 2])
    """

    threads: int = 1

    def __init__(self, settings: MoleculeSettings, level: str, outputs: int) -> None:
        super().__init__(settings)
        self.level = level
        width, bond_features = settings.width, feature_sizes(settings)[1]
        inputs = width if level == "atom" else 2 * width + bond_features
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predict all targets of a batch; see Shapes."""
        if path_trace.listeners:
            reason = "not one kernel: the kernel returns molecules, not atoms and bonds"
            path_trace.report("", "", "layer by layer", reason)
        rows = self.norm(self.atom_states(batch))
        if self.level == "bond":
            # Bond k has the edges 2 k and 2 k + 1 of the graph.
            one, other = rows[batch.edge_index[:, ::2]].unbind(0)
            rows = torch.cat([one + other, (one - other).abs(), batch.edge_attr[::2]], 1)
        return self.head(self.dropout(rows))


class AtomBatches(MoleculeBatches):
    """Data set of molecules and the labels of their atoms or bonds for the training loop.

    Args:
        part: molecules of atoms or bonds, whose ``ptr`` is set, with the labels [r, o] on the scale
            of the outputs.
        weights: [o] weights of the targets.
    """

    recorded_outputs = 0

    def __init__(self, part: LabelledMolecules, weights: Tensor) -> None:
        super().__init__(part.inputs, part.y, part.weights)
        assert part.ptr is not None
        self._ptr, self._level, self._of_targets = part.ptr, part.level, weights

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, Tensor]:
        """Return a batch, and the labels and the weights of its N atoms or bonds, [N, o] each."""
        y = self.y[ranges(self._ptr, positions)[0]]
        return self._graphs(positions), y, self._of_targets.expand_as(y)

    def make_network(self, settings: MoleculeSettings, seed: int) -> AtomNetwork:
        """Return a new network for the atoms or bonds. Its weights are drawn from the seed, and
        torch's global generator is not used.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AtomNetwork(settings, self._level, self.outputs)


@dataclass(frozen=True, eq=False)
class AtomPrediction:
    """Predictions for the n atoms or bonds of k molecules.

    Attributes:
        mean: [n, o] float64, in the target's unit; for two classes the probability of class 1, for
            several classes the probabilities of the classes of all targets.
        std: [n, o] float64, the standard deviation of the expected error; for classes that of the
            probability over the components.
        component_means: mean [n, o] of each component: ``"attention"``, ``"environments"``.
        radius: [n] int64, the radius of the largest environment that the training molecules
            contain; -1 for an unknown atom.
        graphs: graphs of the molecules.
    """

    mean: Tensor
    std: Tensor
    component_means: dict[str, Tensor]
    radius: Tensor
    graphs: MoleculeArrays


_Parts: TypeAlias = tuple[Tensor, Tensor, Tensor, MoleculeArrays]
"""Predictions of the components for k molecules: the means [2, n, o] float64, the inputs [s, n, o]
of the model of the squared error, the radius [n] int64, and the graphs of the molecules.
"""


class AtomPredictor(NetworkPredictor):
    """Trained model of atoms or bonds, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        environments: mean labels of environments.
        validation: predictions of the validation part; None after :meth:`from_state`.
    """

    names = ("attention", "environments")
    validation: AtomPrediction | None = None

    def _restore_others(self, tensors: dict[str, Tensor]) -> None:
        self.environments = EnvironmentMeans(remove_prefix("environments.", tensors))

    def _new_network(self, saved: dict[str, Tensor]) -> AtomNetwork:
        return AtomNetwork(self.settings, self.level, self.targets)

    def _others(self) -> dict[str, dict[str, Tensor]]:
        return {"environments.": self.environments.tensors}

    @property
    def scores(self) -> list[GroupedScores]:
        """The conformal scores of each target, which calibrate its intervals."""
        return [GroupedScores(*self._tensors[f"scores.{i}"]) for i in range(self.targets)]

    @classmethod
    def fit(
        cls,
        train: LabelledMolecules,
        val: LabelledMolecules,
        task: Task,
        settings: MoleculeSettings,
        *,
        classes: Sequence[int] = (),
        folder: Path | None = None,
        progress: bool = False,
        threads: int = 0,
    ) -> AtomPredictor:
        """Train the networks and the mean labels of environments; fit the weights of both on the
        validation part.

        Args:
            train: the training part, with the labels in the form of the outputs, [r, o].
            val: the validation part, which also calibrates the intervals.
            task: the task.
            settings: the settings.
            classes: number of classes of each target if the task is multiclass.
            folder: folder for checkpoints, or None.
            progress: whether to show the progress.
            threads: number of threads inside an operator; 0 to choose it by the size of a batch.

        Returns:
            The trained model.

        Raises:
            TrainingError: a loss is not finite.
        """
        mean, scale = task.scaling(train.y)
        codes = environment_codes(train.inputs.molecules.arrays, train.level)
        environments = EnvironmentMeans.fit(codes, train.y)
        parts = [replace(part, y=(part.y - mean) / scale) for part in (train, val)]
        counts = train.y.isfinite().sum(0).double()
        # Every target has the same weight, however many labels it has.
        weights = (counts.mean() / counts.clamp(min=1)).float()
        batches = [AtomBatches(part, weights) for part in parts]
        with limited_threads(batch_elements(settings.batch_size, settings), threads):
            networks, history = fit_members(
                batches[0], batches[1], task, settings, classes=classes, folder=folder,
                progress=progress, threads=threads,
            )  # fmt: skip
        tensors = {"mean": mean, "scale": scale}
        tensors |= add_prefix("environments.", environments.tensors)
        for member, network in enumerate(networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        predictor = cls(tensors, task, settings, classes, train.level)
        predictor.history, predictor.threads = history, threads
        predictor._calibrate(val)
        return predictor

    def predict(self, inputs: MoleculeInputs) -> AtomPrediction:
        """Predict the atoms or bonds of molecules; empty inputs give empty values."""
        return self._combine(*self._predict_parts(inputs))

    def _predict_parts(self, inputs: MoleculeInputs) -> _Parts:
        """Return the predictions of the components for k molecules; see :data:`_Parts`. The
        attribute ``threads`` of each network is set.
        """
        graphs, unit = inputs.molecules.arrays, self.scale.square()
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with limited_threads(elements, self.threads):
            raw = predict_members(self.networks, inputs, len(unit), threads=self.threads)
        members = self.in_units(raw)
        means, labels, radius = self.environments.predict(environment_codes(graphs, self.level))
        stacked = torch.stack([members.mean(0), means])
        squares = (stacked[0] - stacked[1]).square()
        sources = [unit.expand_as(squares), squares, unit / (1 + labels)]
        sources += network_variance(members)
        return stacked, torch.stack(sources), radius, graphs

    def _combine(
        self, means: Tensor, sources: Tensor, radius: Tensor, graphs: MoleculeArrays
    ) -> AtomPrediction:
        """Combine the predictions of the components (:data:`_Parts`) with the weights of each
        target, and for numbers the coefficients of the error, which :meth:`_calibrate` stores.
        """
        mean = torch.einsum("pro,po->ro", means, self._tensors["weights"])
        if not self.task.is_class:
            std = predicted_std(sources, self._tensors["spread"])
        else:
            std = disagreement(means, means[:1], self._tensors["weights"])
        return AtomPrediction(mean, std, dict(zip(self.names, means)), radius, graphs)

    def _calibrate(self, val: LabelledMolecules) -> None:
        """Fit the weights of the components and, for numbers, the coefficients of the error
        variance and the scores of the intervals to the validation part. Its predictions become the
        attribute ``validation``.
        """
        parts, targets = self._predict_parts(val.inputs), self.classes or (1,) * self.targets
        means, sources, *_ = parts
        weights = torch.tensor([[1.0], [0.0]]).double().expand(2, len(targets))
        if self.settings.model == "stacked":
            columns = [each.split(list(targets), -1) for each in (*means, val.y)]
            weights = torch.stack([mixture_weights(*some) for some in zip(*columns)], 1)
        self._tensors["weights"] = weights.repeat_interleave(torch.tensor(targets), 1)
        if not self.task.is_class:
            mean = torch.einsum("pro,po->ro", means, self._tensors["weights"])
            self._tensors["spread"] = fit_spread(sources, val.y - mean, torch.ones(len(val.y)))
        self.validation = predicted = self._combine(*parts)
        if not self.task.is_class:
            scores = (val.y - predicted.mean).abs() / predicted.std
            for i, each in enumerate(scores.T):
                self._tensors[f"scores.{i}"] = torch.stack(GroupedScores.fit(each, val.owners))


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
