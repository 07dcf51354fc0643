"""Attention by queries that belong to the model: the score of a row is a thin product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.functional import additive_attention
from gattn.graph import Graph


def learned_query_score(query: Tensor, key_weight: Tensor, x: Tensor) -> Tensor:
    r"""Score every row of x for every learned query and head, without forming the keys.

    .. math:: s_{jqh} = \frac{q_{qh} \cdot W_k^{(h)} x_j}{\sqrt{c}}
        = \Bigl(\frac{W_k^{(h)\top} q_{qh}}{\sqrt{c}}\Bigr) \cdot x_j

    Args:
        query: q, [k, h * c].
        key_weight: W_k, [h, c, d].
        x: [n, d].

    Returns:
        [n, k * h], query by query.
    """
    heads, channels, _ = key_weight.shape
    folded = torch.einsum("khc,hcd->khd", query.view(-1, heads, channels), key_weight)
    return F.linear(x, folded.flatten(0, 1) * channels**-0.5)


def learned_query_pool(score: Tensor, value: Tensor, segments: Graph, dropout: float) -> Tensor:
    r"""Sum the values of each segment with the softmax of the scores over that segment.

    .. math:: o_{gqh} = \sum_{j \in g} \mathrm{softmax}_{j \in g}(s_{jqh})\, v_{jh}

    Args:
        score: s, [n, k * h], query by query.
        value: v, [n, h, c].
        segments: one edge from each of n rows to the one of g segments that holds it.
        dropout: probability of dropping a weight; applied as given.

    Returns:
        [g, k, h * c]; zeros for an empty segment.
    """
    nothing = score.new_zeros(segments.num_dst, score.shape[1])
    pooled = additive_attention(
        nothing, score, value, segments, negative_slope=1.0, dropout=dropout
    )
    queries = score.shape[1] // value.shape[1]
    return pooled.view(segments.num_dst, queries, value.shape[1] * value.shape[2])
