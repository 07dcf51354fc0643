"""Comparison of the count vectors of molecules, and search for the leaves of decision trees.

The C++ kernels and the PyTorch references in this file give the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.kernels import cpu


class CountTable(NamedTuple):
    """Count vectors of m molecules, stored by column, to which other molecules are compared.

    Attributes:
        by_column: [d, m] uint8, contiguous.
        totals: [m] float32, the sum of the counts of each molecule.
    """

    by_column: Tensor
    totals: Tensor

    @classmethod
    def of(cls, counts: Tensor) -> CountTable:
        """Return the table of count vectors [m, d] uint8."""
        return cls(counts.t().contiguous(), counts.sum(1, dtype=torch.float32))

    def tanimoto(self, counts: Tensor) -> Tensor:
        r"""Compute the Tanimoto similarity of n count vectors to the m vectors of the table.

        .. math:: T_{ij} = \frac{\sum_d \min(a_{id}, b_{jd})}{\sum_d \max(a_{id}, b_{jd})}

        Args:
            counts: [n, d] uint8.

        Returns:
            [n, m] float32 in 0..1; two vectors of zeros have similarity 0.

        Raises:
            ValueError: the counts have another number of columns or another dtype.

        Reference: Ralaivola et al., "Graph kernels for chemical informatics" (Neural Networks
        2005), where it is called the MinMax kernel.

        Example:
            >>> table = CountTable.of(torch.tensor([[1, 1, 0], [0, 0, 3]], dtype=torch.uint8))
            >>> table.tanimoto(torch.tensor([[2, 1, 0]], dtype=torch.uint8))
            tensor([[0.6667, 0.0000]])
        """
        size = len(self.by_column)
        if counts.dim() != 2 or counts.shape[1] != size or counts.dtype != torch.uint8:
            raise ValueError(
                f"counts must be [n, {size}] uint8; got {(*counts.shape,)} {counts.dtype}"
            )
        if not cpu.serves(counts.device):
            return self.tanimoto_reference(counts)
        out = torch.empty(len(counts), len(self.totals))
        sizes = len(counts), size, len(self.totals)
        cpu.launcher("count_tanimoto", _COUNT_TANIMOTO)([counts, *self, out, *sizes])
        return out

    def tanimoto_reference(self, counts: Tensor) -> Tensor:
        """Compute the result of :meth:`tanimoto` with PyTorch's operators.

        One row of min(count, b_jd) is computed for each pair (d, count) that occurs in the counts,
        and the rows of each molecule are added. Most counts are zero, so a molecule has about 40
        rows instead of 2048.
        """
        rows, columns = counts.nonzero().unbind(1)
        # With several threads, embedding_bag fails for rows of width 0.
        if not len(rows) or not len(self.totals):
            return torch.zeros(len(counts), len(self.totals))
        pairs, place = (columns * 256 + counts[rows, columns]).unique(return_inverse=True)
        count = (pairs % 256).to(torch.uint8)[:, None]
        least = torch.minimum(self.by_column[pairs // 256], count).float()
        starts = torch.searchsorted(rows, torch.arange(len(counts)))
        shared = F.embedding_bag(place, least, starts, mode="sum")
        total = counts.sum(1, dtype=torch.float32)[:, None]
        return shared.div_((total + self.totals).sub_(shared).clamp_(min=1))


class TreeNodes(NamedTuple):
    """Nodes of T decision trees in a single list. The left child of a node is the next node.

    Attributes:
        feature: [m] int32, the feature that an inner node compares; -1 for a leaf.
        threshold: [m] float32; a row with at most this value continues on the left.
        right: [m] int32, the right child.
        roots: [T] int64.
    """

    feature: Tensor
    threshold: Tensor
    right: Tensor
    roots: Tensor


def tree_leaves(nodes: TreeNodes, x: Tensor) -> Tensor:
    """Return the leaf of each of k rows in each of T trees, as an index of the nodes: [k, T] int64.

    Args:
        nodes: nodes of the trees.
        x: [k, d] float32 features; NaN continues on the right.

    Raises:
        ValueError: if x is on a CPU and not float32.
    """
    trees = len(nodes.roots)
    # Without features, every root is a leaf, and the kernel would read a feature of the rows.
    if not x.shape[1]:
        return nodes.roots.repeat(len(x), 1)
    if not cpu.serves(x.device):
        return _leaves_reference(nodes, x).view(len(x), trees)
    if x.dtype != torch.float32:
        raise ValueError(f"x must be float32; got {x.dtype}")
    out = torch.empty(len(x), trees, dtype=torch.int64)
    cpu.launcher("tree_leaves", _TREE_LEAVES)([x, *nodes, out, *x.shape, trees])
    return out


def _leaves_reference(nodes: TreeNodes, x: Tensor) -> Tensor:
    """Compute the leaves of all pairs of a row of ``x`` [k, d] and a tree, [k * T], step by step
    from the roots. A pair has the number row * T + tree.
    """
    trees, width, flat = len(nodes.roots), x.shape[1], x.flatten()
    place = nodes.roots.repeat(len(x), 1).flatten()
    active = (nodes.feature[place] >= 0).nonzero()[:, 0]
    while len(active):
        node = place[active]
        seen = flat[active // trees * width + nodes.feature[node]]
        node = torch.where(seen <= nodes.threshold[node], node + 1, nodes.right[node].long())
        place[active] = node
        active = active[nodes.feature[node] >= 0]
    return place


_COUNT_TANIMOTO = "counts by_column totals out num_queries num_columns num_rows"
_TREE_LEAVES = "x feature threshold right roots out num_molecules width num_trees"
