"""The blocks of the Set Transformer on segments: sets of any size, without padding."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import LayerNorm, Linear, Module, Parameter

from gattn.functional import edge_softmax
from gattn.graph import Graph
from gattn.nn.attention.learned_query import learned_query_score, segment_attention
from gattn.nn.common.checks import check_at_least, check_heads_divide, check_probability
from gattn.nn.common.scores import DotScore, attend_with_score
from gattn.nn.common.segments import from_points


class MultiheadAttentionBlock(Module):
    r"""Attention over the edges of any graph, and a feed-forward layer, both residual (MAB).

    .. math::
        \mathrm{MAB}(x, y) = \mathrm{LN}(h + \mathrm{ReLU}(W h)), \qquad
        h = \mathrm{LN}(x + \mathrm{Multihead}(x, y, y))

    Parameters are named as in ``torch_geometric.nn.aggr.utils.MultiheadAttentionBlock``.

    Args:
        channels: features of x and y; divisible by heads.
        heads: heads, h, of c = channels / h channels.
        layer_norm: whether to normalise.
        dropout: probability of dropping a weight in training.

    Shapes:
        - **input:** x [n, channels], y [m, channels]; a :class:`gattn.Graph` from m sources to n
          destinations
        - **output:** [n, channels]

    Raises:
        ValueError: where heads do not divide channels, for a dropout that is no probability, or a
            wrong shape.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import MultiheadAttentionBlock
        >>> block = MultiheadAttentionBlock(8, heads=2)
        >>> block(torch.randn(3, 8), torch.randn(5, 8), graphs.bipartite([2, 1], [1, 4])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self, channels: int, heads: int = 1, layer_norm: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_probability("dropout", dropout)
        check_heads_divide(heads, channels=channels)
        self.channels = channels
        self.heads = heads
        self.dropout = dropout
        self.attn = _Projections(channels)
        self.lin = Linear(channels, channels)
        self.layer_norm1 = LayerNorm(channels) if layer_norm else None
        self.layer_norm2 = LayerNorm(channels) if layer_norm else None

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for module in (self.attn, self.lin, self.layer_norm1, self.layer_norm2):
            if module is not None:
                module.reset_parameters()

    def forward(self, x: Tensor, y: Tensor, graph: Graph, bias: Tensor | None = None) -> Tensor:
        """Attend from x to y.

        Args:
            x: [n, channels], the queries.
            y: [m, channels], the keys and values.
            graph: the edges from m sources to n destinations.
            bias: [e, 1] or [e, h], added to the scores.

        Returns:
            [n, channels]; a query without edges gets what follows from attention zero.
        """
        weights, biases = self.attn.split()
        query, key, value = (
            torch.nn.functional.linear(z, w, b).unflatten(-1, (self.heads, -1))
            for z, w, b in zip((x, y, y), weights, biases)
        )
        if bias is not None:
            bias = bias.to(query.dtype).expand(-1, self.heads)
        dropout = self.dropout if self.training else 0.0
        out, _ = attend_with_score(
            DotScore(query, key, attn_bias=bias), value, graph, dropout=dropout
        )
        return self._residual(x, out.flatten(1))

    def pool(self, seed: Tensor, y: Tensor, segments: Graph) -> Tensor:
        """Attend from k learned seeds to the rows of each segment.

        The seeds are the same for all segments, so that the scores are a thin product; the bias
        of the keys would shift all scores of a seed alike, and drops out.

        Args:
            seed: [k, channels].
            y: [n, channels].
            segments: one edge from each of n rows to its segment, of g.

        Returns:
            [g, k, channels].
        """
        weights, biases = self.attn.split()
        query = torch.nn.functional.linear(seed, weights[0], biases[0])
        score = learned_query_score(query, weights[1].unflatten(0, (self.heads, -1)), y)
        value = torch.nn.functional.linear(y, weights[2], biases[2])
        value = value.unflatten(-1, (self.heads, -1))
        dropout = self.dropout if self.training else 0.0
        pooled = segment_attention(score, value, segments, dropout)
        return self._residual(seed, pooled.view(segments.num_dst, *seed.shape))

    def pool_weights(self, seed: Tensor, y: Tensor, segments: Graph) -> Tensor:
        """Weights of :meth:`pool`, before dropout: [n, k, h]."""
        weights, biases = self.attn.split()
        query = torch.nn.functional.linear(seed, weights[0], biases[0])
        score = learned_query_score(query, weights[1].unflatten(0, (self.heads, -1)), y)
        return edge_softmax(score, segments).view(-1, seed.shape[0], self.heads)

    def _residual(self, x: Tensor, attended: Tensor) -> Tensor:
        out = x + self.attn.out_proj(attended)
        if self.layer_norm1 is not None:
            out = self.layer_norm1(out)
        out = out + self.lin(out).relu()
        return out if self.layer_norm2 is None else self.layer_norm2(out)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.channels}, heads={self.heads}, "
            f"layer_norm={self.layer_norm1 is not None}, dropout={self.dropout})"
        )


class SetAttentionBlock(Module):
    r"""Self-attention over the edges of a graph (SAB): a set's complete graph, or any other.

    .. math:: \mathrm{SAB}(x) = \mathrm{MAB}(x, x)

    Args:
        channels: features of x; divisible by heads.
        heads: heads.
        layer_norm: whether to normalise.
        dropout: probability of dropping a weight in training.

    Shapes:
        - **input:** x [n, channels]; a :class:`gattn.Graph` among n nodes
        - **output:** [n, channels]

    Raises:
        ValueError: as :class:`MultiheadAttentionBlock`.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import SetAttentionBlock
        >>> SetAttentionBlock(8, heads=2)(torch.randn(5, 8), graphs.complete([2, 3])).shape
        torch.Size([5, 8])
    """

    def __init__(
        self, channels: int, heads: int = 1, layer_norm: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.mab = MultiheadAttentionBlock(channels, heads, layer_norm, dropout)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.mab.reset_parameters()

    def forward(self, x: Tensor, graph: Graph, bias: Tensor | None = None) -> Tensor:
        """Attend over the graph's edges.

        Args:
            x: [n, channels].
            graph: the edges among n nodes.
            bias: [e, 1] or [e, h], added to the scores.

        Returns:
            [n, channels].
        """
        return self.mab(x, x, graph, bias)


class InducedSetAttentionBlock(Module):
    r"""Self-attention over sets through a few learned points, linear in the sets' sizes (ISAB).

    .. math:: \mathrm{ISAB}(x) = \mathrm{MAB}(x, h), \qquad h = \mathrm{MAB}(I, x)

    Args:
        channels: features of x; divisible by heads.
        num_induced_points: learned points I per set.
        heads: heads.
        layer_norm: whether to normalise.
        dropout: probability of dropping a weight in training.

    Shapes:
        - **input:** x [n, channels]; the graph of one edge from each of n rows to its set
        - **output:** [n, channels]

    Raises:
        ValueError: as :class:`MultiheadAttentionBlock`, or for num_induced_points < 1.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import InducedSetAttentionBlock
        >>> segments = graphs.pooling_graph(torch.tensor([0, 0, 1]))
        >>> InducedSetAttentionBlock(8, 4, heads=2)(torch.randn(3, 8), segments).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        channels: int,
        num_induced_points: int,
        heads: int = 1,
        layer_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_at_least(0, channels=channels)
        check_at_least(1, num_induced_points=num_induced_points)
        self.ind = Parameter(torch.empty(1, num_induced_points, channels))
        self.mab1 = MultiheadAttentionBlock(channels, heads, layer_norm, dropout)
        self.mab2 = MultiheadAttentionBlock(channels, heads, layer_norm, dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        torch.nn.init.xavier_uniform_(self.ind)
        self.mab1.reset_parameters()
        self.mab2.reset_parameters()

    def forward(self, x: Tensor, segments: Graph) -> Tensor:
        """Attend within each segment.

        Args:
            x: [n, channels].
            segments: one edge from each of n rows to the segment that holds it.

        Returns:
            [n, channels].
        """
        induced = self.mab1.pool(self.ind[0], x, segments)
        points = from_points(segments, induced.shape[1])
        return self.mab2(x, induced.flatten(0, 1), points)


class PoolingByMultiheadAttention(Module):
    r"""A summary of each set by learned seeds that attend over it (PMA).

    .. math:: \mathrm{PMA}(x) = \mathrm{MAB}(S, \mathrm{ReLU}(W x))

    Args:
        channels: features of x; divisible by heads.
        num_seed_points: learned seeds S.
        heads: heads.
        layer_norm: whether to normalise.
        dropout: probability of dropping a weight in training.

    Shapes:
        - **input:** x [n, channels]; the graph of one edge from each of n rows to its set, of g
        - **output:** [g, num_seed_points, channels]; for an empty set what follows from attention
          zero, the same for all

    Raises:
        ValueError: as :class:`MultiheadAttentionBlock`, or for num_seed_points < 1.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import PoolingByMultiheadAttention
        >>> segments = graphs.pooling_graph(torch.tensor([0, 0, 1]))
        >>> PoolingByMultiheadAttention(8, 2, heads=4)(torch.randn(3, 8), segments).shape
        torch.Size([2, 2, 8])
    """

    def __init__(
        self,
        channels: int,
        num_seed_points: int = 1,
        heads: int = 1,
        layer_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_at_least(0, channels=channels)
        check_at_least(1, num_seed_points=num_seed_points)
        self.lin = Linear(channels, channels)
        self.seed = Parameter(torch.empty(1, num_seed_points, channels))
        self.mab = MultiheadAttentionBlock(channels, heads, layer_norm, dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.lin.reset_parameters()
        torch.nn.init.xavier_uniform_(self.seed)
        self.mab.reset_parameters()

    def forward(self, x: Tensor, segments: Graph) -> Tensor:
        """Summarise each segment.

        Args:
            x: [n, channels].
            segments: one edge from each of n rows to the segment that holds it, of g.

        Returns:
            [g, num_seed_points, channels].
        """
        return self.mab.pool(self.seed[0], self.lin(x).relu(), segments)

    def attention_weights(self, x: Tensor, segments: Graph) -> Tensor:
        """Weight of each row in its segment's summary, before dropout.

        Args:
            x: [n, channels].
            segments: one edge from each of n rows to the segment that holds it, of g.

        Returns:
            [n, num_seed_points, h]; for each seed and head they sum to one over each segment.
        """
        return self.mab.pool_weights(self.seed[0], self.lin(x).relu(), segments)


class _Projections(Module):
    """W_q, W_k, W_v and W_o, named and drawn as in torch.nn.MultiheadAttention."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.in_proj_weight = Parameter(torch.empty(3 * channels, channels))
        self.in_proj_bias = Parameter(torch.empty(3 * channels))
        self.out_proj = Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.in_proj_weight)
        torch.nn.init.zeros_(self.in_proj_bias)
        self.out_proj.reset_parameters()
        torch.nn.init.zeros_(self.out_proj.bias)

    def split(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The weights and the biases of q, k and v."""
        return (
            self.in_proj_weight.unflatten(0, (3, -1)).unbind(0),
            self.in_proj_bias.unflatten(0, (3, -1)).unbind(0),
        )
