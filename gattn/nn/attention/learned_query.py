"""Attention by queries that belong to the model: the score of a row is a thin product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.functional import edge_softmax, gat_attention
from gattn.graph import Graph
from gattn.nn.common.recording import is_recording, record

FEW = 12
"""Summing before projecting pays where a query and head comes with at least so many channels."""


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


def learned_query_pool(
    score: Tensor, x: Tensor, value_weight: Tensor, segments: Graph, dropout: float
) -> Tensor:
    r"""Sum the values of each segment with the softmax of the scores over that segment.

    .. math:: o_{gqh} = \sum_{j \in g} \alpha_{jqh} W_v^{(h)} x_j
        = W_v^{(h)} \sum_{j \in g} \alpha_{jqh} x_j

    The second form projects k rows per segment instead of every row, and sums k h times the
    width of x: it is taken where the queries are few.

    Args:
        score: s, [n, k * h], query by query.
        x: [n, d].
        value_weight: W_v, [h, c, d].
        segments: one edge from each of n rows to the one of g segments that holds it.
        dropout: probability of dropping a weight; applied as given.

    Returns:
        [g, k, h * c]; zeros for an empty segment.
    """
    heads, channels, _ = value_weight.shape
    if FEW * score.shape[1] <= heads * channels:
        rows = x.to(score.dtype).unsqueeze(1)  # as autocast would have the projection read them
        pooled = segment_attention(score, rows, segments, dropout)
        pooled = pooled.unflatten(1, (score.shape[1] // heads, heads))
        return torch.einsum("gkhd,hcd->gkhc", pooled, value_weight).flatten(2)
    value = F.linear(x, value_weight.flatten(0, 1)).unflatten(-1, (heads, channels))
    pooled = segment_attention(score, value, segments, dropout)
    return pooled.view(segments.num_dst, score.shape[1] // heads, heads * channels)


def segment_attention(score: Tensor, value: Tensor, segments: Graph, dropout: float) -> Tensor:
    """Softmax of scores [n, h] over each segment, and the sums of values [n, h_v, c] with it.

    Returns:
        [g, h, c]; zeros for an empty segment.
    """
    if is_recording():
        record(edge_softmax(score, segments), segments)
    nothing = score.new_zeros(segments.num_dst, score.shape[1])
    return gat_attention(nothing, score, value, segments, negative_slope=1.0, dropout=dropout)
