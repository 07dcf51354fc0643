"""Polynormer: a graph transformer that consists of local layers, followed by linear attention
among all nodes.
"""

from __future__ import annotations

from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.nn import GCNConv
from torch_geometric.nn.models import polynormer as pyg
from torch_geometric.typing import Adj

from gattn.compat.pyg import retyped
from gattn.graph import Graph
from gattn.models._pyg import PyGModel, convolve
from gattn.nn import GATConv, PolynormerAttention
from gattn.nn.attention.block import graph_among
from gattn.nn.common.checks import check_input_of


class Polynormer(pyg.Polynormer, PyGModel):
    r"""Polynormer model, which returns the log-probabilities of the classes for every node.

    .. math::
        y = \mathrm{ReLU}(\mathrm{local}(x, E) + W x), \qquad
        x \leftarrow (1 - \beta)\, \mathrm{LN}\big(\mathrm{ReLU}(H x) \odot y\big) + \beta y

    for every local layer. The outputs of the local layers are added up. There are two classifiers:
    one on this sum, and one on the output of the :class:`gattn.nn.PolynormerAttention` layers that
    follow. As in PyG, the attribute ``_global`` selects one of them: set it to True once the local
    layers have been trained. Has the arguments and parameters of ``torch_geometric.nn.Polynormer``
    and its outputs for a single graph. With several graphs, PyG counts padded rows as nodes in the
    attention, so the result for one graph depends on the largest; here nothing is padded, and the
    nodes of each graph attend only to each other.

    Args:
        in_channels: number of node features.
        hidden_channels: hidden width of each head.
        out_channels: number of classes.
        local_layers: number of layers along the edges.
        global_layers: number of attention layers among all nodes.
        in_dropout: dropout probability of the input features.
        dropout: dropout probability in local layers.
        global_dropout: dropout probability in global layers.
        heads: number of heads; with more than 1, PyG's global layers have other parameter shapes.
        beta: weight beta of y in the equation.
        qk_shared: whether queries and keys of the global attention are the same.
        pre_ln: whether to apply a LayerNorm before each local layer.
        post_bn: whether to apply a BatchNorm after each local layer.
        local_attn: whether local layers are :class:`gattn.nn.GATConv`; False for GCNConv.

    Shapes:
        - **input:** x [n, in_channels]; edges as pairs (2, e), an adjacency [n, n], whose values
          are not read, or a :class:`gattn.Graph`; batch [n], the graph of each node, in any order
        - **output:** [n, out_channels]

    Raises:
        TypeError: edges have another type, or dtypes differ.
        ValueError: an argument or a shape is invalid, or an index is out of range.

    Reference:
        Deng, Yue and Zhang, "Polynormer: polynomial-expressive graph transformer in linear time"
        (ICLR 2024).

    Example:
        >>> import torch
        >>> from gattn.models import Polynormer
        >>> model = Polynormer(16, 32, 7, local_layers=2, local_attn=True)
        >>> model(torch.randn(3, 16), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 7])
    """

    def _complete(self, arguments: dict[str, Any]) -> None:
        """Replace the attention layers of PyG's model in place by gattn's, with the same
        parameters.
        """
        for layer, conv in enumerate(self.local_convs):
            if isinstance(conv, pyg.GATConv):
                self.local_convs[layer] = retyped(conv, GATConv)
        for attention in self.global_attn:
            # PyG's module has the attributes of gattn's, which computes with them in another way.
            attention.__class__ = PolynormerAttention

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
            ValueError: if an input has a wrong shape, or an index is out of range.
            TypeError: if the edges have another type, or an input not the dtype of the model.
            RuntimeError: under torch.jit.trace.
        """
        check_input_of("x", x, self.lin_in)
        local = self._attend_locally(x, graph_among(edge_index, x))
        if not self._global:
            return F.log_softmax(self.pred_local(local), dim=-1)
        x = self.ln(local)
        for attn in self.global_attn:
            x = attn(x, index=batch, dim_size=batch_size)
        return F.log_softmax(self.pred_global(x), dim=-1)

    def _attend_locally(self, x: Tensor, graph: Graph) -> Tensor:
        """Return the sum of the outputs of the local layers, [n, h * c]. In training, there is
        dropout, and a BatchNorm after a layer updates its statistics. The attention weights of the
        layers are passed to the active recordings.
        """
        x = F.dropout(x, self.in_drop, self.training)
        total: Tensor | int = 0
        for layer, conv in enumerate(self.local_convs):
            if self.pre_ln:
                x = self.pre_lns[layer](x)
            gate = self.h_lins[layer](x).relu()
            x = _convolve(conv, x, graph) + self.lins[layer](x)
            if self.post_bn:
                x = self.post_bns[layer](x)
            x = F.dropout(x.relu(), self.dropout, self.training)
            x = (1 - self.beta) * self.lns[layer](gate * x) + self.beta * x
            total = total + x
        return cast(Tensor, total)


def _convolve(conv: Module, x: Tensor, graph: Graph) -> Tensor:
    """Compute a layer; a layer of PyG other than GCNConv gets the edges instead of the graph."""
    if isinstance(conv, GCNConv):
        return convolve(conv, x, graph)
    return conv(x, graph if isinstance(conv, GATConv) else graph.edge_index)
