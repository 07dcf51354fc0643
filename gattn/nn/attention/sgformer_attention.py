"""SGFormer's attention within each graph. Its cost is linear in the number of nodes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import attention as pyg

from gattn.compat.pyg import Twin
from gattn.functional import edge_dot
from gattn.kernels.precision import acc_dtype
from gattn.nn.attention.sets import Sets, read_sets
from gattn.nn.common.checks import check_at_least, check_heads_divide
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import within
from gattn.ops.attention.linear import feature_sums

_EPSILON = 1e-6
"""Value that replaces zeros in queries and keys, so that no vector has norm 0 (as in PyG)."""


class SGFormerAttention(pyg.SGFormerAttention, Twin):
    r"""SGFormer's linear attention: every node attends to all nodes of its graph, by cosine
    similarity.

    .. math::
        \mathrm{out}_i = \frac{1}{h} \sum_{\mathrm{heads}}
        \frac{n\, v_i + \sum_{j \in g(i)} (\hat q_i \cdot \hat k_j)\, v_j}
        {n + \sum_{j \in g(i)} \hat q_i \cdot \hat k_j}, \qquad
        \hat q = \frac{q}{\lVert q \rVert}, \quad \hat k = \frac{k}{\lVert k \rVert}

    with the number n of nodes of the graph. Has the arguments and the parameters of
    ``torch_geometric.nn.attention.SGFormerAttention``, and returns the same outputs for one graph.
    For several graphs, PyG's module counts padded rows as keys and in n, so that a graph's result
    depends on the largest graph; here each graph gets the same result as alone.

    Args:
        channels: number of features of x, d.
        heads: number of heads, h, which are averaged; must divide channels.
        head_channels: channels per head and of the output, c; None means channels / heads.
        qkv_bias: whether the projections of q, k and v have a bias.

    Shapes:
        - **input:** x [n, d], with index [n] or ptr [g + 1] for several graphs; or padded as in
          PyG, x [g, n, d] with a mask [g, n] that is True for rows that are nodes
        - **output:** [n, c]; or [g, n, c], zeros in padded rows

    Raises:
        TypeError: for inputs that are not tensors, or dtypes that differ.
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

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        check_heads_divide(arguments["heads"], channels=arguments["channels"])
        check_at_least(0, head_channels=arguments["head_channels"])

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Compute the attention within each graph. For an active recording, also compute its
        weights; this reads the sizes of the graphs from the device.

        Args:
            x: node features, see Shapes.
            mask: True for the rows of a padded x that are nodes; None if all rows are nodes.
            index: [n], the graph of each node, in any order; None for a single graph.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs. Without it ``index.max() + 1`` is read from the device.

        Returns:
            The mean of the heads, see Shapes.

        Raises:
            TypeError: for inputs that are not tensors, dtypes that differ, or a mask that is not
                boolean.
            ValueError: for a wrong shape, an index out of range, or arguments that belong to the
                other format.
            RuntimeError: under torch.jit.trace.
        """
        sets = read_sets(x, mask, index, ptr, dim_size)
        query, key, value = (
            project(linear, sets.rows).unflatten(-1, (self.heads, self.head_channels))
            for linear in (self.q, self.k, self.v)
        )
        dtype, wide = value.dtype, acc_dtype(value.dtype)
        query, key, value = _unit(query.to(wide)), _unit(key.to(wide)), value.to(wide)
        key = sets.zero_padding(key)
        if is_recording():
            _record_weights(query, key, sets)
        out, total = feature_sums(query, key, value, sets.segments, sets.segments)
        sizes = sets.sizes(out).view(-1, 1)
        out = (out + sizes.unsqueeze(-1) * value) / (total + sizes).unsqueeze(-1)
        return sets.restore(out.mean(1).to(dtype))


def _unit(x: Tensor) -> Tensor:
    """Replace zeros by epsilon, and divide each vector in [n, h, c] by its norm."""
    x = x.masked_fill(x == 0, _EPSILON)
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _record_weights(query: Tensor, key: Tensor, sets: Sets) -> None:
    """Compute and record the attention weights of all pairs of nodes within a set, [e, h], from
    normalised queries and keys [n, h, c]; the keys of padded rows are zero. Reads the sizes of the
    sets from the device.
    """
    pairs, _ = within(sets.segments)
    source, destination = pairs.edge_index
    sizes = sets.sizes(query).view(-1, 1)
    total = feature_sums(query, key, key[..., :0], sets.segments, sets.segments)[1] + sizes
    weight = edge_dot(query, key, pairs) + sizes[destination] * (source == destination).unsqueeze(1)
    record(weight / total[destination], pairs)
