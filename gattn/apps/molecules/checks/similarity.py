"""Pairs of similar molecules among the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["MOST", "similar_pairs"]

MOST = 20_000
"""Maximum number of molecules that are compared with one another. If there are more, a sample is
compared.
"""
BLOCK = 1024
"""Number of molecules that are compared with all others at once."""


def similar_pairs(
    molecules: Sequence[Any], threshold: float, *, seed: int = 0
) -> tuple[list[tuple[int, int, float]], int]:
    """Find the pairs of molecules whose Tanimoto similarity, computed on Morgan bits, reaches a
    threshold.

    Args:
        molecules: n RDKit molecules.
        threshold: the least similarity.
        seed: seed that samples the molecules if there are more than :data:`MOST`.

    Returns:
        Pairs (i, j, similarity) with i < j, and the number of molecules that were compared.

    >>> from rdkit.Chem import MolFromSmiles
    >>> similar_pairs([MolFromSmiles(text) for text in ("CCCCO", "OCCCC", "c1ccccc1")], 0.9)
    ([(0, 1, 1.0)], 3)
    """
    from rdkit.Chem import rdFingerprintGenerator

    places = np.arange(len(molecules))
    if len(places) > MOST:
        places = np.sort(np.random.default_rng(seed).choice(len(places), MOST, replace=False))
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = np.zeros((len(places), 2048), np.float32)
    for row, place in enumerate(places.tolist()):
        bits[row] = generator.GetFingerprintAsNumPy(molecules[place])
    sizes = bits.sum(1)
    pairs: list[tuple[int, int, float]] = []
    for begin in range(0, len(places), BLOCK):
        rows = bits[begin : begin + BLOCK]
        shared = rows @ bits[begin:].T
        union = sizes[begin : begin + BLOCK, None] + sizes[None, begin:] - shared
        similarity = shared / np.maximum(union, 1)
        for i, j in np.argwhere(similarity >= threshold).tolist():
            if i < j:
                first, second = (int(places[begin + k]) for k in (i, j))
                pairs.append((first, second, float(similarity[i, j])))
    return pairs, len(places)
