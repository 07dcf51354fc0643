"""Morgan fingerprints and what is built on their Tanimoto similarity: a baseline and a graph."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles import need_rdkit, parse_any_size
from gattn.data.molecules.stereo import CHIRALITIES, OTHER, STEREOS, Configurations

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from rdkit.Chem.rdFingerprintGenerator import FingerprintGenerator64

__all__ = ["morgan_fingerprints", "tanimoto", "tanimoto_neighbours", "tanimoto_ridge"]


def morgan_fingerprints(
    molecules: Sequence[str] | Molecules, *, radius: int = 2, bits: int = 2048
) -> Tensor:
    """Compute one Morgan bit vector a molecule.

    Args:
        molecules: what was read, or SMILES.
        radius: how many bonds an atom's environment reaches; 2 gives what is called ECFP4.
        bits: the length, onto which the environments' hashes are folded.

    Returns:
        [k, bits] float32 of 0 and 1; no molecules give no rows.

    Raises:
        ValueError: a SMILES that RDKit cannot read.
        ImportError: RDKit is not installed.

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


COUNTS = 2048
"""The length of a row of Morgan counts."""


class PackedCounts(NamedTuple):
    """Sparse rows of counts.

    Attributes:
        lengths: [k] int32, the number of entries of each row.
        columns: int16, the column of each entry.
        counts: uint8, the value of each entry.
    """

    lengths: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    def unpack(self) -> Tensor:
        """Return the dense rows, [k, COUNTS] uint8."""
        rows = np.zeros((len(self.lengths), COUNTS), np.uint8)
        rows[np.arange(len(rows)).repeat(self.lengths), self.columns] = self.counts
        return torch.from_numpy(rows)


def count_environments(
    molecules: Sequence[Mol], labels: Mapping[int, Configurations]
) -> PackedCounts:
    """Count the Morgan environments of radius 2 of every molecule, each count at most 255.

    Each environment is counted twice: without stereochemistry, and with the configurations of its
    atoms (:func:`atom_codes`). Where it has none both counts are in one column. So stereoisomers
    share the environments without configurations and differ in those around their centres, and a
    molecule without marks is more similar to each of them than they are to one another.

    Args:
        molecules: k plain molecules.
        labels: of those that have configurations, by their position.
    """
    lengths, columns, counts = [], [], []
    # One call of RDKit for all molecules takes two thirds of the time.
    flat = morgan_counter().GetCountFingerprints(molecules, numThreads=1)
    for position, fingerprint in enumerate(flat):
        environments = fingerprint.GetNonzeroElements()
        if position in labels:
            molecule = molecules[position]
            codes = atom_codes(molecule, labels[position])
            marked = morgan_counter().GetCountFingerprint(molecule, customAtomInvariants=codes)
            for column, count in marked.GetNonzeroElements().items():
                environments[column] = environments.get(column, 0) + count
        lengths.append(len(environments))
        columns += environments.keys()
        counts += environments.values()
    factors = np.full(len(lengths), 2)
    factors[list(labels)] = 1  # both counts are summed already
    totals = np.array(counts, np.int64) * factors.repeat(lengths)
    return PackedCounts(
        np.array(lengths, np.int32),
        np.array(columns, np.int16),
        np.minimum(totals, 255).astype(np.uint8),
    )


def atom_codes(molecule: Mol, labels: Configurations) -> list[int]:
    """Name what each atom is, with its configuration and those of its double bonds.

    Args:
        molecule: n atoms; :func:`gattn.data.molecules.plain.plain` gave it.
        labels: its configurations.

    Returns:
        [n] codes of 32 bits, for RDKit's generator; where no atom has a configuration these are
        those of the generator.
    """
    from rdkit.Chem.rdMolDescriptors import GetConnectivityInvariants

    codes = list(GetConnectivityInvariants(molecule))
    for atom, label in labels.atoms.items():
        codes[atom] = (codes[atom] + _CENTRES[label]) % 2**32
    for number, label in labels.bonds.items():
        bond = molecule.GetBondWithIdx(number)
        for atom in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()):
            codes[atom] = (codes[atom] + _PLANES[label]) % 2**32
    return codes


_CENTRES, _PLANES = (
    {label: place * unit for place, label in enumerate((*labels, OTHER))}
    for labels, unit in ((CHIRALITIES, 0x9E3779B1), (STEREOS, 0x85EBCA6B))
)
"""Numbers added to the code of an atom for each label; their bits are mixed."""


@functools.cache
def morgan_counter() -> FingerprintGenerator64:
    """Return RDKit's generator of Morgan counts with :data:`COUNTS` columns."""
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=COUNTS)


def tanimoto(a: Tensor, b: Tensor) -> Tensor:
    """Compare every row of one set of bit vectors with every row of another.

        T_ij = |a_i and b_j| / |a_i or b_j|

    Args:
        a: [n, d] of 0 and 1, float.
        b: [m, d] of 0 and 1, float.

    Returns:
        [n, m] in 0..1; two vectors without a bit have similarity 0.

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
    """Predict by kernel ridge regression on Tanimoto similarity: the baseline to beat.

        y(test) = mean(y) + T(test, train) (T(train, train) + ridge I)^-1 (y - mean(y))

    Args:
        train: [n, d] fingerprints.
        y: [n] measured values.
        test: [m, d] fingerprints.
        ridge: what is added to the diagonal, above 0.

    Returns:
        [m] float64.

    Raises:
        ValueError: nothing to train on, shapes that do not fit, or a ridge that is not positive.

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
    train: Tensor, y: Tensor, tests: Iterable[Tensor], *, ridge: float = 0.1
) -> Iterator[Tensor]:
    """Predict as :func:`tanimoto_ridge` does, one set of molecules after the other."""
    if not ridge > 0:
        raise ValueError(f"ridge must be above 0; got {ridge}")
    if y.dim() != 1 or len(y) != len(train) or not len(y):
        raise ValueError(f"y must be ({len(train)},), one or more; got {(*y.shape,)}")
    y, train = y.double(), train.double()
    kernel = tanimoto(train, train) + ridge * torch.eye(len(train), dtype=torch.float64)
    weight = torch.linalg.solve(kernel, y - y.mean())
    for test in tests:
        yield y.mean() + tanimoto(test.double(), train) @ weight


def tanimoto_neighbours(fingerprints: Tensor, k: int) -> Tensor:
    """Join every molecule with the k others most similar to it, in both directions.

    Args:
        fingerprints: [n, d] of 0 and 1, float.
        k: neighbours of each, at most n - 1 of which there are. Of equally similar ones the
            first in the list are taken.

    Returns:
        [2, e] int64 without self-loops and duplicates, ordered by destination, then source; an
        edge is there if either end is among the other's k nearest.

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
    other = nearest.flatten()
    key = torch.cat([one * n + other, other * n + one]).unique()
    return torch.stack([key % max(n, 1), key // max(n, 1)])
