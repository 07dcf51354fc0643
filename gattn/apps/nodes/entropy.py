"""Entropy of attention weights, divided by the entropy of uniform weights."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["attention_entropy"]


def attention_entropy(edges: Tensor, weights: Tensor, nodes: int) -> Tensor:
    r"""Return the mean over nodes of the entropy of their attention weights, divided by the entropy
    of uniform weights.

    .. math:: \frac{-\sum_j \alpha_{ij} \log \alpha_{ij}}{\log d_i}

    Args:
        edges: [2, e] int64, with self-loops.
        weights: α [e, h], which sum to 1 over the edges into a node.
        nodes: number n of nodes.

    Returns:
        [h] float64, the mean over nodes into which at least two edges lead. It is 1 if all weights
        are uniform, 0 if every node attends to one neighbour only, and NaN if there is no such
        node.

    Example:
        >>> edges = torch.tensor([[0, 1], [0, 0]])
        >>> attention_entropy(edges, torch.tensor([[0.5, 1.0], [0.5, 0.0]]), 2)
        tensor([1., 0.], dtype=torch.float64)
    """
    degree = torch.bincount(edges[1], minlength=nodes)
    terms = torch.special.entr(weights.double())
    summed = terms.new_zeros(nodes, weights.shape[1]).index_add(0, edges[1], terms)
    several = degree > 1
    return (summed[several] / degree[several, None].double().log()).mean(0)
