"""Training of a model of molecules: its components, their weights, and the errors of predictions.

:func:`fit_model` prepares the labels, trains the networks, the Gaussian process and the forest, and
calibrates their combination (:mod:`gattn.apps.molecules.components`).
:class:`gattn.apps.molecules.predictor.MoleculePredictor` is the model that this training creates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules import members
from gattn.apps.molecules.components import Components, calibrate
from gattn.apps.molecules.descriptor_columns import column_tensors, with_standard_columns
from gattn.apps.molecules.forest import Forest, forest_obstacle
from gattn.apps.molecules.gaussian_process import (
    GaussianProcess,
    draw_labelled,
    known_labels,
)
from gattn.apps.molecules.inputs import in_pieces
from gattn.apps.molecules.nearest import NearestMolecules, pack_bits, residual_correlation
from gattn.apps.molecules.network import MoleculeNetwork
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.molecules.stacking import Evidence, left_out_of_kernel
from gattn.apps.molecules.target_transform import Prediction, TargetTransform
from gattn.apps.run.model_io import add_prefix
from gattn.apps.runtime.threads import Background, available_threads, limited_threads
from gattn.data.splits import number_groups

if TYPE_CHECKING:
    from gattn.apps.fitting.loop import History
    from gattn.apps.molecules.model_inputs import MoleculeInputs

PIECE = 1024
"""Number of molecules whose fingerprints are unpacked at once."""
KERNEL_PARTS = 6
"""Number of matrices of the size of the kernel matrix that one evaluation of the kernel reads.
It determines the number of threads.
"""
CORRELATION, RESIDUALS = "correlation", "residuals"
"""Keys of the saved arguments of :class:`MeasuredTargets`."""
LEAST = "least_similarity"
"""Key of the saved lowest similarity of a validation molecule to the training molecules."""
MOLECULES = "molecules"
"""Key of the saved number of molecules in a row. It is absent if a row has one molecule."""
OFFSET = "offset"
"""Key of the saved numbers that are added to the probabilities of classes."""
TOTALS = "totals"
"""Key of the saved number of Morgan environments of each molecule, in the order of the bits."""


@dataclass(frozen=True, eq=False)
class FitPart:
    """Molecules of the training part or of the validation part, with their labels.

    Attributes:
        inputs: k molecules.
        y: [k, t] float64; NaN where a target was not measured; 0 and 1 for classes. For several
            classes [k, O], a column for each class (:func:`gattn.apps.molecules.classes.one_hot`).
        bounds: [k, t, 2] float64, the lower and upper ends of the labels for a bounded loss, with
            NaN in y where the ends differ; None if every label is one value. The networks get no
            loss between the ends; the Gaussian process reads the expected value between them. The
            ends of validation labels are used to choose the epoch; the weights of the components
            and the coefficients of the error are fitted to measured values only.
        weights: [k] weights of the rows, above 0; None if all are equal. The weights of both parts
            are divided by the mean of the training part. Those of training rows multiply the loss
            of the networks, and divide the noise variance of the Gaussian process. Those of
            validation rows multiply the squared errors to which the weights of the components and
            the coefficients of the error are fitted.
        groups: the group of each row; None if each row is a group. The rows of one group are left
            out together: a molecule is predicted by models that were trained without its group.
            Rows of the same molecule must belong to one group. If the split divides by scaffold,
            the validation molecules of one scaffold must also belong to one group.
    """

    inputs: MoleculeInputs
    y: Tensor
    bounds: Tensor | None = None
    weights: Tensor | None = None
    groups: Sequence[str] | None = None

    def group_numbers(self) -> Tensor:
        """Return the number of the group of each row, [k] int64."""
        return number_groups(self.groups, len(self.inputs))


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Result of :func:`fit_model`.

    Attributes:
        components: the networks, the Gaussian process and the forest.
        tensors: the other tensors of the model by name: the scale of the targets and descriptors,
            the fingerprints of the molecules, and the weights of the components.
        history: the training history of each network.
        validation: cross-fitted predictions of the validation part, on the scale on which the model
            is trained.
        without_forest: the reason why a stacked model has no forest; empty if it has one.
    """

    components: Components
    tensors: dict[str, Tensor]
    history: list[History]
    validation: Prediction
    without_forest: str


def fit_model(
    train: FitPart, val: FitPart, task: Task, settings: MoleculeSettings, *,
    classes: Sequence[int] = (), folder: Path | None = None, progress: bool = False,
    threads: int = 0,
) -> FittedModel:  # fmt: skip
    """Train the components of a model, and calibrate their combination.

    The arguments are those of :meth:`gattn.apps.molecules.predictor.MoleculePredictor.fit`.

    Raises:
        ValueError: shapes that do not match, or a target without a training label.
    """
    _check(train, "y of the training part")
    _check(val, "y of the validation part")
    train, val = replace(train, y=train.y.double()), replace(val, y=val.y.double())
    targets = train.y.shape[1]
    if not train.y.isfinite().any(0).all():
        raise ValueError("y must have a label for every target; a target has no label")
    if task == "regression":
        transform = TargetTransform(settings.target_transform)
        train, val = (
            replace(
                part, y=transform(part.y),
                bounds=None if part.bounds is None else transform(part.bounds),
            )
            for part in (train, val)
        )  # fmt: skip
    mean, scale = _scaling(train.y, task)
    tensors: dict[str, Tensor] = {"mean": mean, "scale": scale, "bits": _bits(train.inputs)}
    tensors[TOTALS] = _totals(train.inputs)
    nearest = NearestMolecules(tensors["bits"])
    if (molecules := members.molecules_in_row(train.inputs)) > 1:
        tensors[MOLECULES] = torch.tensor(molecules)
    extra = train.inputs.extra_descriptors.shape[1]
    if extra:
        tensors |= column_tensors(train.inputs.extra_descriptors)
        train, val = (
            replace(part, inputs=with_standard_columns(part.inputs, tensors))
            for part in (train, val)
        )
    if train.weights is not None and val.weights is not None:
        unit = train.weights.double().mean()
        train, val = (
            replace(part, weights=None if part.weights is None else part.weights.double() / unit)
            for part in (train, val)
        )
    is_bounded = task == "regression" and settings.bounded
    batches, val_batches = (
        members.MoleculeBatches(
            part.inputs, (part.y - mean) / scale,
            None if part.bounds is None else (part.bounds - mean[:, None]) / scale[:, None],
            bounded=is_bounded, weights=part.weights,
        )
        for part in (train, val)
    )  # fmt: skip
    rows, seed = settings.kernel_rows, settings.seed
    kernel_size = KERNEL_PARTS * min(len(train.inputs), rows) ** 2
    without = forest_obstacle(settings.trees, targets, train.bounds, val.bounds)

    groups = _joint_groups(train, val)

    def fit_others(check: Callable[[], None] = lambda: None, progress: bool = False) -> _Others:
        """Train the components that are not networks."""
        return _fit_others(
            train, val, groups, settings, forest=not without, check=check, progress=progress
        )

    history: list[History] = []
    networks: list[MoleculeNetwork] = []
    others: _Others | None = None
    if settings.model != "gp":
        with ExitStack() as stack:
            elements = members.batch_elements(settings.batch_size, settings)
            used = stack.enter_context(limited_threads(elements, threads))
            background: Background[_Others] | None = None
            if settings.model == "stacked" and used < available_threads():
                background = stack.enter_context(Background(fit_others))
            networks, history = members.fit_members(
                batches, val_batches, task, settings, classes=classes, folder=folder,
                progress=progress, threads=threads,
            )  # fmt: skip
            others = background and background.result()
    if settings.model in ("stacked", "gp") and others is None:
        with limited_threads(kernel_size, threads):
            others = fit_others(progress=progress)
    state: dict[str, Tensor] = {}
    for member, network in enumerate(networks):
        state |= add_prefix(f"networks.{member}.", network.state_dict())
    group = val.group_numbers()
    folds = assign_folds(group, seed)
    kernel_index = torch.arange(0)
    if others is not None:
        kernel = others.kernel
        left = (rows - kernel.labelled.sum(0)).clamp(min=0)
        kernel_index, labels = draw_labelled(known_labels(val.y, val.bounds), left, seed)
        bounds, weights = (
            None if each is None else each[kernel_index] for each in (val.bounds, val.weights)
        )
        if bounds is not None:
            bounds = bounds.where(labels[..., None], torch.nan)
        y = val.y[kernel_index].where(labels, torch.nan)
        kernel = kernel.with_more(val.inputs[kernel_index], y, bounds, weights)
        state |= add_prefix("gp.", kernel.state())
        if others.forest is not None:
            state |= add_prefix("forest.", others.forest.state())
    components = Components(
        tensors | state, task, settings, targets, classes, extra=extra, molecules=molecules
    )
    with limited_threads(kernel_size, threads):
        raw = members.cross_fit_members(
            networks, history, val_batches, folds, task, settings, classes,
            threads=threads,
        )  # fmt: skip
        pieces = in_pieces(val.inputs, PIECE)
        similarities = torch.cat([nearest.similarity(some.counts) for some in pieces])
        calibration = calibrate(
            components, val.inputs, val.y, raw,
            similarities=similarities,
            kernel_index=kernel_index, group=group, folds=folds,
            by_part=(train.weights, val.weights),
            evidence=None if others is None else others.evidence,
            forest_val=None if others is None else others.forest_val,
        )  # fmt: skip
        if others is not None and task == "regression" and train.y.isnan().any():
            assert components.kernel is not None
            some = torch.cat([groups[0][others.kernel.rows], groups[1][kernel_index]])
            residuals = components.kernel.left_out_errors(some)
            correlation = torch.from_numpy(residual_correlation(residuals.numpy()))
            tensors |= {RESIDUALS: residuals, CORRELATION: correlation}
    tensors |= {
        "weights": calibration.weights, "spread": calibration.spread,
        **({LEAST: similarities.min()} if task == "regression" else {OFFSET: calibration.offset}),
        "bits": torch.cat([tensors["bits"], _bits(val.inputs)], 1),
        TOTALS: torch.cat([tensors[TOTALS], _totals(val.inputs)]),
    }  # fmt: skip
    without = without if settings.model == "stacked" else ""
    return FittedModel(components, tensors, history, calibration.validation, without)


@dataclass(frozen=True, eq=False)
class _Others:
    """Components of a model that are not networks: the Gaussian process and the forest.

    Attributes:
        kernel: the Gaussian process of the training part.
        evidence: predictions of these components for fitting the weights; None for a model of one
            component.
        forest: the forest of both parts.
        forest_val: [m, t] predictions of the validation molecules, each by the trees that were not
            trained on its group.
    """

    kernel: GaussianProcess
    evidence: Evidence | None = None
    forest: Forest | None = None
    forest_val: Tensor | None = None


def _fit_others(
    train: FitPart, val: FitPart, groups: tuple[Tensor, Tensor], settings: MoleculeSettings, *,
    forest: bool, check: Callable[[], None], progress: bool,
) -> _Others:  # fmt: skip
    """Train the Gaussian process, and the forest if ``forest`` is True. ``groups`` are the joint
    groups of both parts. ``check`` is called repeatedly, and raises an error to stop the training.
    """
    rows, seed = settings.kernel_rows, settings.seed
    kernel = GaussianProcess.fit(
        train.inputs, train.y, rows=rows, seed=seed, bounds=train.bounds, weights=train.weights,
        progress=progress, check=check,
    )  # fmt: skip
    if settings.model != "stacked":
        return _Others(kernel)
    inner, outer = left_out_of_kernel(kernel, seed, groups[0], val.inputs)
    first, rest = slice(0, len(train.inputs)), slice(len(train.inputs), None)
    if not forest:
        return _Others(kernel, Evidence(inner, outer, None, None, train.y, *groups))
    weights = None
    if train.weights is not None and val.weights is not None:
        weights = torch.cat([train.weights, val.weights])
    trees, (few, all_trees) = Forest.fit(
        train.inputs, val.inputs, torch.cat([train.y, val.y]), trees=settings.trees, seed=seed,
        groups=torch.cat(groups), weights=weights, check=check,
    )  # fmt: skip
    # No tree was trained on a missing label, so all trees may be used for its molecule.
    unlabelled = trees.predict(val.inputs)
    few_val, all_val = (each[rest].filled(unlabelled) for each in (few, all_trees))
    evidence = Evidence(inner, outer, few[first], few_val, train.y, *groups)
    return _Others(kernel, evidence, trees, all_val.mean)


def _joint_groups(train: FitPart, val: FitPart) -> tuple[Tensor, Tensor]:
    """Return the numbers of the groups of both parts, which are equal for groups of one name."""
    if train.groups is None or val.groups is None:
        first = train.group_numbers()
        return first, val.group_numbers() + first.amax() + 1
    count = len(train.inputs)
    every = number_groups([*train.groups, *val.groups], count + len(val.inputs))
    return every[:count], every[count:]


def _check(part: FitPart, name: str) -> None:
    y, count = part.y, len(part.inputs)
    if y.dim() != 2 or len(y) != count or not len(y):
        raise ValueError(f"{name} must be ({count}, t), one or more; got {(*y.shape,)}")


def _bits(inputs: MoleculeInputs) -> Tensor:
    """Return the packed Morgan bits of molecules; see :func:`pack_bits`."""
    return pack_bits(some.counts for some in in_pieces(inputs, PIECE))


def _totals(inputs: MoleculeInputs) -> Tensor:
    """Return the number of Morgan environments of k molecules, padded like their bits."""
    totals = torch.cat([some.counts.sum(1) for some in in_pieces(inputs, PIECE)])
    return torch.nn.functional.pad(totals, (0, -len(totals) % 8)).int()


def _scaling(y: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation by which each target is scaled; 0 and 1 for
    classes.
    """
    if task != "regression":
        return torch.zeros(y.shape[1]).double(), torch.ones(y.shape[1]).double()
    return moments(y)


FOLDS = 10
"""Number of folds. With ten folds, each choice uses nine tenths of the validation part, so it
differs little from a choice on the whole part.
"""


def assign_folds(groups: Tensor, seed: int) -> Tensor:
    """Assign each row to a random fold; all rows of a group are in the same fold.

    Args:
        groups: [n] int64, the group of each row, numbered from 0.
        seed: seed of the draw.

    Returns:
        [n] int64 in 0..FOLDS - 1; folds differ by at most one group in size.

    Example:
        >>> assign_folds(torch.tensor([0, 1, 0]), seed=0).tolist()
        [0, 1, 0]
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    generator = torch.Generator().manual_seed(seed)
    return (torch.randperm(count, generator=generator) % FOLDS)[groups]
