"""SGFormer's attention among all nodes of a graph, at a cost linear in their number."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Linear, Module

from gattn.functional import edge_dot
from gattn.kernels.precision import acc_dtype
from gattn.nn.attention.sets import Sets, read_sets
from gattn.nn.common.checks import check_at_least, check_heads_divide
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import within
from gattn.ops.attention.linear import feature_sums

_SMALLEST = 1e-6
"""In place of zeros, so that every vector has a length."""


class SGFormerAttention(Module):
    r"""Attention of every node to all nodes of its graph, by cosines, with a term for itself.

    .. math::
        \mathrm{out}_i = \frac{1}{h} \sum_{\mathrm{heads}}
        \frac{n\, v_i + \sum_{j \in g(i)} (\hat q_i \cdot \hat k_j)\, v_j}
        {n + \sum_{j \in g(i)} \hat q_i \cdot \hat k_j}, \qquad
        \hat q = \frac{q}{\lVert q \rVert}, \quad \hat k = \frac{k}{\lVert k \rVert}

    with n, the number of nodes of the graph. Takes the arguments and the parameters of
    ``torch_geometric.nn.attention.SGFormerAttention``, and gives its outputs for a single graph.
    Of several graphs, PyG's counts padded rows among the keys and in n, so that what it gives for
    one depends on the largest; here each gets what it gets alone.

    Args:
        channels: features of x, d.
        heads: number of heads, h; they are averaged, and divide channels.
        head_channels: channels of each head and of the result, c; None means channels / heads.
        qkv_bias: whether the projections of q, k and v have a bias.

    Shapes:
        - **input:** x [n, d], with index [n] or ptr [g + 1] where there are several graphs; or as
          PyG's, padded, x [g, n, d] with a mask [g, n] of the rows that are nodes
        - **output:** [n, c]; or [g, n, c], zeros where there is no node

    Raises:
        TypeError: for other than tensors, or dtypes that differ.
        ValueError: for heads that do not divide channels, or a wrong shape.

    Reference:
        Wu et al., "SGFormer: simplifying and empowering transformers for large-graph
        representations" (NeurIPS 2023).

    Example:
        >>> import torch
        >>> from gattn.nn import SGFormerAttention
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 1, 1])
        >>> SGFormerAttention(16, head_channels=8)(x, index=batch, dim_size=2).shape
        torch.Size([5, 8])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        head_channels: int | None = 64,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        check_heads_divide(heads, channels=channels)
        check_at_least(0, head_channels=head_channels)
        self.heads = heads
        self.head_channels = channels // heads if head_channels is None else head_channels
        width = self.heads * self.head_channels
        self.q = Linear(channels, width, bias=qkv_bias)
        self.k = Linear(channels, width, bias=qkv_bias)
        self.v = Linear(channels, width, bias=qkv_bias)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for linear in (self.q, self.k, self.v):
            linear.reset_parameters()

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Attend within each graph.

        Args:
            x: the nodes, see Shapes.
            mask: which rows of a padded x are nodes; None for all.
            index: [n], the graph of each node, in any order; None for a single graph.
            ptr: [g + 1], where each graph's nodes begin, instead of index.
            dim_size: number of graphs. Without it ``index.max() + 1`` is read from the device.

        Returns:
            The mean of the heads, see Shapes.
        """
        sets = read_sets(x, mask, index, ptr, dim_size)
        query, key, value = (
            project(linear, sets.rows).unflatten(-1, (self.heads, self.head_channels))
            for linear in (self.q, self.k, self.v)
        )
        dtype, wide = value.dtype, acc_dtype(value.dtype)
        query, key, value = _unit(query.to(wide)), _unit(key.to(wide)), value.to(wide)
        key = sets.hide(key)
        if is_recording():
            _note(query, key, sets)
        out, total = feature_sums(query, key, value, sets.segments, sets.segments)
        sizes = sets.sizes(out).view(-1, 1)
        out = (out + sizes.unsqueeze(-1) * value) / (total + sizes).unsqueeze(-1)
        return sets.restore(out.mean(1).to(dtype))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(heads={self.heads}, head_channels={self.head_channels})"


def _unit(x: Tensor) -> Tensor:
    """The vectors [n, h, c] at length one, without a number that is zero."""
    x = x.masked_fill(x == 0, _SMALLEST)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _note(query: Tensor, key: Tensor, sets: Sets) -> None:
    """Tell who records of the weights of all pairs, [e, h]."""
    pairs, _ = within(sets.segments)
    source, destination = pairs.edge_index
    sizes = sets.sizes(query).view(-1, 1)
    total = feature_sums(query, key, key[..., :0], sets.segments, sets.segments)[1] + sizes
    weight = edge_dot(query, key, pairs) + sizes[destination] * (source == destination).unsqueeze(1)
    record(weight / total[destination], pairs)
