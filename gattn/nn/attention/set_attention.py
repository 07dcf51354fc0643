"""Blocks of the Set Transformer for sets of different sizes, without padding."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.aggr import utils as pyg

from gattn.compat.pyg import Twin, retyped
from gattn.functional import edge_softmax
from gattn.graph import Graph
from gattn.nn.attention.learned_query import learned_query_score, segment_attention
from gattn.nn.common.checks import check_at_least, check_heads_divide, check_probability
from gattn.nn.common.scores import attend_with_score, dot_product_score
from gattn.nn.common.segments import from_points


class SetModule(Twin):
    """Base class of blocks, and of readouts that consist of blocks, with PyG's constructor."""

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for a dropout that is not a probability, for heads that do not divide
        the channels, for less than one query or point, or for a negative number of blocks; raise
        TypeError for a dropout that is not a number.
        """
        check_probability("dropout", arguments["dropout"])
        check_heads_divide(arguments["heads"], channels=arguments["channels"])
        counts = {n: v for n, v in arguments.items() if n == "k" or n.endswith("_points")}
        check_at_least(1, **counts)
        check_at_least(0, **{n: v for n, v in arguments.items() if n.endswith("_blocks")})

    def _complete(self, arguments: dict[str, Any]) -> None:
        use_blocks(cast(Module, self))


class MultiheadAttentionBlock(pyg.MultiheadAttentionBlock, SetModule):
    r"""Multihead attention block (MAB): attention along the edges of a graph, then a feed-forward
    layer.

    .. math::
        \mathrm{MAB}(x, y) = \mathrm{LN}(h + \mathrm{ReLU}(W h)), \qquad
        h = \mathrm{LN}(x + \mathrm{Multihead}(x, y, y))

    Both parts have a residual connection. Parameters are named as in
    ``torch_geometric.nn.aggr.utils.MultiheadAttentionBlock``.

    Args:
        channels: number of features of x and y; must be divisible by heads.
        heads: number of heads, h, each with c = channels / h channels.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.
        device: device of the parameters.

    Shapes:
        - **input:** x [n, channels], y [m, channels]; a :class:`gattn.Graph` from m sources to n
          destinations
        - **output:** [n, channels]

    Raises:
        ValueError: if heads does not divide channels, for a dropout that is not a probability, or
            if the numbers of rows do not fit to the graph.
        RuntimeError: by torch, if an input has another width or dtype than the block.

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

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        self.attn.out_proj.reset_parameters()
        super().reset_parameters()

    def forward(self, x: Tensor, y: Tensor, graph: Graph, bias: Tensor | None = None) -> Tensor:
        """Apply the attention of the rows of x to the rows of y, and then the feed-forward layer,
        in training with dropout. The attention weights are passed to the active recordings.

        Args:
            x: queries, [n, channels].
            y: keys and values, [m, channels].
            graph: the edges from m sources to n destinations.
            bias: score bias [e, 1] or [e, h].

        Returns:
            The output features [n, channels]; for a query without edges the weighted sum is zero.

        Raises:
            ValueError: if the numbers of rows do not fit to the graph.
            RuntimeError: by torch, if x or y has another width or dtype than the block.
        """
        weights, biases = _projections(self.attn)
        query, key, value = (
            torch.nn.functional.linear(z, w, b).unflatten(-1, (self.heads, -1))
            for z, w, b in zip((x, y, y), weights, biases)
        )
        if bias is not None:
            bias = bias.to(query.dtype).expand(-1, self.heads)
        dropout = self.dropout if self.training else 0.0
        out, _ = attend_with_score(
            dot_product_score(query, key, attn_bias=bias), value, graph, dropout=dropout
        )
        return self._residual(x, out.flatten(1))

    def pool(self, seed: Tensor, y: Tensor, segments: Graph) -> Tensor:
        """Compute the attention of k learned seeds to the rows of each segment, in training with
        dropout of the weights, which are passed to the active recordings.

        The seeds are the same for all segments, so the scores are computed without forming the
        keys. The bias of the keys is left out, because it shifts all scores of a seed by the same
        number, which does not change the softmax.

        Args:
            seed: learned seeds, [k, channels].
            y: rows of the segments, [n, channels].
            segments: one edge from each of n rows to its segment, of g.

        Returns:
            The results of the seeds for each of g segments, [g, k, channels].

        Raises:
            ValueError: if ``y`` has not one row for each source of ``segments``.
            RuntimeError: by torch, if an input has another width or dtype than the block.
        """
        weights, biases = _projections(self.attn)
        query = torch.nn.functional.linear(seed, weights[0], biases[0])
        score = learned_query_score(query, weights[1].unflatten(0, (self.heads, -1)), y)
        value = torch.nn.functional.linear(y, weights[2], biases[2])
        value = value.unflatten(-1, (self.heads, -1))
        dropout = self.dropout if self.training else 0.0
        pooled = segment_attention(score, value, segments, dropout)
        return self._residual(seed, pooled.view(segments.num_dst, *seed.shape))

    def pool_weights(self, seed: Tensor, y: Tensor, segments: Graph) -> Tensor:
        """Return the attention weights of :meth:`pool` before dropout, [n, k, h]. The arguments and
        errors are those of :meth:`pool`.
        """
        weights, biases = _projections(self.attn)
        query = torch.nn.functional.linear(seed, weights[0], biases[0])
        score = learned_query_score(query, weights[1].unflatten(0, (self.heads, -1)), y)
        return edge_softmax(score, segments).view(-1, seed.shape[0], self.heads)

    def _residual(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the outputs [..., channels]: the rows x plus the projected attention, both of this
        shape or one that broadcasts to it, then a feed-forward layer with a residual connection,
        each normalised if ``layer_norm`` is True.
        """
        out = x + self.attn.out_proj(attended)
        if self.layer_norm1 is not None:
            out = self.layer_norm1(out)
        out = out + self.lin(out).relu()
        return out if self.layer_norm2 is None else self.layer_norm2(out)


class SetAttentionBlock(pyg.SetAttentionBlock, SetModule):
    r"""Set attention block (SAB): self-attention along the edges of a graph.

    .. math:: \mathrm{SAB}(x) = \mathrm{MAB}(x, x)

    Args:
        channels: number of features of x; must be divisible by heads.
        heads: number of heads, h.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.

    Shapes:
        - **input:** x [n, channels]; a :class:`gattn.Graph` among n nodes
        - **output:** [n, channels]

    Raises:
        ValueError: as for :class:`MultiheadAttentionBlock`.

    Reference:
        Lee et al., "Set Transformer" (ICML 2019).

    Example:
        >>> import torch
        >>> from gattn import graphs
        >>> from gattn.nn import SetAttentionBlock
        >>> SetAttentionBlock(8, heads=2)(torch.randn(5, 8), graphs.complete([2, 3])).shape
        torch.Size([5, 8])
    """

    mab: MultiheadAttentionBlock

    def forward(self, x: Tensor, graph: Graph, bias: Tensor | None = None) -> Tensor:
        """Compute self-attention along the edges of the graph, in training with dropout. The
        attention weights are passed to the active recordings.

        Args:
            x: node features, [n, channels].
            graph: the edges among n nodes.
            bias: score bias [e, 1] or [e, h].

        Returns:
            The new node features, [n, channels].

        Raises:
            ValueError: as for :meth:`MultiheadAttentionBlock.forward`.
            RuntimeError: as for :meth:`MultiheadAttentionBlock.forward`.
        """
        return self.mab(x, x, graph, bias)


class InducedSetAttentionBlock(pyg.InducedSetAttentionBlock, SetModule):
    r"""Induced set attention block (ISAB): self-attention within sets. Its cost is linear in their
    sizes.

    .. math:: \mathrm{ISAB}(x) = \mathrm{MAB}(x, h), \qquad h = \mathrm{MAB}(I, x)

    Args:
        channels: number of features of x; must be divisible by heads.
        num_induced_points: number of learned points I, through which the rows of each set exchange
            information.
        heads: number of heads, h.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.

    Shapes:
        - **input:** x [n, channels]; the graph with one edge from each of n rows to its set
        - **output:** [n, channels]

    Raises:
        ValueError: as for :class:`MultiheadAttentionBlock`, or for num_induced_points < 1.

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

    mab1: MultiheadAttentionBlock
    mab2: MultiheadAttentionBlock

    def forward(self, x: Tensor, segments: Graph) -> Tensor:
        """Compute the attention within each segment, in training with dropout. The attention
        weights are passed to the active recordings.

        Args:
            x: features of the rows, [n, channels].
            segments: graph with one edge from each of n rows to its segment.

        Returns:
            The new features of the rows, [n, channels].

        Raises:
            ValueError: as for :meth:`MultiheadAttentionBlock.pool`.
            RuntimeError: as for :meth:`MultiheadAttentionBlock.pool`.
        """
        induced = self.mab1.pool(self.ind[0], x, segments)
        points = from_points(segments, induced.shape[1])
        return self.mab2(x, induced.flatten(0, 1), points)


class PoolingByMultiheadAttention(pyg.PoolingByMultiheadAttention, SetModule):
    r"""Pooling by multihead attention (PMA): learned seeds attend to the rows of each set.

    .. math:: \mathrm{PMA}(x) = \mathrm{MAB}(S, \mathrm{ReLU}(W x))

    Args:
        channels: number of features of x; must be divisible by heads.
        num_seed_points: number of learned seeds S.
        heads: number of heads, h.
        layer_norm: whether to apply layer normalisation.
        dropout: dropout probability of the attention weights in training.

    Shapes:
        - **input:** x [n, channels]; the graph with one edge from each of n rows to its set, of g
        - **output:** [g, num_seed_points, channels]; for an empty set the weighted sum is zero,
          and the result depends on the parameters only

    Raises:
        ValueError: as for :class:`MultiheadAttentionBlock`, or for num_seed_points < 1.

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

    mab: MultiheadAttentionBlock

    def forward(self, x: Tensor, segments: Graph) -> Tensor:
        """Compute the pooled rows of each segment, in training with dropout. The attention weights
        are passed to the active recordings.

        Args:
            x: features of the rows, [n, channels].
            segments: graph with one edge from each of n rows to one of g segments.

        Returns:
            The results of the seeds for each segment, [g, num_seed_points, channels].

        Raises:
            ValueError: as for :meth:`MultiheadAttentionBlock.pool`.
            RuntimeError: as for :meth:`MultiheadAttentionBlock.pool`.
        """
        return self.mab.pool(self.seed[0], self.lin(x).relu(), segments)

    def attention_weights(self, x: Tensor, segments: Graph) -> Tensor:
        """Return the attention weight of each row in its segment, before dropout.

        Args:
            x: features of the rows, [n, channels].
            segments: graph with one edge from each of n rows to one of g segments.

        Returns:
            The weights [n, num_seed_points, h]; for each seed and head they sum to one over each
            segment.

        Raises:
            ValueError: as for :meth:`MultiheadAttentionBlock.pool`.
            RuntimeError: as for :meth:`MultiheadAttentionBlock.pool`.
        """
        return self.mab.pool_weights(self.seed[0], self.lin(x).relu(), segments)


def use_blocks(module: Module) -> None:
    """Replace PyG's blocks inside a module, at any depth, by those of this file, in place and with
    the same parameters.
    """
    for name, child in module.named_children():
        if type(child) in _BLOCKS:
            child = retyped(child, _BLOCKS[type(child)])
            setattr(module, name, child)
        use_blocks(child)


_BLOCKS: dict[type[Module], type[Module]] = {
    pyg.MultiheadAttentionBlock: MultiheadAttentionBlock,
    pyg.SetAttentionBlock: SetAttentionBlock,
    pyg.PoolingByMultiheadAttention: PoolingByMultiheadAttention,
    ModuleList: ModuleList,  # a copy, so that a converted module of PyG does not change
}


def _projections(attn: Any) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the weights and the biases of the projections of queries, keys and values."""
    return attn.in_proj_weight.chunk(3), attn.in_proj_bias.chunk(3)
