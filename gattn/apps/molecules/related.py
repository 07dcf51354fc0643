"""Descriptor columns that are predictions of the targets of another table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gattn.apps.molecules.descriptor_columns import column_tensors, with_standard_columns
from gattn.apps.molecules.gaussian_process import GaussianProcess
from gattn.apps.molecules.target_transform import TargetTransform
from gattn.data.splits import number_groups

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.apps.molecules.rows import LabelledMolecules

COMPARED_ROWS = 1000
"""Maximum number of labels of a target by which models without and with columns are compared."""


def fit_related(also: LabelledMolecules, rows: int, seed: int) -> GaussianProcess:
    """Train a Gaussian process on at most ``rows`` labels of each target of another table."""
    return GaussianProcess.fit(
        also.inputs, also.y, also.weights, rows=rows, seed=seed, variance=False, bounds=also.bounds
    )


def with_related(inputs: MoleculeInputs, kernel: GaussianProcess) -> MoleculeInputs:
    """Return the inputs with the predictions of a Gaussian process as further columns."""
    columns = inputs.extra_descriptors
    mean, _ = kernel.predict(inputs.described(columns[:, :0]))
    return inputs.described(torch.cat([columns, mean], 1))


def with_left_out(
    parts: Sequence[LabelledMolecules], kernel: GaussianProcess, also: LabelledMolecules
) -> list[LabelledMolecules]:
    """Return parts with the columns of :func:`with_related`. A molecule that is also in the table
    of the Gaussian process is predicted without its labels there.
    """
    texts = also.canonical
    mean, _ = kernel.leave_out(number_groups(texts, len(texts))[kernel.rows])
    row_of = {texts[row]: i for i, row in enumerate(kernel.rows.tolist())}
    described = []
    for part in parts:
        inputs = with_related(part.inputs, kernel)
        columns = inputs.extra_descriptors
        for old, text in zip(columns[:, -mean.shape[1] :], part.canonical, strict=True):
            if text in row_of:
                new = mean[row_of[text]]
                old.copy_(torch.where(new.isfinite(), new, old))
        described.append(replace(part, inputs=inputs.described(columns)))
    return described


def compare(
    part: LabelledMolecules, described: LabelledMolecules, estimator: Any
) -> tuple[bool, str]:
    """Compare Gaussian processes that are trained on a part without and with further columns.

    Args:
        part: labelled molecules of the training part.
        described: the same molecules with the further columns.
        estimator: the estimator before training, with the task and the settings.

    Returns:
        Whether the columns lower the mean squared error for left-out molecules by more than two
        standard errors, and a sentence for the user.
    """
    without, with_them = (_squared_errors(each, estimator) for each in (part, described))
    change = (with_them - without) / without.mean()
    mean, error = float(change.mean()), float(change.std() / len(change) ** 0.5)
    is_lower = mean < -2 * error
    return is_lower, (
        "Predictions of the related targets change the mean squared error of a Gaussian process "
        f"for left-out training molecules by {mean:+.1%} (standard error {error:.1%}), so the "
        f"model {'reads' if is_lower else 'does not read'} them."
    )


def _squared_errors(part: LabelledMolecules, estimator: Any) -> Tensor:
    """Return the squared errors of a Gaussian process for sampled labels of left-out molecules, in
    units of the variance of their target; errors that are not finite are left out.
    """
    inputs, y = part.inputs, estimator.outputs_of(part.y).double()
    if inputs.extra_descriptors.shape[1]:
        inputs = with_standard_columns(inputs, column_tensors(inputs.extra_descriptors))
    if not estimator.task.is_class:
        y = TargetTransform(estimator.target_transform)(y)
    rows = min(estimator.kernel_rows, COMPARED_ROWS)
    kernel = GaussianProcess.fit(inputs, y, part.weights, rows=rows, seed=estimator.seed)
    groups = number_groups(part.groups or part.canonical, len(y))
    mean, _ = kernel.leave_out(groups[kernel.rows])
    squares = (y[kernel.rows] - mean).square() / (y - y.nanmean(0)).square().nanmean(0)
    return squares[squares.isfinite()]
