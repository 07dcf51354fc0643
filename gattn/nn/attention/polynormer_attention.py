"""Polynormer's attention within each graph. Its cost is linear in the number of nodes."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear
from torch_geometric.nn import attention as pyg

from gattn.compat.pyg import Twin
from gattn.functional import linear_attention_weights
from gattn.kernels.precision import acc_dtype
from gattn.nn.attention.sets import read_sets
from gattn.nn.common.checks import check_at_least, check_probability
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import within
from gattn.ops.attention.linear import feature_sums

_EPSILON = 1e-6
"""Epsilon added to the denominator."""


class PolynormerAttention(pyg.PolynormerAttention, Twin):
    r"""Polynormer's linear attention among all nodes of a graph, multiplied by the node features.

    .. math::
        \mathrm{out}_i = \mathrm{ReLU}\Big(W_o \big(\mathrm{LN}(a_i) \odot (W_h x_i + \beta)
        \big)\Big), \qquad
        a_i = \Big\Vert_h \frac{\sum_{j \in g(i)} \sigma(q_i) \cdot \sigma(k_j)\, v_j}
        {\epsilon + \sum_{j \in g(i)} \sigma(q_i) \cdot \sigma(k_j)}

    with :math:`\epsilon = 10^{-6}`. Has the arguments and the parameters of
    ``torch_geometric.nn.attention.PolynormerAttention``, and returns the same outputs for a single
    graph. For several graphs, PyG's module counts padded rows as keys, so that a graph's result
    depends on the largest graph; here each graph gets the same result as alone.

    Args:
        channels: number of features of x, d.
        heads: number of heads, h.
        head_channels: channels per head, c.
        beta: constant that is added to the projected node features, see the equation.
        qkv_bias: whether the projections of q, k and v have a bias.
        qk_shared: whether the queries are the keys.
        dropout: dropout probability of the output features in training.

    Shapes:
        - **input:** x [n, d], with index [n] or ptr [g + 1] for several graphs; or padded as in
          PyG, x [g, n, d] with a mask [g, n] that is True for rows that are nodes
        - **output:** [n, h * c]; or [g, n, h * c], zeros in padded rows

    Raises:
        TypeError: for inputs that are not tensors, or dtypes that differ.
        ValueError: for an invalid setting or a wrong shape.

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

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for heads below 1, negative widths, or a dropout that is not a
        probability; raise TypeError for a dropout that is not a number.
        """
        check_at_least(1, heads=arguments["heads"])
        check_at_least(0, **{name: arguments[name] for name in ("channels", "head_channels")})
        check_probability("dropout", arguments["dropout"])

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Compute the attention within each graph, in training with dropout. For an active
        recording, also compute its weights; this reads the sizes of the graphs from the device.

        Args:
            x: node features, see Shapes.
            mask: True for the rows of a padded x that are nodes; None if all rows are nodes.
            index: [n], the graph of each node, in any order; None for a single graph.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs. Without it ``index.max() + 1`` is read from the device.

        Returns:
            The new features, see Shapes.

        Raises:
            TypeError: for inputs that are not tensors, dtypes that differ, or a mask that is not
                boolean.
            ValueError: for a wrong shape, an index out of range, or arguments that belong to the
                other format.
            RuntimeError: under torch.jit.trace.
        """
        sets = read_sets(x, mask, index, ptr, dim_size)
        key = self._features(self.k, sets.rows)
        query = key if self.qk_shared else self._features(self.q, sets.rows)
        key = sets.zero_padding(key)
        value = self._split(self.v, sets.rows)
        if is_recording():
            pairs, _ = within(sets.segments)
            record(linear_attention_weights(query, key, pairs, feature_map="identity"), pairs)
        out, total = feature_sums(
            query, key, value.to(key.dtype), sets.segments, sets.segments
        )  # fmt: skip
        out = (out / (total + _EPSILON).unsqueeze(-1)).transpose(1, 2).flatten(1).to(value.dtype)
        out = self.lns(out) * (self.h_lins(sets.rows) + self.beta)
        return sets.restore(self.dropout(F.relu(self.lin_out(out))))

    def _features(self, linear: Linear, x: Tensor) -> Tensor:
        """Project x, and return the sigmoid of the result in the accumulation dtype, [n, h, c].
        Raises the errors of :func:`project`.
        """
        projected = self._split(linear, x)
        return projected.to(acc_dtype(projected.dtype)).sigmoid()

    def _split(self, linear: Linear, x: Tensor) -> Tensor:
        """Return a projection of x [n, d] as [n, h, c]. The rows of PyG's parameters have the order
        (c, h). Raises the errors of :func:`project`.
        """
        projected = project(linear, x)
        return projected.unflatten(-1, (self.head_channels, self.heads)).transpose(1, 2)
