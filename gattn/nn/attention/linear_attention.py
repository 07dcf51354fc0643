"""The layer LinearAttention: attention within each graph. Its cost is linear in the number of
nodes.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import Linear

from gattn.functional import linear_attention, linear_attention_weights
from gattn.nn.common.checks import check_at_least, check_heads_divide
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.features import project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.common.segments import segment_graph, within


class LinearAttention(CompositeModule):
    r"""Linear attention of every node to all nodes of its graph.

    .. math::
        \mathrm{out}_i = W_o \Big\Vert_h
        \frac{\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)\, v_j}
        {\sum_{j \in g(i)} \phi(q_i) \cdot \phi(k_j)}, \qquad
        (q, k, v) = (W_q x, W_k x, W_v x)

    The sums run over the nodes of one graph of a batch only, without padding. See
    :func:`gattn.functional.linear_attention`.

    Args:
        channels: number of input and output features, d.
        heads: number of heads, h.
        head_channels: channels per head, c; None means channels / heads.
        feature_map: the function phi: ``"elu"`` for elu(x) + 1, or ``"relu"``.
        bias: whether the projections of q, k and v have a bias; W_o always has one.

    Shapes:
        - **input:** x [n, channels]; index [n], in any order, or ptr [g + 1]
        - **output:** [n, channels]

    Raises:
        ValueError: for heads < 1, heads that do not divide channels if head_channels is None, an
            unknown feature_map or a wrong shape.

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

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
    ) -> Tensor:
        """Compute the attention within each graph. For an active recording, also compute its
        weights; this reads the sizes of the graphs from the device.

        Args:
            x: node features, [n, channels].
            index: [n], the graph of each node, in any order; None for a single graph.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs. Without it ``index.max() + 1`` is read from the device.

        Returns:
            The new node features, [n, channels].

        Raises:
            TypeError: for inputs that are not tensors, or dtypes that differ.
            ValueError: for a wrong shape, or an index out of range.
            RuntimeError: under torch.jit.trace.
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
        """Return the class with its settings as text."""
        return (
            f"{self.__class__.__name__}({self.channels}, heads={self.heads}, "
            f"feature_map={self.feature_map!r})"
        )
