"""Morgan fingerprints, with a baseline model and a graph that are based on their similarity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import need_rdkit, parse_any_size


def morgan_fingerprints(
    molecules: Sequence[str] | Molecules, *, radius: int = 2, bits: int = 2048
) -> Tensor:
    """Compute the Morgan bit vector of each molecule.

    Args:
        molecules: ``Molecules`` or a list of SMILES.
        radius: radius of the environments in bonds; 2 gives ECFP4.
        bits: length of the vectors, to which the hashes of the environments are folded.

    Returns:
        [k, bits] float32 of 0 and 1; an empty list gives no rows.

    Raises:
        ValueError: RDKit cannot read a SMILES.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

    Reference: Rogers and Hahn, Extended-Connectivity Fingerprints, J. Chem. Inf. Model. 2010
    (doi 10.1021/ci100050t).

    >>> morgan_fingerprints(["CCO", "c1ccccc1"]).sum(1)
    tensor([6., 3.])
    """
    need_rdkit()
    from rdkit import rdBase
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
    smiles = smiles_of(molecules)
    rows = np.zeros((len(smiles), bits), np.float32)
    with rdBase.BlockLogs():
        for row, text in zip(rows, smiles):
            row[:] = generator.GetFingerprintAsNumPy(plain(parse_any_size(text), text))
    return torch.from_numpy(rows)


def tanimoto(a: Tensor, b: Tensor) -> Tensor:
    """Compute the Tanimoto similarity of bit vectors, for every pair of a row of ``a`` and a row of
    ``b``.

        T_ij = |a_i and b_j| / |a_i or b_j|

    Args:
        a: [n, d] of 0 and 1, float.
        b: [m, d] of 0 and 1, float.

    Returns:
        [n, m] in 0..1; the similarity of two empty vectors is 0.

    Raises:
        ValueError: the vectors differ in length.

    >>> tanimoto(torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"a and b must be (n, d) and (m, d); got {(*a.shape,)} and {(*b.shape,)}")
    both = a @ b.t()
    either = a.sum(1, keepdim=True) + b.sum(1) - both
    return both / either.clamp(min=1)


def tanimoto_ridge(train: Tensor, y: Tensor, test: Tensor, *, ridge: float = 0.1) -> Tensor:
    """Predict a property by kernel ridge regression with Tanimoto similarity, as a baseline.

        y(test) = mean(y) + T(test, train) (T(train, train) + ridge I)^-1 (y - mean(y))

    Args:
        train: [n, d] fingerprints.
        y: [n] measured values.
        test: [m, d] fingerprints.
        ridge: positive number that is added to the diagonal of the kernel matrix.

    Returns:
        [m] float64, the predictions.

    Raises:
        ValueError: there is no training data, shapes do not fit, or ``ridge`` is not positive.

    Reference: Ralaivola et al., Graph kernels for chemical informatics, Neural Networks 2005
    (doi 10.1016/j.neunet.2005.07.009).

    >>> prints = morgan_fingerprints(["CCO", "CCCO", "c1ccccc1"])
    >>> guess = tanimoto_ridge(prints[:2], torch.tensor([1.0, 2.0]), prints)
    >>> bool(guess[0] < guess[2] < guess[1])
    True
    """
    (prediction,) = tanimoto_ridges(train, y, [test], ridge=ridge)
    return prediction


def tanimoto_ridges(
    train: Tensor,
    y: Tensor,
    tests: Iterable[Tensor],
    *,
    ridge: float = 0.1,
    weights: Tensor | None = None,
) -> Iterator[Tensor]:
    """Fit the model of :func:`tanimoto_ridge` once, and yield its predictions for several test
    sets.

    With ``weights`` [n], all positive, the ridge of each molecule is divided by its weight, and the
    mean of y is weighted. Yields [m] float64 for each test set of m fingerprints. Raises
    ValueError, at the first prediction, unless ``ridge`` is above 0 and y has one value for each of
    one or more training molecules.
    """
    if not ridge > 0:
        raise ValueError(f"ridge must be above 0; got {ridge}")
    if y.dim() != 1 or len(y) != len(train) or not len(y):
        raise ValueError(f"y must be ({len(train)},), one or more; got {(*y.shape,)}")
    y, train = y.double(), train.double()
    if weights is None:
        noise, mean = torch.ones(len(train), dtype=torch.float64), y.mean()
    else:
        noise, mean = 1 / weights.double(), (weights * y).sum() / weights.sum()
    kernel = tanimoto(train, train) + torch.diag(ridge * noise)
    weight = torch.linalg.solve(kernel, y - mean)
    for test in tests:
        yield mean + tanimoto(test.double(), train) @ weight


def tanimoto_neighbours(fingerprints: Tensor, k: int) -> Tensor:
    """Connect each molecule with the k molecules that are most similar to it, by edges in both
    directions.

    Args:
        fingerprints: [n, d] of 0 and 1, float.
        k: number of neighbours of each molecule; if it exceeds n - 1, all other molecules are
            neighbours. Ties are resolved by the order of the rows.

    Returns:
        [2, e] int64 without self-loops and duplicates, ordered by destination, then source. There
        is an edge if either molecule is among the k nearest of the other.

    Raises:
        ValueError: k is below 1.

    >>> tanimoto_neighbours(morgan_fingerprints(["CCO", "CCCO", "c1ccccc1", "Cc1ccccc1"]), 1)
    tensor([[1, 0, 3, 2],
            [0, 1, 2, 3]])
    """
    if k < 1:
        raise ValueError(f"k must be at least 1; got {k}")
    n = len(fingerprints)
    similarity = tanimoto(fingerprints, fingerprints).fill_diagonal_(-1)
    nearest = similarity.argsort(dim=1, descending=True, stable=True)[:, : min(k, max(n - 1, 0))]
    one = torch.arange(n).repeat_interleave(nearest.shape[1])
    return to_undirected(torch.stack([nearest.flatten(), one]), num_nodes=n).flip(0)
