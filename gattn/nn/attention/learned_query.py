"""Attention with learned queries that does not compute the keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from gattn.functional import edge_softmax, gat_attention
from gattn.graph import Graph
from gattn.nn.common.recording import is_recording, record

MIN_CHANNELS_PER_SCORE = 12
"""Rows are summed before they are projected if there are at least this number of channels per
score.
"""


def learned_query_score(query: Tensor, key_weight: Tensor, x: Tensor) -> Tensor:
    r"""Compute the score of every row of x, for each learned query and head.

    .. math:: s_{jqh} = \frac{q_{qh} \cdot W_k^{(h)} x_j}{\sqrt{c}}
        = \Bigl(\frac{W_k^{(h)\top} q_{qh}}{\sqrt{c}}\Bigr) \cdot x_j

    The second form does not need the keys :math:`W_k x_j`.

    Args:
        query: learned queries q, [k, h * c].
        key_weight: projection of the keys, W_k [h, c, d].
        x: features of the rows, [n, d].

    Returns:
        The scores [n, k * h], query by query.
    """
    heads, channels, _ = key_weight.shape
    folded = torch.einsum("khc,hcd->khd", query.view(-1, heads, channels), key_weight)
    return F.linear(x, folded.flatten(0, 1) * channels**-0.5)


def learned_query_pool(
    score: Tensor, x: Tensor, value_weight: Tensor, segments: Graph, dropout: float
) -> Tensor:
    r"""Compute weighted sums of the values in each segment; the weights are the softmax of the
    scores, and are passed to the active recordings.

    .. math:: o_{gqh} = \sum_{j \in g} \alpha_{jqh} W_v^{(h)} x_j
        = W_v^{(h)} \sum_{j \in g} \alpha_{jqh} x_j

    The second form projects k rows per segment instead of every row, but computes k * h sums of
    rows of x. It is faster if there are few queries, and is then used.

    Args:
        score: scores s [n, k * h], query by query.
        x: features of the rows, [n, d].
        value_weight: projection of the values, W_v [h, c, d].
        segments: graph with one edge from each of n rows to its segment, of g segments.
        dropout: dropout probability of the attention weights; also applied in evaluation, and drawn
            from torch's generator.

    Returns:
        The weighted sums [g, k, h * c]; zeros for an empty segment.
    """
    heads, channels, _ = value_weight.shape
    if MIN_CHANNELS_PER_SCORE * score.shape[1] <= heads * channels:
        # Under autocast, score has the dtype of a projection, so x gets the same dtype.
        rows = x.to(score.dtype).unsqueeze(1)
        pooled = segment_attention(score, rows, segments, dropout)
        pooled = pooled.unflatten(1, (score.shape[1] // heads, heads))
        return torch.einsum("gkhd,hcd->gkhc", pooled, value_weight).flatten(2)
    value = F.linear(x, value_weight.flatten(0, 1)).unflatten(-1, (heads, channels))
    pooled = segment_attention(score, value, segments, dropout)
    return pooled.view(segments.num_dst, score.shape[1] // heads, heads * channels)


def segment_attention(score: Tensor, value: Tensor, segments: Graph, dropout: float) -> Tensor:
    """Compute weighted sums of the values in each segment, and record the attention weights.
    Dropout draws from torch's generator. Raises the errors of :func:`gat_attention`.

    Args:
        score: scores of the rows, [n, h].
        value: values of the rows, [n, h_v, c]; h is a multiple of h_v.
        segments: graph with one edge from each of n rows to one of g segments.
        dropout: dropout probability of the attention weights.

    Returns:
        The weighted sums [g, h, c]; zeros for an empty segment.
    """
    if is_recording():
        record(edge_softmax(score, segments), segments)
    query_score = score.new_zeros(segments.num_dst, score.shape[1])
    return gat_attention(query_score, score, value, segments, negative_slope=1.0, dropout=dropout)
