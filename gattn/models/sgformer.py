"""SGFormer: a graph transformer with linear attention among all nodes and graph convolutions."""

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
    r"""SGFormer model, which returns the log-probabilities of the classes for every node.

    .. math::
        y = \mathrm{log\,softmax}\, W \big( (1 - w)\, \mathrm{attend}(x)
        + w\, \mathrm{convolve}(x, E) \big)

    where every layer of ``attend`` is :class:`gattn.nn.SGFormerAttention`, the mean with the
    layer's input, a LayerNorm and a ReLU; and every layer of ``convolve`` is a GCNConv, a
    BatchNorm, a ReLU and the sum with the input of the first layer. Has the arguments and
    parameters of ``torch_geometric.nn.SGFormer`` and its outputs for a single graph. With several
    graphs, PyG counts padded rows as nodes, so the result for one graph depends on the largest;
    here nothing is padded, and the nodes of each graph attend only to each other.

    Args:
        in_channels: number of node features.
        hidden_channels: hidden width.
        out_channels: number of classes.
        trans_num_layers: number of attention layers.
        trans_num_heads: number of heads of each attention layer, which are averaged.
        trans_dropout: dropout probability in the attention layers.
        gnn_num_layers: number of graph convolutions.
        gnn_dropout: dropout probability in the graph convolutions.
        graph_weight: w, weight of the graph convolutions in the sum.
        aggregate: ``"add"`` for the weighted sum of both parts, ``"cat"`` to concatenate them.

    Shapes:
        - **input:** x [n, in_channels]; edges as pairs (2, e), an adjacency [n, n], whose values
          are not read, or a :class:`gattn.Graph`; batch [n], the graph of each node, in any order
        - **output:** [n, out_channels]

    Raises:
        TypeError: edges have another type, or dtypes differ.
        ValueError: an argument or a shape is invalid, or an index is out of range.

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
        """Parameters of the attention layers. The authors use a larger weight decay for them."""
        self.params2: list[Parameter] = [*self.graph_conv.parameters(), *self.fc.parameters()]
        self.out_channels = out_channels

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
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
        """Return the log-probabilities of the classes for each node.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            batch: the graph of each node; None for a single graph.
            batch_size: number of graphs; None reads it from batch.

        Returns:
            Log-probabilities, [n, out_channels].
        """
        x_attention = self.trans_conv(x, batch, batch_size)
        x_conv = self.graph_conv(x, edge_index)
        if self.aggregate == "add":
            x = self.graph_weight * x_conv + (1 - self.graph_weight) * x_attention
        else:
            x = torch.cat([x_attention, x_conv], dim=1)
        return F.log_softmax(self.fc(x), dim=-1)


class _Part(Module):
    """Base class of the two parts of SGFormer; a part is an input layer and hidden layers with
    normalisation.
    """

    fcs: ModuleList
    bns: ModuleList
    dropout: float
    activation: Callable[[Tensor], Tensor]

    def _project_input(self, x: Tensor) -> Tensor:
        linear = cast(Linear, self.fcs[0])
        check_input_of("x", x, linear)
        return self._normalise(linear(x), 0)

    def _normalise(self, x: Tensor, layer: int) -> Tensor:
        """Apply the normalisation of a layer, the activation function and dropout."""
        return F.dropout(self.activation(self.bns[layer](x)), self.dropout, self.training)


def _reset(*modules: Iterable[Module]) -> None:
    for group in modules:
        for module in group:
            cast(Any, module).reset_parameters()


class SGModule(_Part):
    """Attention part of :class:`SGFormer`.

    Args:
        in_channels: number of node features.
        hidden_channels: number of output features.
        num_layers: number of layers.
        num_heads: number of heads of each layer.
        dropout: dropout probability.
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
        """Reset all learnable parameters."""
        _reset(self.attns, self.bns, self.fcs)

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """Apply the attention layers to node features [n, in_channels]."""
        x = self._project_input(x)
        for layer, attn in enumerate(self.attns, 1):
            x = self._normalise((attn(x, index=batch, dim_size=batch_size) + x) / 2, layer)
        return x


class GraphModule(_Part):
    """Graph convolution part of :class:`SGFormer`.

    Args:
        in_channels: number of node features.
        hidden_channels: number of output features.
        num_layers: number of layers.
        dropout: dropout probability.
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
        """Reset all learnable parameters."""
        _reset(self.convs, self.bns, self.fcs)

    def forward(self, x: Tensor, edge_index: Adj | Graph) -> Tensor:
        """Apply the graph convolutions to node features [n, in_channels]."""
        x = projected = self._project_input(x)
        graph = graph_among(edge_index, x)
        for layer, conv in enumerate(self.convs, 1):
            x = self._normalise(convolve(cast(GCNConv, conv), x, graph), layer) + projected
        return x
