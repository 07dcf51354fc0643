"""SGFormer: a graph transformer with linear attention among all nodes and graph convolutions."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.models import sgformer as pyg
from torch_geometric.typing import Adj

from gattn.graph import Graph
from gattn.models._pyg import PyGModel, convolve
from gattn.nn import SGFormerAttention
from gattn.nn.attention.block import graph_among
from gattn.nn.common.checks import check_input_of


class SGFormer(pyg.SGFormer, PyGModel):
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

    def _complete(self, arguments: dict[str, Any]) -> None:
        """Replace the classes of PyG's modules in place by gattn's, which have the same
        parameters.
        """
        # PyG's modules have the attributes of gattn's, which compute with them in another way.
        for attention in self.trans_conv.attns:
            attention.__class__ = SGFormerAttention
        self.trans_conv.__class__ = SGModule
        self.graph_conv.__class__ = GraphModule

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        batch: Tensor | None = None,
        *,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the log-probabilities of the classes for each node, in training with dropout and
        new statistics of a BatchNorm. The attention weights of the layers are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            batch: the graph of each node; None for a single graph.
            batch_size: number of graphs; None reads it from batch.

        Returns:
            Log-probabilities, [n, out_channels].

        Raises:
            TypeError: the edges have another type, or the dtypes differ.
            ValueError: a shape is wrong, or an index is out of range.
            RuntimeError: under torch.jit.trace.
        """
        x_attention = self.trans_conv(x, batch, batch_size)
        x_conv = self.graph_conv(x, edge_index)
        if self.aggregate == "add":
            x = self.graph_weight * x_conv + (1 - self.graph_weight) * x_attention
        else:
            x = torch.cat([x_attention, x_conv], dim=1)
        return F.log_softmax(self.fc(x), dim=-1)


class SGModule(pyg.SGModule):
    """Attention part of :class:`SGFormer`."""

    def forward(
        self, x: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """Apply the attention layers, in training with dropout, to node features [n, in_channels]:
        [n, hidden_channels]. The attention weights of the layers are passed to the active
        recordings. The arguments and errors are those of :meth:`SGFormer.forward`.
        """
        x = _project_input(self, x)
        for layer, attention in enumerate(self.attns, 1):
            mean = (attention(x, index=batch, dim_size=batch_size) + x) / 2
            x = _normalise(self, mean, layer)
        return x


class GraphModule(pyg.GraphModule):
    """Graph convolution part of :class:`SGFormer`."""

    def forward(self, x: Tensor, edge_index: Adj | Graph) -> Tensor:
        """Apply the graph convolutions, in training with dropout, to node features [n,
        in_channels]: [n, hidden_channels]. The arguments and errors are those of
        :meth:`SGFormer.forward`.
        """
        x = projected = _project_input(self, x)
        graph = graph_among(edge_index, x)
        for layer, conv in enumerate(self.convs, 1):
            x = _normalise(self, convolve(cast(GCNConv, conv), x, graph), layer) + projected
        return x


def _project_input(part: SGModule | GraphModule, x: Tensor) -> Tensor:
    """Return the first hidden features of a branch, [n, hidden_channels], after :func:`_normalise`.
    Raises ValueError or TypeError if x has a wrong width or dtype, and RuntimeError under
    torch.jit.trace.
    """
    linear = part.fcs[0]
    check_input_of("x", x, linear)
    return _normalise(part, linear(x), 0)


def _normalise(part: SGModule | GraphModule, x: Tensor, layer: int) -> Tensor:
    """Apply the normalisation of a layer, the activation function and dropout; in training, a
    BatchNorm updates its statistics.
    """
    return F.dropout(part.activation(part.bns[layer](x)), part.dropout, part.training)
