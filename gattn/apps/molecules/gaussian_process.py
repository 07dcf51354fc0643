"""Exact Gaussian process regression on fingerprints and descriptors, in float64."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gattn.apps.fitting.loop import progress_bar
from gattn.apps.fitting.scaling import moments
from gattn.apps.molecules.inputs import in_pieces
from gattn.apps.molecules.kernels.features import CountTable
from gattn.compat.torch import uncompiled_optimizers
from gattn.data.molecules.descriptors import DESCRIPTORS

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs

START = (-2.0, -1.0)
"""Initial values of two hyperparameters: the logarithms of the noise and of the sum of the weights
of the Tanimoto similarities.
"""
START_OF_GROUP = (0.0, -1.0, -2.0)
"""Initial values of the hyperparameters of a group of descriptors: the logarithms of the weight
of the Matern kernel, of 1 / length^2, and of the weight of the linear kernel.
"""
SURFACES = DESCRIPTORS.index("SlogP_VSA1")
"""Index of the first descriptor that is a sum of atom surface areas. The descriptors before it
describe the whole molecule.
"""
SPREAD = 3.0
"""Standard deviation of the normal prior on the logarithms of the hyperparameters."""
FARTHEST_LOG = 4 * SPREAD
"""Maximum distance of the logarithm of a hyperparameter from its initial value. Beyond it, a step
of the search can overflow the kernel matrix.
"""
STEPS = 25
"""Maximum number of iterations of the search for the hyperparameters."""
JITTER = 1e-4
"""Number that is added to the diagonal of the kernel; it is increased tenfold if the factorisation
fails.
"""
ATTEMPTS = 4
"""Number of factorisations that are tried, each with a larger number on the diagonal."""
FARTHEST = 6.0
"""Standardised descriptors are clipped to plus or minus this value, which limits the effect of
outliers.
"""


def standardise(raw: Tensor, center: Tensor, width: Tensor) -> Tensor:
    """Subtract the mean from each descriptor of [k, d], divide by the standard deviation, and clip
    to plus or minus ``FARTHEST``.
    """
    return ((raw - center) / width).clamp(-FARTHEST, FARTHEST)


def compare(
    counts: Sequence[Tensor], z: Tensor, other_counts: Sequence[Tensor], other_z: Tensor,
    blocks: int = 1,
) -> list[Tensor]:  # fmt: skip
    """Return the Tanimoto similarities [k, n] of each kind of counts, followed by the results of
    :func:`compare_descriptors`. Raises ValueError if the counts differ in columns or dtype. ``z``
    [k, d] and ``other_z`` [n, d] are standardised descriptors of rows of ``blocks`` molecules.
    """
    pairs = zip(counts, other_counts, strict=True)
    alike = [CountTable.of(others).tanimoto(some).double() for some, others in pairs]
    return [*alike, *compare_descriptors(z, other_z, blocks)]


def compare_descriptors(z: Tensor, other_z: Tensor, blocks: int) -> list[Tensor]:
    """Return two matrices [k, n] for each group of descriptors, one group after another: the
    squared distances and the dot products, both divided by the number of descriptors of the group.
    They compare the rows of ``z`` [k, d] and ``other_z`` [n, d], which are divided into groups as
    in :func:`descriptor_groups`.
    """
    parts = []
    for some, others in zip(descriptor_groups(z, blocks), descriptor_groups(other_z, blocks)):
        features, product = max(some.shape[1], 1), some @ others.t()
        squares = (some.square().sum(1)[:, None] + others.square().sum(1)).sub_(product, alpha=2)
        parts += [squares.clamp_(min=0).div_(features), product.div_(features)]
    return parts


def self_similarity(counts: Sequence[Tensor], z: Tensor, blocks: int) -> list[Tensor]:
    """Compare each molecule with itself; return the results of :func:`compare` as vectors [k]. A
    molecule without counts has the similarity 0. ``z`` are its standardised descriptors [k, d].
    """
    parts = [some.any(1).double() for some in counts]
    for some in descriptor_groups(z, blocks):
        product = some.square().sum(1) / max(some.shape[1], 1)
        parts += [torch.zeros_like(product), product]
    return parts


def descriptor_groups(z: Tensor, blocks: int) -> list[Tensor]:
    """Split descriptors [k, d] into groups: descriptors of the whole molecule, atom surface areas,
    and the user's columns.

    A row of ``blocks`` molecules has the first two groups for each of them. Without columns of the
    user, the last group is omitted.
    """
    size, groups = len(DESCRIPTORS), []
    for begin in range(0, blocks * size, size):
        groups += [z[:, begin : begin + SURFACES], z[:, begin + SURFACES : begin + size]]
    return [*groups, z[:, blocks * size :]] if z.shape[1] > blocks * size else groups


def kernel_matrix(parts: list[Tensor], theta: Tensor) -> Tensor:
    """Compute the kernel matrix without the noise on its diagonal.

    Args:
        parts: the result of :func:`compare` or :func:`self_similarity`.
        theta: [1 + kinds + 3 groups], the logarithms of the hyperparameters: of the noise, of the
            weight of each kind of counts, and for each group of descriptors of the weight of the
            Matern kernel, of 1 / length^2 and of the weight of the linear kernel.

    Returns:
        A matrix or a vector of the shape of the parts, float64.
    """
    scales, kinds = theta.exp(), count_kinds(parts, theta)
    kernel = scales[1] * parts[0]
    for weight, alike in zip(scales[2 : 1 + kinds], parts[1:kinds]):
        kernel.add_(weight * alike)
    groups = scales[1 + kinds :].view(-1, len(START_OF_GROUP))
    pairs = zip(parts[kinds::2], parts[kinds + 1 :: 2], groups)
    for squares, product, (matern, inverse, linear) in pairs:
        # The small constant is added, because the square root has no derivative at 0.
        far = (3 * inverse * squares).add_(1e-12).sqrt_()
        kernel.add_((1 + far).mul_(matern).mul_((-far).exp_())).add_(linear * product)
    return kernel


def count_kinds(parts: Sequence[Tensor], theta: Tensor) -> int:
    """Return the number c of kinds of counts that a kernel compares.

    For c kinds of counts and g groups of descriptors, there are c + 2 g matrices ``parts`` and
    1 + c + 3 g hyperparameters ``theta``.
    """
    groups = len(theta) - len(parts) - 1
    return len(parts) - 2 * groups


def start_of(kinds: int, groups: int) -> Tensor:
    """Return the initial logarithms of the hyperparameters of a kernel with kinds of counts and
    groups of descriptors: [1 + kinds + 3 groups]. The kinds share the weight equally.
    """
    noise, weight = START
    weights = [weight - math.log(kinds)] * kinds
    return torch.tensor([noise, *weights, *groups * START_OF_GROUP], dtype=torch.float64)


def cholesky(kernel: Tensor, theta: Tensor, noise: Tensor) -> Tensor:
    """Compute the lower Cholesky factor [k, k] of a kernel matrix after the noise was added to the
    diagonal of a copy.

    ``noise`` [k] are factors of the noise variance of each molecule, whose logarithm is the first
    entry of ``theta``.

    Raises:
        ValueError: the factorisation failed even with the largest number added to the diagonal.
    """
    for attempt in range(ATTEMPTS):
        noisy = kernel.clone()
        jitter = JITTER * 10**attempt
        noisy.diagonal().add_(theta[0].exp() * noise + jitter)
        lower, failed = torch.linalg.cholesky_ex(noisy)
        if not failed:
            return lower
    raise ValueError(
        f"the Gaussian process cannot factor its kernel of {len(kernel)} molecules, even with "
        f"{JITTER * 10 ** (ATTEMPTS - 1):g} added to the diagonal: check the labels and "
        "descriptors for NaN, infinite and very large values"
    )


def search_hyperparameters(
    parts: list[Tensor], y: Tensor, noise: Tensor, check: Callable[[], None], kinds: int = 1
) -> Tensor:
    """Find the maximum-a-posteriori logarithms of the hyperparameters: [1 + kinds + 3 groups].

    Args:
        parts: matrices [k, k], the result of :func:`compare`.
        y: [k], standardised labels; molecules with a NaN or infinite label are left out.
        noise: [k], factors of the noise variance of each molecule.
        check: function without arguments that is called before each evaluation of the density,
            and may raise an exception to stop the search.
        kinds: number of kinds of counts, whose similarities are the first parts.

    Raises:
        ValueError: the kernel matrix cannot be factorised, even with a larger diagonal.
    """
    start = start_of(kinds, (len(parts) - kinds) // 2)
    lowest, highest = start - FARTHEST_LOG, start + FARTHEST_LOG
    theta = start.clone().requires_grad_()
    with uncompiled_optimizers():
        optimizer = torch.optim.LBFGS([theta], max_iter=STEPS, line_search_fn="strong_wolfe")
    rows = y.isfinite().nonzero().flatten()
    if len(rows) < len(y):
        parts, y, noise = [part[rows][:, rows] for part in parts], y[rows], noise[rows]

    def loss() -> Tensor:
        """Return the loss at the current hyperparameters and set their gradient. Outside the
        bounds, the loss is that of the nearest point plus half the squared distance. Raises the
        exceptions of ``check``.
        """
        check()
        inside = theta.detach().clamp(lowest, highest)
        value, slope = negative_log_posterior(parts, y, noise, inside, start)
        beyond = theta.detach() - inside
        theta.grad = torch.where(beyond == 0, slope, beyond)
        return value + 0.5 * beyond.square().sum()

    optimizer.step(loss)
    return theta.detach().clamp(lowest, highest)


def negative_log_posterior(
    parts: list[Tensor], y: Tensor, noise: Tensor, theta: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Return the negative log posterior density, divided by the number of molecules, and its
    gradient.

    .. math::
        \frac{\partial}{\partial \theta} = \frac{1}{2} \operatorname{tr}
        \Bigl((K^{-1} - \alpha \alpha^\top) \frac{\partial K}{\partial \theta}\Bigr),
        \qquad \alpha = K^{-1} y

    The explicit gradient takes less time than autograd, which differentiates the
    factorisation and stores every matrix.

    Args:
        parts: matrices [k, k], the result of :func:`compare`.
        y: [k], standardised labels without NaN.
        noise: [k], factors of the noise variance of each molecule.
        theta: [1 + kinds + 3 groups], logarithms of the hyperparameters.
        start: [1 + kinds + 3 groups], mean of the prior of the hyperparameters.

    Returns:
        A scalar and [1 + kinds + 3 groups], float64.

    Raises:
        ValueError: the kernel matrix cannot be factorised, even with a larger diagonal.
    """
    scales: list[float] = theta.exp().tolist()
    size, kinds = len(START_OF_GROUP), count_kinds(parts, theta)
    groups = [scales[first : first + size] for first in range(1 + kinds, len(scales), size)]
    kernel, slopes = scales[1] * parts[0], parts[:kinds]
    for weight, alike in zip(scales[2 : 1 + kinds], parts[1:kinds]):
        kernel.add_(alike, alpha=weight)
    pairs = zip(parts[kinds::2], parts[kinds + 1 :: 2], groups)
    for squares, product, (matern, inverse, linear) in pairs:
        near = squares * (3 * inverse)
        far = near.add(1e-12).sqrt_()
        decay = far.neg().exp_()
        slopes += [far.add_(1).mul_(decay), near.mul_(decay), product]
        kernel.add_(slopes[-3], alpha=matern).add_(product, alpha=linear)
    lower = cholesky(kernel, theta, noise)
    weight = torch.cholesky_solve(y[:, None], lower)
    fit = 0.5 * y @ weight[:, 0] + lower.diagonal().log().sum()
    deviation = (theta - start) / SPREAD
    # The variable by_kernel is twice the derivative of the loss with respect to the kernel matrix.
    by_kernel = torch.cholesky_inverse(lower).addmm_(weight, weight.t(), alpha=-1)
    by_noise = by_kernel.diagonal() @ noise
    # The matrix is stored by column, but symmetric, so its transpose is flattened without a copy.
    flat = by_kernel.t().flatten()
    inner = torch.stack([by_noise, *(flat @ s.flatten() for s in slopes)])
    factors = scales[: 1 + kinds]
    for matern, _, linear in groups:
        factors += [matern, -0.5 * matern, linear]
    slope = 0.5 * inner * torch.tensor(factors, dtype=torch.float64)
    count = max(len(y), 1)
    value = (fit + 0.5 * deviation.square().sum()) / count
    return value, (slope + deviation / SPREAD) / count


SEARCHED_ROWS = 1000
"""Maximum number of molecules from which the hyperparameters of a target are chosen."""
BLOCK = 128
"""Number of molecules whose fingerprints are compared at once, so that they fit into the
processor's cache.
"""


@dataclass(frozen=True, eq=False)
class _Factor:
    """Solution of the linear equation K w = y for one target, where K is the kernel matrix.

    Attributes:
        rows: [k] int64, the training molecules that have a label of the target.
        weight: [k], the solution w.
        lower: [k, k], the Cholesky factor of K; None if no variances are predicted.
    """

    rows: Tensor
    weight: Tensor
    lower: Tensor | None


class GaussianProcess:
    r"""Gaussian process regression on fingerprints and descriptors.

    .. math::
        k(i, j) = s\,T(c_i, c_j) + s_p\,T(p_i, p_j)
        + \sum_g m_g (1 + r_{gij}) e^{-r_{gij}} + l_g \frac{z_{gi} \cdot z_{gj}}{d_g},
        \qquad r_{gij}^2 = \frac{3 \lVert z_{gi} - z_{gj} \rVert^2}{d_g\,\ell_g^2}

        y(a) = k(a, \text{train}) (K + \sigma^2 I)^{-1} y

    T is the Tanimoto similarity of Morgan counts c and of counts p of atom pairs, and z_g are d_g
    standardised descriptors: of the whole molecule, the surfaces of its atoms by kind, and the
    user's own columns if there are any. If a row has several molecules, each of them has its own
    groups. The scales, the lengths and the noise maximise the posterior density of each target's
    training values (marginal likelihood with a wide normal prior on the logarithms). Each target is
    fitted to the molecules that have its label.

    Memory grows with the square of the number of training molecules, so the model reads at most
    ``rows`` labels of each target, drawn at random. With t targets and variances it stores
    t rows^2 float64.

    Attributes:
        rows: [n] int64, the rows of the molecules among those passed to :meth:`fit`.

    Reference: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), chapters
    2 and 5.
    """

    def __init__(self, tensors: dict[str, Tensor], *, variance: bool = True) -> None:
        """Restore a model from the tensors of :meth:`state`. If ``variance`` is false, it
        predicts only means.
        """
        self._tensors, self._variance = tensors, variance
        self.rows = torch.arange(len(tensors["y"]))
        self.counts = tensors["counts"]
        self._z, self._theta = tensors["descriptors"], tensors["theta"]
        # Each molecule of a row has two groups of hyperparameters, and the user's columns have one
        # group.
        groups = (self._theta.shape[1] - 1 - len(self._kinds)) // len(START_OF_GROUP)
        self._blocks = groups // 2

    @functools.cached_property
    def _factors(self) -> list[_Factor]:
        """Solution of the kernel equation for each target, which is computed at the first
        prediction.
        """
        factors = self._solve()
        return [factor if self._variance else replace(factor, lower=None) for factor in factors]

    def _solve(self) -> Iterator[_Factor]:
        """Yield the solution of the kernel equation for each target. Raises ValueError if the
        kernel matrix cannot be factorised.
        """
        noise, rows, parts = self._tensors["noise"], torch.empty(0), []
        for theta, y in zip(self._theta, self._tensors["y"].unbind(1)):
            labelled = y.isfinite().nonzero().flatten()
            if not torch.equal(rows, labelled):
                rows, parts = labelled, _compared(self._kinds, self._z, labelled, self._blocks)
            kernel = kernel_matrix(parts, theta)
            lower = cholesky(kernel, theta, noise[rows])
            yield _Factor(rows, torch.cholesky_solve(y[rows, None], lower).flatten(), lower)

    @classmethod
    def fit(
        cls, inputs: MoleculeInputs, y: Tensor, weights: Tensor, *, rows: int, seed: int,
        variance: bool = True, progress: bool = False, check: Callable[[], None] = lambda: None,
        bounds: Tensor | None = None,
    ) -> GaussianProcess:  # fmt: skip
        """Fit the model: sample its molecules, and choose the hyperparameters of each target. The
        kernel equation is solved at the first prediction.

        Args:
            inputs: k training molecules.
            y: [k, t] float64; NaN where a target was not measured.
            weights: [k] above 0; the noise variance of a molecule is divided by its weight.
            rows: maximum number of labels of a target to read.
            seed: seed that samples the molecules if there are more.
            variance: whether to predict variances, which take most of the time of a prediction.
            progress: whether to show a progress bar over the targets.
            check: called before each evaluation of the density; an error that it raises ends the
                search.
            bounds: [k, t, 2] float64, the lower and upper end of labels that are known by limits
                only and are NaN in y. The model that is fitted to y predicts a normal distribution
                for each of them, and its mean between the ends becomes the label.

        Returns:
            The fitted model.

        Raises:
            ValueError: the kernel matrix cannot be factorised, for example because labels or
                descriptors are very large.
        """
        sampled, chosen = draw_labelled(known_labels(y, bounds), rows, seed)
        some = inputs[sampled]
        y = y[sampled].double().where(chosen, torch.nan)
        counts, raw = [some.counts, some.pairs], _raw(some)
        mean, scale = moments(y)
        center, width = moments(raw)
        z = standardise(raw, center, width)
        blocks = max(inputs.descriptors.shape[1] // len(DESCRIPTORS), 1)
        scaled = (y - mean) / scale
        noise = 1 / weights[sampled].double()
        theta, searched, parts = [], torch.empty(0), []
        for target in progress_bar(
            scaled.unbind(1), "Gaussian process", "target", progress=progress
        ):
            labelled = target.isfinite().nonzero().flatten()
            labelled = labelled[draw(len(labelled), SEARCHED_ROWS, seed)]
            if not torch.equal(searched, labelled):
                searched, parts = labelled, _compared(counts, z, labelled, blocks)
            theta.append(
                search_hyperparameters(parts, target[searched], noise[searched], check, len(counts))
            )
        model = cls(
            {
                "counts": counts[0], "pairs": counts[1], "descriptors": z, "y": scaled,
                "theta": torch.stack(theta), "mean": mean, "scale": scale, "center": center,
                "width": width, "noise": noise,
            },
            variance=variance,
        )  # fmt: skip
        if bounds is not None:
            limits = bounds[sampled].where(chosen[..., None], torch.nan)
            expected = model._with_expected(some, y, limits)
            model = cls(model._tensors | {"y": (expected - mean) / scale}, variance=variance)
        model.rows = sampled
        return model

    def _with_expected(self, inputs: MoleculeInputs, y: Tensor, bounds: Tensor) -> Tensor:
        """Return the labels y [k, t] in the targets' units, with each censored label replaced by
        its expected value between its ends ``bounds`` [k, t, 2]; a label is censored if an end is
        infinite. Raises ValueError as :meth:`predict`.
        """
        limited = bounds.isinf().any(2)
        if not limited.any():
            return y
        mean, variance = GaussianProcess(self._tensors).predict(inputs)
        return torch.where(limited, truncated_mean(mean, variance.sqrt(), *bounds.unbind(2)), y)

    def with_more(
        self, inputs: MoleculeInputs, y: Tensor, weights: Tensor, bounds: Tensor | None = None
    ) -> GaussianProcess:
        """Return a model with additional training molecules and the same hyperparameters and
        scales.

        Args:
            inputs: k molecules.
            y: [k, t] float64; NaN where a target was not measured.
            weights: [k] above 0, as in :meth:`fit`.
            bounds: [k, t, 2] float64, the ends of labels that are known by limits; see :meth:`fit`.

        Returns:
            A model of the old and the new training molecules; the new ones are its last k, and its
            ``rows`` count all of them. Without new molecules, the model itself.

        Raises:
            ValueError: the labels have bounds, and the kernel matrix cannot be factorised.
        """
        if not len(inputs):
            return self
        if bounds is not None:
            y = self._with_expected(inputs, y.double(), bounds)
        tensors = self._tensors
        z = standardise(_raw(inputs), tensors["center"], tensors["width"])
        scaled = (y.double() - tensors["mean"]) / tensors["scale"]
        more = {
            "counts": inputs.counts, "pairs": inputs.pairs, "descriptors": z, "y": scaled,
            "noise": 1 / weights,
        }  # fmt: skip
        joined = {name: torch.cat([tensors[name], each]) for name, each in more.items()}
        return GaussianProcess(tensors | joined, variance=self._variance)

    def leave_out(
        self, groups: Tensor, rows: Tensor | None = None, selection: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Predict each training molecule with a model that was trained without the molecule's
        group.

        With :math:`\alpha = K^{-1} y` and the rows G of one group, the model of all other rows,
        under the same hyperparameters, predicts the mean and the variance

        .. math::
            m_G = y_G - (K^{-1})_{GG}^{-1} \alpha_G, \qquad
            v_G = \operatorname{diag} (K^{-1})_{GG}^{-1}

        so the kernel equation does not have to be solved again. Its solution for all molecules is
        stored for :meth:`predict`.

        Args:
            groups: [k] int64, the group of each: rows of one molecule belong to one group.
            rows: [k] int64, ascending indices among the training molecules; None for all.
            selection: [k, t] bool, the targets to predict for each; None for all.

        Returns:
            Means [k, t] float64 in the targets' units, and variances [k, t] of a measurement; NaN
            where a row has no label of a target, or is not selected.

        Raises:
            ValueError: the kernel matrix cannot be factorised.

        Reference: Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006),
        section 5.4.2.
        """
        y = self._tensors["y"]
        rows = torch.arange(len(groups)) if rows is None else rows
        predictions = torch.full((2, len(rows), y.shape[1]), torch.nan).double()
        factors = []
        for target, factor in enumerate(self._factors if self._variance else self._solve()):
            factors.append(factor if self._variance else replace(factor, lower=None))
            assert factor.lower is not None
            labelled = y[rows, target].isfinite()
            if selection is not None:
                labelled &= selection[:, target]
            places = torch.searchsorted(factor.rows, rows[labelled])
            unit = torch.zeros(len(factor.rows), len(places), dtype=torch.float64)
            unit[places, torch.arange(len(places))] = 1
            half = torch.linalg.solve_triangular(factor.lower, unit, upper=False)
            residual, variance = _residuals(half, factor.weight[places], groups[labelled])
            predictions[0, labelled, target] = y[rows, target][labelled] - residual
            predictions[1, labelled, target] = variance
        # The method predict uses these factors of the kernel matrix later.
        self._factors = factors
        return self._in_units(*predictions)

    def left_out_errors(self, groups: Tensor) -> Tensor:
        """Return the errors of :meth:`leave_out` for all training molecules, divided by their
        standard deviations: [n, t]; NaN without a label. ``groups`` [n] is the group of each
        molecule. Raises ValueError if the kernel matrix cannot be factorised.
        """
        mean, variance = self.leave_out(groups)
        labels, _ = self._in_units(self._tensors["y"], torch.zeros(1))
        return (labels - mean) / variance.sqrt()

    def predict(self, inputs: MoleculeInputs) -> tuple[Tensor, Tensor]:
        """Predict the mean and the variance of each target. The first call solves the kernel
        equation and stores the solution.

        Args:
            inputs: k molecules.

        Returns:
            [k, t] float64 in the targets' units, and the variance of a measurement, [k, t]; zeros
            if the model has no variances.

        Raises:
            ValueError: the counts have another number of columns or another dtype, or the kernel
                matrix cannot be factorised.
        """
        center, width = self._tensors["center"], self._tensors["width"]
        predictions: list[tuple[Tensor, Tensor]] = []
        for some in in_pieces(inputs):
            z = standardise(_raw(some), center, width)
            kinds = [some.counts, some.pairs]
            alike = [table.tanimoto(counts) for counts, table in zip(kinds, self._tables)]
            for rows in (slice(i, i + BLOCK) for i in range(0, max(len(z), 1), BLOCK)):
                block = [[each[rows] for each in parts] for parts in (kinds, alike)]
                predictions.append(self._predict(block[0], z[rows], block[1]))
        means, variances = zip(*predictions)
        return self._in_units(torch.cat(means), torch.cat(variances))

    def _predict(
        self, counts: list[Tensor], z: Tensor, alike: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Predict standardised means [k, t] and variances [k, t] of k molecules. ``alike`` are
        their similarities [k, n] to the training molecules for each kind of ``counts``.
        """
        parts = [*(each.double() for each in alike), *compare_descriptors(z, self._z, self._blocks)]
        itself = self_similarity(counts, z, self._blocks)
        means, variances = [], []
        for theta, factor in zip(self._theta, self._factors):
            gaps = len(factor.rows) < len(self.counts)
            cross = kernel_matrix(
                [part[:, factor.rows] for part in parts] if gaps else parts, theta
            )
            means.append(cross @ factor.weight)
            if factor.lower is None:
                variances.append(torch.zeros_like(means[-1]))
                continue
            spread = torch.linalg.solve_triangular(factor.lower, cross.t(), upper=False)
            variances.append(
                kernel_matrix(itself, theta) + (theta[0].exp() + JITTER) - spread.square().sum(0)
            )
        return torch.stack(means, 1), torch.stack(variances, 1)

    @property
    def _kinds(self) -> list[Tensor]:
        """Counts of the training molecules: of Morgan environments and of atom pairs."""
        return [self.counts, self._tensors["pairs"]]

    @functools.cached_property
    def _tables(self) -> list[CountTable]:
        """Counts of the training molecules by column, which the predictions compare."""
        return [CountTable.of(counts) for counts in self._kinds]

    @property
    def labelled(self) -> Tensor:
        """Labels of the training molecules that the model reads: [k, t] bool."""
        return self._tensors["y"].isfinite()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors from which the model can be restored."""
        return dict(self._tensors)

    def _in_units(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        scale = self._tensors["scale"]
        return mean * scale + self._tensors["mean"], variance.clamp(min=0) * scale.square()


def truncated_mean(mean: Tensor, std: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    r"""Compute the mean of a normal distribution that is truncated to an interval.

    .. math::
        m + s \frac{\varphi(a) - \varphi(b)}{\Phi(b) - \Phi(a)}, \qquad
        a = \frac{l - m}{s}, \quad b = \frac{u - m}{s}

    Args:
        mean: m, of any shape, float64.
        std: s, above 0.
        lower: l, minus infinity without a lower end.
        upper: u, infinity without an upper end.

    Returns:
        The means; the nearer end where the interval has nearly no probability.

    Reference: Johnson et al., "Continuous Univariate Distributions" (1994), section 13.10.

    Example:
        >>> zero, one = torch.zeros(1).double(), torch.ones(1).double()
        >>> truncated_mean(zero, one, zero, one * torch.inf)
        tensor([0.7979], dtype=torch.float64)
    """
    a, b = (lower - mean) / std, (upper - mean) / std
    mass = torch.special.ndtr(b) - torch.special.ndtr(a)
    density = (-0.5 * a.square()).exp() - (-0.5 * b.square()).exp()
    inside = mean + std * density / (mass * (2 * torch.pi) ** 0.5)
    nearest = mean.maximum(lower).minimum(upper)
    return torch.where(mass > 1e-8, inside, nearest).maximum(lower).minimum(upper)


def draw(count: int, most: int, seed: int) -> Tensor:
    """Sample indices from 0 to count - 1 without replacement, at most ``most`` of them; return
    them in ascending order.
    """
    if count <= most:
        return torch.arange(count)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(count, generator=generator)[:most].sort().values


def draw_labelled(labelled: Tensor, most: int | Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Sample labels of each target. The rows are in the same random order for all targets, so that
    targets with the same labelled rows share their sample.

    Args:
        labelled: [k, t] bool, where a label is known.
        most: maximum number of labels of a target, or one maximum for each target [t].
        seed: seed of the order.

    Returns:
        [n] int64, the rows with a sampled label, ascending; and [n, t] bool, the sampled labels.

    Example:
        >>> labelled = torch.tensor([[True, False], [True, False], [False, True]])
        >>> rows, chosen = draw_labelled(labelled, 2, seed=0)
        >>> rows.tolist(), chosen.sum(0).tolist()
        ([0, 1, 2], [2, 1])
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labelled), generator=generator)
    chosen = torch.zeros_like(labelled)
    chosen[order] = labelled[order] & (labelled[order].cumsum(0) <= most)
    rows = chosen.any(1).nonzero().flatten()
    return rows, chosen[rows]


def known_labels(y: Tensor, bounds: Tensor | None) -> Tensor:
    """Return the labels [k, t] that are measured or known by a limit: bool."""
    return y.isfinite() if bounds is None else y.isfinite() | bounds.isinf().any(2)


def _raw(inputs: MoleculeInputs) -> Tensor:
    """Return the descriptors [k, d] float64: first those computed from the SMILES, then the
    user's columns.
    """
    descriptors, extra = inputs.descriptors.double(), inputs.extra_descriptors
    return torch.cat([descriptors, extra], 1) if extra.shape[1] else descriptors


def _compared(counts: list[Tensor], z: Tensor, rows: Tensor, blocks: int) -> list[Tensor]:
    """Return the results of :func:`compare` for each pair of some rows."""
    if len(rows) < len(z):
        counts, z = [each[rows] for each in counts], z[rows]
    return compare(counts, z, counts, z, blocks)


def _residuals(half: Tensor, weight: Tensor, groups: Tensor) -> tuple[Tensor, Tensor]:
    """Return the prediction error [k] and variance [k] of each row if the row's group is left out.

    Args:
        half: [n, k], the columns of the inverse of the Cholesky factor of the kernel.
        weight: [k], the entries of :math:`K^{-1} y`.
        groups: [k], the group of each row.
    """
    variance = 1 / half.square().sum(0)
    residual = weight * variance
    _, group, sizes = groups.unique(return_inverse=True, return_counts=True)
    for number in (sizes > 1).nonzero().flatten():
        some = (group == number).nonzero().flatten()
        block = torch.linalg.inv(half[:, some].t() @ half[:, some])
        residual[some], variance[some] = block @ weight[some], block.diagonal()
    return residual, variance
