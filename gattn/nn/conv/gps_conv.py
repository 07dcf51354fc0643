"""The layer GPSConv: the sum of a local layer and of attention among all nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch.nn import MultiheadAttention
from torch_geometric.nn import (
    GraphNorm,
    GraphSizeNorm,
    InstanceNorm,
    LayerNorm,
    PairNorm,
)
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.typing import Adj
from torch_geometric.utils import to_dense_batch

from gattn.compat.pyg import Twin
from gattn.graph import Graph
from gattn.nn.common.checks import check_heads_divide, check_probability, check_width
from gattn.nn.common.features import is_untouched
from gattn.nn.common.scores import attend_with_score, dot_product_score
from gattn.nn.common.segments import segment_graph, within
from gattn.nn.conv.exphormer_conv import ExphormerConv

ATTENTION_OPTIONS = ("bias", "dropout")
_NORMS_WITH_BATCH_SIZE = GraphNorm, GraphSizeNorm, InstanceNorm, LayerNorm, PairNorm
"""Normalisation layers with an argument batch_size. Without it, they read the batch size from the
device.
"""


class GPSConv(pyg.GPSConv, Twin):
    r"""General, powerful, scalable (GPS) graph transformer layer.

    .. math::
        h = \mathrm{norm}(\mathrm{conv}(x) + x) + \mathrm{norm}(\mathrm{attention}(x) + x), \qquad
        x' = \mathrm{norm}(h + \mathrm{MLP}(h))

    Has the arguments and the parameters of ``torch_geometric.nn.GPSConv`` and returns the same
    outputs, with any local layer. With ``attn_type="multihead"`` the attention runs on the complete
    graph of each set of nodes: nothing is padded, and the batch vector need not be sorted.
    ``"performer"`` is PyG's module on padded sets, because its outputs depend on the padding. An
    ``attn`` with hooks, parametrisations or a replaced forward is called on padded sets, too.
    With ``attn_type="exphormer"``, which PyG does not have, an :class:`ExphormerConv` replaces the
    attention among all nodes; its edges are an argument of forward.

    Args:
        channels: number of node features.
        conv: the local layer, called as ``conv(x, edge_index, **kwargs)``; None for no local layer.
        heads: number of heads of the global attention.
        dropout: dropout probability of the features in training.
        act: activation function of the MLP.
        act_kwargs: arguments of the activation function.
        norm: normalisation; None for no normalisation.
        norm_kwargs: arguments of the normalisation.
        attn_type: ``"multihead"``, ``"performer"`` or ``"exphormer"``.
        attn_kwargs: arguments of the attention: dropout and bias for ``"multihead"``, use_bias
            and edge_dim for ``"exphormer"``.

    Shapes:
        - **input:** x [n, channels]; edges as the local layer takes them; batch [n], the graph of
          each node
        - **output:** [n, channels]; [0, channels] without nodes

    Raises:
        ValueError: for an unknown attn_type or argument, heads that do not divide channels, or a
            wrong shape.

    Reference:
        Rampasek et al., "Recipe for a general, powerful, scalable graph transformer" (NeurIPS
        2022).

    Example:
        >>> import torch, gattn
        >>> from gattn.nn import GATConv, GPSConv
        >>> conv = GPSConv(16, GATConv(16, 4, heads=4), heads=4)
        >>> x, batch = torch.randn(5, 16), torch.tensor([0, 0, 0, 1, 1])
        >>> edge_index = torch.tensor([[0, 1, 3], [1, 2, 4]])
        >>> conv(x, edge_index, batch).shape
        torch.Size([5, 16])
        >>> conv = GPSConv(16, GATConv(16, 4, heads=4), heads=4, attn_type="exphormer")
        >>> far = gattn.graphs.expander([3, 2], 2)
        >>> conv(x, edge_index, batch, attn_index=far, attn_attr=torch.randn(8, 16)).shape
        torch.Size([5, 16])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for invalid settings, and TypeError for a dropout that is not a number.
        For ``attn_type="exphormer"``, ``arguments`` is changed in place to the multihead attention,
        because PyG's constructor does not know exphormer; the layer then replaces it.
        """
        kind, attn_kwargs = arguments["attn_type"], arguments["attn_kwargs"] or {}
        check_probability("dropout", arguments["dropout"])
        check_heads_divide(arguments["heads"], channels=arguments["channels"])
        if kind not in ("multihead", "performer", "exphormer"):
            raise ValueError(
                f"attn_type must be 'multihead', 'performer' or 'exphormer'; got {kind!r}"
            )
        unknown = sorted(set(attn_kwargs) - set(ATTENTION_OPTIONS))
        if kind == "multihead" and unknown:
            raise ValueError(f"attn_kwargs must be among {ATTENTION_OPTIONS}; got {unknown}")
        if kind == "exphormer":
            arguments |= {"attn_type": "multihead", "attn_kwargs": None}

    def _complete(self, arguments: dict[str, Any]) -> None:
        """Replace the attention of PyG's layer in place by :class:`ExphormerConv` if it is
        requested. Raises ValueError or TypeError if its options are invalid.
        """
        if arguments["attn_type"] == "exphormer":
            channels, attn_kwargs = arguments["channels"], arguments["attn_kwargs"] or {}
            self.attn_type = "exphormer"
            self.attn = ExphormerConv(channels, channels, arguments["heads"], **attn_kwargs)

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
        max_num_nodes: int | None = None,
        attn_index: Adj | Graph | None = None,
        attn_attr: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Update each node from its neighbours and from all nodes of its graph, in training with
        dropout and new statistics of a BatchNorm. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, for the local layer.
            batch: the graph of each node; None means a single graph.
            batch_size: number of graphs; None reads it from batch.
            max_num_nodes: largest number of nodes of a graph; required under ``torch.compile``.
            attn_index: the edges for ``attn_type="exphormer"``, such as ``expander_index`` of
                :class:`gattn.transforms.AddExpander`; None for another attention.
            attn_attr: the features of these edges.
            **kwargs: arguments of the local layer.

        Returns:
            The new node features.

        Raises:
            ValueError: if x or batch has a wrong shape, or attn_index or attn_attr is passed with
                another attention than exphormer.
            TypeError: if x is not a tensor, or attn_index or attn_attr is missing for exphormer.
            Exception: the errors of the local layer.
            RuntimeError: under torch.jit.trace, or by torch if x has another dtype than the layer.
        """
        check_width("x", x, self.channels)
        local = 0
        if self.conv is not None:
            local = self._drop(self.conv(x, edge_index, **kwargs)) + x
            local = self._norm(self.norm1, local, batch, batch_size)
        if isinstance(self.attn, ExphormerConv):
            attended = self.attn(x, attn_index, attn_attr)
        else:
            _check_no_edges(self.attn_type, attn_index, attn_attr)
            attended = self._attend(x, batch, batch_size, max_num_nodes)
        attended = self._drop(attended) + x
        out = local + self._norm(self.norm2, attended, batch, batch_size)
        return self._norm(self.norm3, out + self.mlp(out), batch, batch_size)

    def _attend(
        self, x: Tensor, batch: Tensor | None, batch_size: int | None, max_num_nodes: int | None
    ) -> Tensor:
        """Compute the attention of each node x [n, channels] to all nodes of its graph, [n,
        channels], given the graph of each node, ``batch`` [n]. ``batch_size`` is the number of
        graphs, which is read from the batch if it is None, and ``max_num_nodes`` their largest
        number of nodes. The weights are passed to the active recordings. In training, dropout draws
        from torch's generator. Raises ValueError or TypeError for a batch that does not fit, and
        ValueError under torch.compile without ``max_num_nodes``.
        """
        attn: Any = self.attn
        if isinstance(attn, PerformerAttention):
            return _on_padded(lambda sets, mask: attn(sets, mask=mask), x, batch)
        if type(attn) is not MultiheadAttention or not is_untouched(attn):
            return _on_padded(
                lambda y, mask: attn(y, y, y, key_padding_mask=~mask, need_weights=False)[0],
                x,
                batch,
            )
        sets = segment_graph(x, batch, dim_size=batch_size if batch is not None else None)
        graph, bias = within(sets, x.shape[0] if batch is None else max_num_nodes)
        query, key, value = (y.unflatten(-1, (self.heads, -1)) for y in _project(attn, x))
        if bias is not None:
            bias = bias.to(query.dtype).expand(-1, self.heads)
        dropout = attn.dropout if self.training else 0.0
        out, _ = attend_with_score(
            dot_product_score(query, key, attn_bias=bias), value, graph, dropout=dropout
        )
        return attn.out_proj(out.flatten(1))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _norm(self, norm: Any, x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        """Normalise the rows x [n, channels] by a layer, which gets the graph of each row and the
        number of graphs if it accepts them. Returns x unchanged if the layer is None. In training,
        a layer with running statistics updates them.
        """
        if norm is None:
            return x
        if not self.norm_with_batch:
            return norm(x)
        is_size_known = batch_size is not None and batch is not None
        if is_size_known and isinstance(norm, _NORMS_WITH_BATCH_SIZE):
            return norm(x, batch=batch, batch_size=batch_size)
        return norm(x, batch=batch)


def _check_no_edges(attn_type: str, *arguments: Any) -> None:
    """Raise ValueError if attn_index or attn_attr is passed but the attention is among
    all nodes.
    """
    if any(argument is not None for argument in arguments):
        raise ValueError(
            "attn_index and attn_attr are only for attn_type='exphormer'; got attn_type "
            f"{attn_type!r}"
        )


def _on_padded(
    attend: Callable[[Tensor, Tensor], Tensor], x: Tensor, batch: Tensor | None
) -> Tensor:
    """Pad the nodes of each graph, apply an attention module, and remove the padding from its
    result.

    Sets are [g, w, channels] for the largest number of nodes w. The mask [g, w] is True for nodes.
    The result, [n, channels], has the order of x.
    """
    batch = x.new_zeros(x.shape[0], dtype=torch.int64) if batch is None else batch
    order = batch.argsort(stable=True)
    _, member = batch[order].unique_consecutive(return_inverse=True)
    sets, mask = to_dense_batch(x[order], member)
    out = attend(sets, mask)[mask]
    return torch.empty_like(out).index_copy(0, order, out)


def _project(attn: Any, x: Tensor) -> list[Tensor]:
    """Return query, key and value of torch's multi-head attention, [n, channels] each."""
    biases = (None, None, None) if attn.in_proj_bias is None else attn.in_proj_bias.chunk(3)
    return [F.linear(x, w, b) for w, b in zip(attn.in_proj_weight.chunk(3), biases)]
