"""Polynormer's attention among all nodes of a graph, at a cost linear in their number."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, LayerNorm, Linear, Module

from gattn.functional import linear_attention_weights
from gattn.kernels.precision import acc_dtype
from gattn.nn.attention.sets import read_sets
from gattn.nn.common.checks import check_at_least, check_probability
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import within
from gattn.ops.attention.linear import feature_sums

_SMALLEST = 1e-6
"""Epsilon added to the denominator."""


class PolynormerAttention(Module):
    r"""Attention of every node to all nodes of its graph, multiplied by the node's own features.

    .. math::
        \mathrm{out}_i = \mathrm{ReLU}\Big(W_o \big(\mathrm{LN}(a_i) \odot (W_h x_i + \beta)
        \big)\Big), \qquad
        a_i = \Big\Vert_h \frac{\sum_{j \in g(i)} \sigma(q_i) \cdot \sigma(k_j)\, v_j}
        {\epsilon + \sum_{j \in g(i)} \sigma(q_i) \cdot \sigma(k_j)}

    with :math:`\epsilon = 10^{-6}`. Takes the arguments and the parameters of
    ``torch_geometric.nn.attention.PolynormerAttention``, and gives its outputs for a single graph.
    Of several graphs, PyG's counts padded rows among the keys, so that what it gives for one
    depends on the largest; here each gets what it gets alone.

    Args:
        channels: features of x, d.
        heads: number of heads, h.
        head_channels: channels of each head, c.
        beta: what is added to the node's own features.
        qkv_bias: whether the projections of q, k and v have a bias.
        qk_shared: whether q is k.
        dropout: probability of dropping a feature of the result in training.

    Shapes:
        - **input:** x [n, d], with index [n] or ptr [g + 1] where there are several graphs; or as
          PyG's, padded, x [g, n, d] with a mask [g, n] of the rows that are nodes
        - **output:** [n, h * c]; or [g, n, h * c], zeros where there is no node

    Raises:
        TypeError: for other than tensors, or dtypes that differ.
        ValueError: for a setting that is none, or a wrong shape.

    Reference:
        Deng, Yue and Zhang, "Polynormer: polynomial-expressive graph transformer in linear time"
        (ICLR 2024).

    Example:
        >>> import torch
        >>> from gattn.nn import PolynormerAttention
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 1, 1])
        >>> PolynormerAttention(16, heads=2, head_channels=8)(x, index=batch, dim_size=2).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        head_channels: int = 64,
        beta: float = 0.9,
        qkv_bias: bool = False,
        qk_shared: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_at_least(1, heads=heads)
        check_at_least(0, channels=channels, head_channels=head_channels)
        check_probability("dropout", dropout)
        self.head_channels = head_channels
        self.heads = heads
        self.beta = beta
        self.qk_shared = qk_shared
        width = heads * head_channels
        self.h_lins = Linear(channels, width)
        if not qk_shared:
            self.q = Linear(channels, width, bias=qkv_bias)
        self.k = Linear(channels, width, bias=qkv_bias)
        self.v = Linear(channels, width, bias=qkv_bias)
        self.lns = LayerNorm(width)
        self.lin_out = Linear(width, width)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.h_lins.reset_parameters()
        if not self.qk_shared:
            self.q.reset_parameters()
        for module in (self.k, self.v, self.lns, self.lin_out):
            module.reset_parameters()

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
            The new features, see Shapes.
        """
        sets = read_sets(x, mask, index, ptr, dim_size)
        key = self._features(self.k, sets.rows)
        query = key if self.qk_shared else self._features(self.q, sets.rows)
        key = sets.hide(key)
        value = self._split(self.v, sets.rows)
        if is_recording():
            pairs, _ = within(sets.segments)
            record(linear_attention_weights(query, key, pairs, feature_map="identity"), pairs)
        out, total = feature_sums(
            query, key, value.to(key.dtype), sets.segments, sets.segments
        )  # fmt: skip
        out = (out / (total + _SMALLEST).unsqueeze(-1)).transpose(1, 2).flatten(1).to(value.dtype)
        out = self.lns(out) * (self.h_lins(sets.rows) + self.beta)
        return sets.restore(self.dropout(F.relu(self.lin_out(out))))

    def _features(self, linear: Linear, x: Tensor) -> Tensor:
        """The sigmoid of a projection [n, h, c], in the dtype that sums are taken in."""
        projected = self._split(linear, x)
        return projected.to(acc_dtype(projected.dtype)).sigmoid()

    def _split(self, linear: Linear, x: Tensor) -> Tensor:
        """A projection [n, h, c]: PyG's parameters have the heads of a channel side by side."""
        projected = project(linear, x)
        return projected.unflatten(-1, (self.head_channels, self.heads)).transpose(1, 2)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(heads={self.heads}, head_channels={self.head_channels})"
