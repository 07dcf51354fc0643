"""GPSConv: a local layer along the edges beside attention among all nodes of each graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Dropout, Linear, Module, MultiheadAttention, Sequential
from torch_geometric.nn import (
    GraphNorm,
    GraphSizeNorm,
    InstanceNorm,
    LayerNorm,
    MessagePassing,
    PairNorm,
)
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver
from torch_geometric.typing import Adj
from torch_geometric.utils import to_dense_batch

from gattn.graph import Graph
from gattn.nn.common.checks import check_heads_divide, check_probability, check_width
from gattn.nn.common.features import is_untouched
from gattn.nn.common.scores import DotScore, attend_with_score
from gattn.nn.common.segments import segment_graph, within
from gattn.nn.conv.exphormer_conv import ExphormerConv

ATTENTION_OPTIONS = ("bias", "dropout")
_SIZED = GraphNorm, GraphSizeNorm, InstanceNorm, LayerNorm, PairNorm
"""Normalisations that take the number of graphs, which they read from the device without it."""


class GPSConv(Module):
    r"""The general, powerful, scalable graph transformer layer.

    .. math::
        h = \mathrm{norm}(\mathrm{conv}(x) + x) + \mathrm{norm}(\mathrm{attention}(x) + x), \qquad
        x' = \mathrm{norm}(h + \mathrm{MLP}(h))

    Takes the arguments and the parameters of ``torch_geometric.nn.GPSConv`` and gives its
    outputs; any local layer goes in. With ``attn_type="multihead"`` the attention runs on the
    complete graph of every set of nodes: nothing is padded, and the batch vector need not be
    sorted. (``"performer"`` is PyG's own, on padded sets, as its outputs depend on the padding; an
    ``attn`` with hooks, parametrisations or a forward of its own is called on padded sets, too.)
    With ``attn_type="exphormer"``, which PyG lacks, an :class:`ExphormerConv` takes the place of
    the attention among all nodes, along edges of its own that forward is given, too.

    Args:
        channels: features of a node.
        conv: the local layer, called as ``conv(x, edge_index, **kwargs)``; None for none.
        heads: number of heads of the global attention.
        dropout: probability of dropping a feature in training.
        act: activation inside the MLP.
        act_kwargs: options of the activation.
        norm: normalisation; None for none.
        norm_kwargs: options of the normalisation.
        attn_type: ``"multihead"``, ``"performer"`` or ``"exphormer"``.
        attn_kwargs: options of the attention; for ``"multihead"`` dropout and bias, for
            ``"exphormer"`` use_bias and edge_dim.

    Shapes:
        - **input:** x [n, channels]; edges as the local layer takes them; batch [n], the graph of
          each node
        - **output:** [n, channels]; [0, channels] without nodes

    Raises:
        ValueError: for another attn_type or option, heads that do not divide channels, or a
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

    def __init__(
        self,
        channels: int,
        conv: MessagePassing | None,
        heads: int = 1,
        dropout: float = 0.0,
        act: str = "relu",
        act_kwargs: dict[str, Any] | None = None,
        norm: str | None = "batch_norm",
        norm_kwargs: dict[str, Any] | None = None,
        attn_type: str = "multihead",
        attn_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        check_probability("dropout", dropout)
        check_heads_divide(heads, channels=channels)
        attn_kwargs = attn_kwargs or {}
        self.channels = channels
        self.conv = conv
        self.heads = heads
        self.dropout = dropout
        self.attn_type = attn_type
        if attn_type == "multihead":
            unknown = sorted(set(attn_kwargs) - set(ATTENTION_OPTIONS))
            if unknown:
                raise ValueError(f"attn_kwargs must be among {ATTENTION_OPTIONS}; got {unknown}")
            self.attn = MultiheadAttention(channels, heads, batch_first=True, **attn_kwargs)
        elif attn_type == "performer":
            self.attn = PerformerAttention(channels=channels, heads=heads, **attn_kwargs)
        elif attn_type == "exphormer":
            self.attn = ExphormerConv(channels, channels, heads, **attn_kwargs)
        else:
            raise ValueError(
                f"attn_type must be 'multihead', 'performer' or 'exphormer'; got {attn_type!r}"
            )
        self.mlp = Sequential(
            Linear(channels, channels * 2),
            activation_resolver(act, **(act_kwargs or {})),
            Dropout(dropout),
            Linear(channels * 2, channels),
            Dropout(dropout),
        )
        norms = (normalization_resolver(norm, channels, **(norm_kwargs or {})) for _ in range(3))
        self.norm1, self.norm2, self.norm3 = norms
        self.norm_with_batch = False
        if self.norm1 is not None:
            self.norm_with_batch = "batch" in inspect.signature(self.norm1.forward).parameters

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        if self.conv is not None:
            self.conv.reset_parameters()
        if isinstance(self.attn, ExphormerConv):
            self.attn.reset_parameters()
        else:
            self.attn._reset_parameters()
        reset(self.mlp)
        for norm in (self.norm1, self.norm2, self.norm3):
            if norm is not None:
                norm.reset_parameters()

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
        """Mix each node with its neighbours and with all nodes of its graph.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, for the local layer.
            batch: the graph of each node; None puts all into one.
            batch_size: number of graphs; read from batch where it is not given.
            max_num_nodes: most nodes of any graph, which ``torch.compile`` has to be told.
            attn_index: the edges of an ``"exphormer"``, such as ``expander_index`` of
                :class:`gattn.transforms.AddExpander`; none for another attention.
            attn_attr: the features of these edges.
            **kwargs: of the local layer.

        Returns:
            The new node features.
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
        """Attention of every node to all nodes of its graph."""
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
            DotScore(query, key, attn_bias=bias), value, graph, dropout=dropout
        )
        return attn.out_proj(out.flatten(1))

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _norm(self, norm: Any, x: Tensor, batch: Tensor | None, batch_size: int | None) -> Tensor:
        if norm is None:
            return x
        if not self.norm_with_batch:
            return norm(x)
        if batch_size is not None and batch is not None and isinstance(norm, _SIZED):
            return norm(x, batch=batch, batch_size=batch_size)
        return norm(x, batch=batch)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.channels}, conv={self.conv}, heads={self.heads}, "
            f"attn_type={self.attn_type})"
        )


def _check_no_edges(attn_type: str, *supplied: Any) -> None:
    """Raise where an attention among all nodes is given edges."""
    if any(one is not None for one in supplied):
        raise ValueError(
            f"attn_index and attn_attr go with attn_type='exphormer'; this is {attn_type!r}"
        )


def _on_padded(
    attend_with_score: Callable[[Tensor, Tensor], Tensor], x: Tensor, batch: Tensor | None
) -> Tensor:
    """Attention by a module that takes padded sets, none of them empty, and their mask."""
    batch = x.new_zeros(x.shape[0], dtype=torch.int64) if batch is None else batch
    order = batch.argsort(stable=True)
    _, member = batch[order].unique_consecutive(return_inverse=True)
    sets, mask = to_dense_batch(x[order], member)
    out = attend_with_score(sets, mask)[mask]
    return torch.empty_like(out).index_copy(0, order, out)


def _project(attn: Any, x: Tensor) -> list[Tensor]:
    """Query, key and value of torch's multi-head attention, each [n, channels]."""
    biases = (None, None, None) if attn.in_proj_bias is None else attn.in_proj_bias.chunk(3)
    return [F.linear(x, w, b) for w, b in zip(attn.in_proj_weight.chunk(3), biases)]
