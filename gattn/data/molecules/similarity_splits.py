"""Splits of molecules by the Tanimoto similarity of their Morgan fingerprints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.fingerprints import morgan_fingerprints, tanimoto
from gattn.data.molecules.smiles import need_rdkit
from gattn.data.splits import EIGHT_ONE_ONE, Split, cuts, ratio, split_by_groups

__all__ = ["MOST_COMPARED", "butina_clusters", "butina_split", "kennard_stone_split"]

MOST_COMPARED = 20_000
"""Maximum number of molecules. All pairs are compared, so the time grows with its square."""
BLOCK = 1024
"""Number of molecules that are compared with all others at once."""


def butina_clusters(molecules: Sequence[str] | Molecules, *, distance: float = 0.65) -> list[int]:
    """Return the index of the cluster of each molecule, by the algorithm of Taylor and Butina.

    The molecule with the most neighbours becomes the centre of the first cluster, which contains
    all its neighbours. They are removed, the neighbours of the others are counted again, and so on.
    The distance of two molecules is 1 minus the Tanimoto similarity of their Morgan bits. Equal
    SMILES count once, and ties are broken by their alphabetical order, so that the clusters do not
    depend on the order of the molecules.

    Args:
        molecules: ``Molecules`` or a list of n SMILES.
        distance: molecules with at most this distance are neighbours. With 0.65, a molecule has a
            similarity of at least 0.35 to the centre of its cluster.

    Returns:
        n numbers, in descending order of the size of the clusters.

    Raises:
        ValueError: RDKit cannot read a SMILES, or there are more than :data:`MOST_COMPARED`.
        ImportError: RDKit is not installed.

    Reference: Butina, "Unsupervised Data Base Clustering Based on Daylight's Fingerprint and
    Tanimoto Similarity" (J. Chem. Inf. Comput. Sci. 1999).

    >>> butina_clusters(["CCCCCO", "c1ccccc1C", "CCCCCCO"])
    [0, 1, 0]
    """
    need_rdkit()
    from rdkit.ML.Cluster import Butina

    smiles = smiles_of(molecules)
    different = sorted(set(smiles))
    bits = _bits(different)
    count = len(bits)
    # RDKit reads the distances (1, 0), (2, 0), (2, 1), (3, 0) and so on: the lower triangle.
    triangle = np.empty(count * (count - 1) // 2, np.float32)
    begin = 0
    for first in range(0, count, BLOCK):
        rows = (1 - tanimoto(bits[first : first + BLOCK], bits)).numpy()
        for i, row in enumerate(rows, first):
            triangle[begin : begin + i] = row[:i]
            begin += i
    clusters = Butina.ClusterData(triangle, count, distance, isDistData=True, reordering=True)
    order = sorted(clusters, key=lambda each: (-len(each), min(each)))
    number_of = {different[i]: number for number, each in enumerate(order) for i in each}
    return [number_of[text] for text in smiles]


def butina_split(
    molecules: Sequence[str] | Molecules, *, fractions: tuple[float, float, float] = EIGHT_ONE_ONE
) -> Split:
    """Split molecules by cluster (:func:`butina_clusters`), so that no cluster is in two parts.

    Clusters are assigned as scaffolds are by :func:`gattn.data.scaffold_split`: the large ones to
    the training part, and the small ones to the test part. The largest cluster is always in the
    training part.

    Args:
        molecules: ``Molecules`` or a list of SMILES.
        fractions: fractions of train, val and test, which add up to 1; the first two are maxima.

    Returns:
        The split, each part in ascending order, with the protocol "Butina 8:1:1".

    >>> butina_split(["CCCCCO", "c1ccccc1C", "CCCCCCO"], fractions=(0.7, 0.0, 0.3))
    Split(train: 2, val: 0, test: 1; Butina 7:0:3)
    """
    numbers = torch.tensor(butina_clusters(molecules), dtype=torch.int64)
    # Clusters of equal size are assigned in the order of their numbers.
    order = numbers.argsort(stable=True)
    protocol = f"Butina {ratio(fractions)}"
    split = split_by_groups(numbers[order].tolist(), fractions, protocol, largest_trains=True)
    train, val, test = (order[part].sort().values for part in (split.train, split.val, split.test))
    return Split(train, val, test, protocol)


def kennard_stone_split(
    molecules: Sequence[str] | Molecules, *, fractions: tuple[float, float, float] = EIGHT_ONE_ONE
) -> Split:
    """Split molecules by the algorithm of Kennard and Stone, which selects training molecules of
    all kinds.

    The training part begins with the two most distant molecules (1 - Tanimoto similarity of Morgan
    bits). The molecule with the largest distance to its nearest selected molecule is added next,
    and so on; the validation part continues in the same way, and the test part contains the
    remaining molecules, which are near selected ones. Ties are broken by the alphabetical order of
    the SMILES.

    Args:
        molecules: ``Molecules`` or a list of n SMILES.
        fractions: fractions of train, val and test, which add up to 1.

    Returns:
        The split, train and val in the order of the selection, with the protocol
        "Kennard-Stone 8:1:1".

    Raises:
        ValueError: RDKit cannot read a SMILES, or there are more than :data:`MOST_COMPARED`.
        ImportError: RDKit is not installed.

    Reference: Kennard and Stone, "Computer Aided Design of Experiments" (Technometrics 1969).

    >>> smiles = ["CCCCO", "CCCCCO", "c1ccccc1", "Cc1ccccc1"]
    >>> sorted(kennard_stone_split(smiles, fractions=(0.5, 0.25, 0.25)).train.tolist())
    [0, 2]
    """
    smiles = list(smiles_of(molecules))
    places = torch.tensor(sorted(range(len(smiles)), key=smiles.__getitem__), dtype=torch.int64)
    bits = _bits([smiles[i] for i in places.tolist()])
    train, val = cuts(len(bits), fractions)
    order = places[_most_distant_first(bits, train + val)]
    rest = torch.ones(len(bits), dtype=torch.bool)
    rest[order] = False
    test = rest.nonzero().flatten()
    return Split(order[:train], order[train:], test, f"Kennard-Stone {ratio(fractions)}")


def _most_distant_first(bits: Tensor, count: int) -> Tensor:
    """Return the indices of the ``count`` rows of bits, [n, d], that are selected first."""
    if count < 2 or len(bits) < 2:
        return torch.arange(min(count, len(bits)))
    farthest, pair = -1.0, (0, 1)
    for first in range(0, len(bits), BLOCK):
        distance = 1 - tanimoto(bits[first : first + BLOCK], bits)
        largest = float(distance.max())
        if largest > farthest:
            place = int(distance.argmax())
            farthest, pair = largest, (first + place // len(bits), place % len(bits))
    chosen = [*pair]
    nearest = torch.full((len(bits),), torch.inf)
    for i in chosen:
        nearest = nearest.minimum(_distances(bits, i))
    nearest[chosen] = -1.0
    while len(chosen) < count:
        chosen.append(int(nearest.argmax()))
        nearest = nearest.minimum(_distances(bits, chosen[-1]))
        nearest[chosen[-1]] = -1.0
    return torch.tensor(chosen[:count])


def _distances(bits: Tensor, i: int) -> Tensor:
    return 1 - tanimoto(bits[i : i + 1], bits)[0]


def _bits(smiles: Sequence[str]) -> Tensor:
    """Return the Morgan bits of the molecules, [n, 2048] float32."""
    if len(smiles) > MOST_COMPARED:
        raise ValueError(
            f"a split by similarity compares every pair of at most {MOST_COMPARED:,} molecules; "
            f"got {len(smiles):,}: use scaffold or random"
        )
    return morgan_fingerprints(smiles)
