"""Global attention whose cost is linear in the number of nodes."""

from __future__ import annotations

from torch import Tensor
from torch.nn import Linear, Module

from gattn.functional import linear_attention, linear_attention_weights
from gattn.nn.common.checks import check_at_least, check_heads_divide
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import segment_graph, within


class LinearAttention(Module):
    r"""Attention from every node to all nodes of its graph, with a score that factors.

    .. math::
        \mathrm{out}_i = W_o \Big\Vert_h
        \frac{\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)\, v_j}
        {\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)}, \qquad
        (q, k, v) = (W_q x, W_k x, W_v x)

    The sums are exact for each graph of a batch: no padding, and no node sees another graph. See
    :func:`gattn.functional.linear_attention`.

    Args:
        channels: features of x and of the result, d.
        heads: heads, h.
        head_channels: channels of each head, c; None means channels / heads.
        feature_map: phi: ``"elu"`` for elu(x) + 1, or ``"relu"``.
        bias: whether the projections of q, k and v have a bias; W_o has one.

    Shapes:
        - **input:** x [n, channels]; index [n], in any order, or ptr [g + 1]
        - **output:** [n, channels]

    Raises:
        ValueError: for heads < 1 or, where head_channels is None, heads that do not divide
            channels; for another feature_map or a wrong shape.

    Reference:
        Katharopoulos et al., "Transformers are RNNs" (ICML 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import LinearAttention
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 1, 1])
        >>> LinearAttention(16, heads=4)(x, batch, dim_size=2).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        channels: int,
        heads: int = 1,
        head_channels: int | None = None,
        *,
        feature_map: str = "elu",
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_at_least(1, heads=heads)
        check_at_least(0, channels=channels, head_channels=head_channels)
        if head_channels is None:
            check_heads_divide(heads, channels=channels)
        head_channels = channels // heads if head_channels is None else head_channels
        self.channels = channels
        self.heads = heads
        self.feature_map = feature_map
        self.lin_query = Linear(channels, heads * head_channels, bias=bias)
        self.lin_key = Linear(channels, heads * head_channels, bias=bias)
        self.lin_value = Linear(channels, heads * head_channels, bias=bias)
        self.lin_out = Linear(heads * head_channels, channels)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for module in (self.lin_query, self.lin_key, self.lin_value, self.lin_out):
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Attend within each graph.

        Args:
            x: [n, channels], the nodes.
            index: [n], the graph of each node, in any order; None for a single graph.
            ptr: [g + 1], where each graph's nodes begin, instead of index.
            dim_size: number of graphs. Without it ``index.max() + 1`` is read from the device.

        Returns:
            [n, channels].
        """
        segments = segment_graph(x, index, ptr, dim_size)
        query, key, value = (
            project(lin, x).unflatten(-1, (self.heads, -1))
            for lin in (self.lin_query, self.lin_key, self.lin_value)
        )
        if is_recording():
            pairs, _ = within(segments)
            record(linear_attention_weights(query, key, pairs, feature_map=self.feature_map), pairs)
        out = linear_attention(query, key, value, segments, feature_map=self.feature_map)
        return self.lin_out(out.flatten(1))

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.channels}, heads={self.heads}, "
            f"feature_map={self.feature_map!r})"
        )
