"""Covariance function of the Gaussian process, and the search for its hyperparameters.

The equation is in :class:`gattn.apps.molecules.gaussian_process.GaussianProcess`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gattn.apps.molecules.kernels.features import CountTable
from gattn.compat.torch import uncompiled_optimizers
from gattn.data.molecules.descriptors import DESCRIPTORS

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
    :func:`compare_descriptors`.
    """
    pairs = zip(counts, other_counts, strict=True)
    alike = [CountTable.of(others).tanimoto(some).double() for some, others in pairs]
    return [*alike, *compare_descriptors(z, other_z, blocks)]


def compare_descriptors(z: Tensor, other_z: Tensor, blocks: int) -> list[Tensor]:
    """Return the squared distances [k, n] and the dot products [k, n] for each group of
    descriptors.
    """
    parts = []
    for some, others in zip(descriptor_groups(z, blocks), descriptor_groups(other_z, blocks)):
        features, product = max(some.shape[1], 1), some @ others.t()
        squares = some.square().sum(1)[:, None] + others.square().sum(1) - 2 * product
        parts += [squares.clamp(min=0) / features, product / features]
    return parts


def self_similarity(counts: Sequence[Tensor], z: Tensor, blocks: int) -> list[Tensor]:
    """Compare each molecule with itself; return the results of :func:`compare` as vectors [k]."""
    parts = [some.any(1).double() for some in counts]
    for some in descriptor_groups(z, blocks):
        product = some.square().sum(1) / max(some.shape[1], 1)
        parts += [torch.zeros_like(product), product]
    return parts


def descriptor_groups(z: Tensor, blocks: int) -> list[Tensor]:
    """Split descriptors [k, d] into groups: descriptors of the whole molecule, atom surface areas,
    and the user's columns.

    A row of several molecules has the first two groups for each of them.
    """
    size, groups = len(DESCRIPTORS), []
    for begin in range(0, blocks * size, size):
        groups += [z[:, begin : begin + SURFACES], z[:, begin + SURFACES : begin + size]]
    return [*groups, z[:, blocks * size :]] if z.shape[1] > blocks * size else groups


def kernel_matrix(parts: list[Tensor], theta: Tensor) -> Tensor:
    """Compute the kernel matrix without the noise on its diagonal.

    Args:
        parts: similarities and squared distances of the molecules, from :func:`compare`.
        theta: logarithms of the hyperparameters.
    """
    scales, kinds = theta.exp(), count_kinds(parts, theta)
    kernel = scales[1] * parts[0]
    for weight, alike in zip(scales[2 : 1 + kinds], parts[1:kinds]):
        kernel = kernel + weight * alike
    groups = scales[1 + kinds :].view(-1, len(START_OF_GROUP))
    pairs = zip(parts[kinds::2], parts[kinds + 1 :: 2], groups)
    for squares, product, (matern, inverse, linear) in pairs:
        # The small constant is added, because the square root has no derivative at 0.
        far = (3 * inverse * squares + 1e-12).sqrt()
        kernel = kernel + matern * (1 + far) * (-far).exp() + linear * product
    return kernel


def count_kinds(parts: Sequence[Tensor], theta: Tensor) -> int:
    """Return the number of kinds of counts that a kernel compares.

    For c kinds of counts and g groups of descriptors, there are c + 2 g matrices and 1 + c + 3 g
    hyperparameters.
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


def noise_variance(theta: Tensor, jitter: float = JITTER) -> Tensor:
    """Return the number that is added to the diagonal of the kernel matrix.

    Args:
        theta: logarithms of the hyperparameters; the first is that of the noise.
        jitter: number that is added to the noise, so that the matrix can be factored.
    """
    return theta[0].exp() + jitter


def cholesky(kernel: Tensor, theta: Tensor, noise: Tensor | None = None) -> Tensor:
    """Compute the Cholesky factor of the kernel matrix after the noise was added to its diagonal.

    ``noise`` [k] are factors of the noise variance of each molecule; None if all are 1.

    Raises:
        ValueError: the factorisation failed even with the largest number added to the diagonal.
    """
    for attempt in range(ATTEMPTS):
        noisy = kernel.clone()
        jitter = JITTER * 10**attempt
        added = noise_variance(theta, jitter) if noise is None else theta[0].exp() * noise + jitter
        noisy.diagonal().add_(added)
        lower, failed = torch.linalg.cholesky_ex(noisy)
        if not failed:
            return lower
    raise ValueError(
        f"the Gaussian process cannot factor its kernel of {len(kernel)} molecules, even with "
        f"{JITTER * 10 ** (ATTEMPTS - 1):g} added to the diagonal: check the labels and "
        "descriptors for NaN, infinite and very large values"
    )


def search_hyperparameters(
    parts: list[Tensor], y: Tensor, check: Callable[[], None], noise: Tensor | None = None,
    kinds: int = 1,
) -> Tensor:  # fmt: skip
    """Find the maximum-a-posteriori logarithms of the hyperparameters: [1 + kinds + 3 groups].

    ``kinds`` is the number of kinds of counts, whose similarities are the first parts.
    """
    start = start_of(kinds, (len(parts) - kinds) // 2)
    lowest, highest = start - FARTHEST_LOG, start + FARTHEST_LOG
    theta = start.clone().requires_grad_()
    with uncompiled_optimizers():
        optimizer = torch.optim.LBFGS([theta], max_iter=STEPS, line_search_fn="strong_wolfe")
    rows = y.isfinite().nonzero().flatten()
    if len(rows) < len(y):
        parts, y = [part[rows][:, rows] for part in parts], y[rows]
        noise = None if noise is None else noise[rows]

    def loss() -> Tensor:
        check()
        inside = theta.detach().clamp(lowest, highest)
        value, slope = negative_log_posterior(parts, y, inside, start, noise)
        beyond = theta.detach() - inside
        theta.grad = torch.where(beyond == 0, slope, beyond)
        return value + 0.5 * beyond.square().sum()

    optimizer.step(loss)
    return theta.detach().clamp(lowest, highest)


def negative_log_posterior(
    parts: list[Tensor], y: Tensor, theta: Tensor, start: Tensor, noise: Tensor | None = None
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
        theta: [1 + kinds + 3 groups], logarithms of the hyperparameters.
        start: [1 + kinds + 3 groups], mean of the prior of the hyperparameters.
        noise: [k], factors of the noise variance of each molecule; None if all are 1.

    Returns:
        A scalar and [1 + kinds + 3 groups], float64.
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
    by_noise = by_kernel.trace() if noise is None else by_kernel.diagonal() @ noise
    inner = torch.stack([by_noise, *(by_kernel.flatten() @ s.flatten() for s in slopes)])
    factors = scales[: 1 + kinds]
    for matern, _, linear in groups:
        factors += [matern, -0.5 * matern, linear]
    slope = 0.5 * inner * torch.tensor(factors, dtype=torch.float64)
    count = max(len(y), 1)
    value = (fit + 0.5 * deviation.square().sum()) / count
    return value, (slope + deviation / SPREAD) / count
