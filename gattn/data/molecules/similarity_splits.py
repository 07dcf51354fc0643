"""Splits of molecules by the Tanimoto similarity of their Morgan fingerprints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.fingerprints import morgan_fingerprints, tanimoto
from gattn.data.molecules.smiles import need_rdkit
from gattn.data.splits import EIGHT_ONE_ONE, Split, ratio, split_by_groups

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
        n numbers. The clusters are numbered from 0 in descending order of size; no molecules give
        an empty list.

    Raises:
        ValueError: RDKit cannot read a SMILES, or there are more than :data:`MOST_COMPARED`.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

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

    Raises:
        ValueError: RDKit cannot read a SMILES, there are too many molecules to compare all pairs,
            or the fractions are invalid.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

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


def _bits(smiles: Sequence[str]) -> Tensor:
    """Return the Morgan bits of the molecules, [n, 2048] float32. Raises ValueError if there are
    too many to compare all pairs, and the errors of :func:`morgan_fingerprints`.
    """
    if len(smiles) > MOST_COMPARED:
        raise ValueError(
            f"a split by similarity compares every pair of at most {MOST_COMPARED:,} molecules; "
            f"got {len(smiles):,}: use scaffold or random"
        )
    return morgan_fingerprints(smiles)
