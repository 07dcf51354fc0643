"""SGFormer: one kind of linear attention within each graph, beside graph convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm, Linear, Module, ModuleList, Parameter
from torch_geometric.nn import GCNConv
from torch_geometric.typing import Adj

from gattn.graph import Graph
from gattn.models._gcn import convolve
from gattn.nn import SGFormerAttention
from gattn.nn.attention.block import graph_among
from gattn.nn.common.checks import check_at_least, check_input_of, check_probability

AGGREGATES = ("add", "cat")


class SGFormer(Module):
    r"""The SGFormer model: logarithms of class probabilities of every node.

    .. math::
        y = \mathrm{log\,softmax}\, W \big( (1 - w)\, \mathrm{attend}(x)
        + w\, \mathrm{convolve}(x, E) \big)

    where every layer of attend is :class:`gattn.nn.SGFormerAttention`, the mean with what came in,
    a layer normalisation and a ReLU; and every layer of convolve a graph convolution, a batch
    normalisation, a ReLU and what came in at first. Takes the arguments and the parameters of
    ``torch_geometric.nn.SGFormer``, and gives its outputs for a single graph. Of several graphs,
    PyG's counts padded rows as nodes, so that what it gives for one depends on the largest; here
    nothing is padded, and each graph attends to its own nodes alone.

    Args:
        in_channels: features of a node.
        hidden_channels: features inside.
        out_channels: classes.
        trans_num_layers: layers of attention.
        trans_num_heads: heads of each of them, which are averaged.
        trans_dropout: probability of dropping a feature there in training.
        gnn_num_layers: graph convolutions.
        gnn_dropout: probability of dropping a feature there in training.
        graph_weight: w, the weight of the graph convolutions where both are added.
        aggregate: ``"add"`` for the weighted sum of both, ``"cat"`` to lay them side by side.

    Shapes:
        - **input:** x [n, in_channels]; edges as pairs (2, e), an adjacency [n, n], whose values
          are not read, or a :class:`gattn.Graph`; batch [n], the graph of each node, in any order
        - **output:** [n, out_channels]

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a setting that is none, a wrong shape or an index out of range.

    Reference:
        Wu et al., "SGFormer: simplifying and empowering transformers for large-graph
        representations" (NeurIPS 2023).

    Example:
        >>> import torch
        >>> from gattn.models import SGFormer
        >>> model = SGFormer(16, 32, 7)
        >>> model(torch.randn(3, 16), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        trans_num_layers: int = 2,
        trans_num_heads: int = 1,
        trans_dropout: float = 0.5,
        gnn_num_layers: int = 3,
        gnn_dropout: float = 0.5,
        graph_weight: float = 0.5,
        aggregate: str = "add",
    ) -> None:
        super().__init__()
        check_at_least(1, hidden_channels=hidden_channels, out_channels=out_channels)
        if aggregate not in AGGREGATES:
            raise ValueError(f"aggregate must be one of {AGGREGATES}; got {aggregate!r}")
        self.trans_conv = SGModule(
            in_channels, hidden_channels, trans_num_layers, trans_num_heads, trans_dropout
        )
        self.graph_conv = GraphModule(in_channels, hidden_channels, gnn_num_layers, gnn_dropout)
        self.graph_weight = graph_weight
        self.aggregate = aggregate
        width = hidden_channels if aggregate == "add" else 2 * hidden_channels
        self.fc = Linear(width, out_channels)
        self.params1: list[Parameter] = list(self.trans_conv.parameters())
        """Those of the attention, which the authors decay more than the others."""
        self.params2: list[Parameter] = [*self.graph_conv.parameters(), *self.fc.parameters()]
        self.out_channels = out_channels

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for module in (self.trans_conv, self.graph_conv, self.fc):
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        """Classify nodes.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            batch: the graph of each node; None for a single graph.
            batch_size: number of graphs; read from batch where it is not given.

        Returns:
            The logarithm of each class's probability, a row for each node.
        """
        globally = self.trans_conv(x, batch, batch_size)
        locally = self.graph_conv(x, edge_index)
        if self.aggregate == "add":
            x = self.graph_weight * locally + (1 - self.graph_weight) * globally
        else:
            x = torch.cat([globally, locally], dim=1)
        return F.log_softmax(self.fc(x), dim=-1)


class _Part(Module):
    """A map of the features, and layers, each followed by a norm."""

    fcs: ModuleList
    bns: ModuleList
    dropout: float
    activation: Callable[[Tensor], Tensor]

    def _begin(self, x: Tensor) -> Tensor:
        first = cast(Linear, self.fcs[0])
        check_input_of("x", x, first)
        return self._end(first(x), 0)

    def _end(self, x: Tensor, layer: int) -> Tensor:
        return F.dropout(self.activation(self.bns[layer](x)), self.dropout, self.training)


def _reset(*modules: Iterable[Module]) -> None:
    for group in modules:
        for module in group:
            cast(Any, module).reset_parameters()


class SGModule(_Part):
    """The layers of attention of :class:`SGFormer`.

    Args:
        in_channels: features of a node.
        hidden_channels: features of the result.
        num_layers: layers.
        num_heads: heads of each.
        dropout: probability of dropping a feature in training.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int = 2,
        num_heads: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        check_at_least(0, num_layers=num_layers, in_channels=in_channels)
        check_probability("dropout", dropout)
        self.attns = ModuleList()
        self.fcs = ModuleList([Linear(in_channels, hidden_channels)])
        self.bns = ModuleList([LayerNorm(hidden_channels)])
        for _ in range(num_layers):
            self.attns.append(SGFormerAttention(hidden_channels, num_heads, hidden_channels))
            self.bns.append(LayerNorm(hidden_channels))
        self.dropout = dropout
        self.activation = F.relu

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        _reset(self.attns, self.bns, self.fcs)

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """Mix each node with all nodes of its graph."""
        x = self._begin(x)
        for layer, attn in enumerate(self.attns, 1):
            x = self._end((attn(x, index=batch, dim_size=batch_size) + x) / 2, layer)
        return x


class GraphModule(_Part):
    """The graph convolutions of :class:`SGFormer`.

    Args:
        in_channels: features of a node.
        hidden_channels: features of the result.
        num_layers: layers.
        dropout: probability of dropping a feature in training.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, num_layers: int = 2, dropout: float = 0.5
    ) -> None:
        super().__init__()
        check_at_least(0, num_layers=num_layers, in_channels=in_channels)
        check_probability("dropout", dropout)
        self.convs = ModuleList()
        self.fcs = ModuleList([Linear(in_channels, hidden_channels)])
        self.bns = ModuleList([BatchNorm1d(hidden_channels)])
        for _ in range(num_layers):
            self.convs.append(GCNConv(hidden_channels, hidden_channels))
            self.bns.append(BatchNorm1d(hidden_channels))
        self.dropout = dropout
        self.activation = F.relu

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        _reset(self.convs, self.bns, self.fcs)

    def forward(self, x: Tensor, edge_index: Adj | Graph) -> Tensor:
        """Mix each node with its neighbours."""
        x = first = self._begin(x)
        graph = graph_among(edge_index, x)
        for layer, conv in enumerate(self.convs, 1):
            x = self._end(convolve(cast(GCNConv, conv), x, graph), layer) + first
        return x
