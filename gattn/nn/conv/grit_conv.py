"""The layer GRITConv: a graph transformer layer with learned features of node pairs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric.nn.inits import reset
from torch_geometric.typing import Adj

from gattn.functional import apply_edges
from gattn.graph import Graph
from gattn.nn.attention.block import feed_forward, norms
from gattn.nn.common.checks import (
    check_at_least,
    check_heads_divide,
    check_input,
    check_probability,
)
from gattn.nn.common.features import project, split_heads
from gattn.nn.common.scores import EdgeScore, WithEdgeValues, attend_with_score
from gattn.nn.conv.edge_product import read_required


class GRITConv(Module):
    r"""Graph transformer layer GRIT, whose edge features encode relative random walks.

    .. math::
        \hat e_{ij} = \mathrm{ReLU}\bigl( \rho\bigl( (W_q x_i + W_k x_j) \odot W_w e_{ij} \bigr)
        + W_b e_{ij} \bigr), \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}\, a \cdot \hat e_{ij}

    .. math::
        y_i = W_o \sum_{j \in N(i)} \alpha_{ij} \bigl( W_v x_j + W_{ev} \hat e_{ij} \bigr), \qquad
        x'_i = U\bigl(x_i,\; \theta_1 \odot y_i + \log(1 + d_i)\, \theta_2 \odot y_i\bigr),
        \qquad e'_{ij} = \mathrm{norm}(e_{ij} + W_{eo} \hat e_{ij})

    with :math:`\rho(z) = \mathrm{sign}(z) \sqrt{|z|}`, whose derivative at 0 is defined as 0, and
    :math:`U(a, b) = \mathrm{norm}(z + \mathrm{MLP}(z))`, :math:`z = \mathrm{norm}(a + b)`. The
    edges join all pairs of nodes of a graph, or nearby pairs only, and have the features of
    :class:`gattn.transforms.AddRelativeRandomWalkPE`, mapped to the width of the layer. The edge
    tensor :math:`\hat e` is the only tensor of size edges x channels that is formed
    (:func:`gattn.functional.apply_edges`).

    Args:
        channels: number of features of nodes and of edges, in the input and the output, h c.
        num_heads: number of heads, h; must divide channels.
        dropout: dropout probability, in training, of the MLP's hidden features and of the
            attention's output for nodes and edges.
        attn_dropout: dropout probability of the attention weights in training.
        layer_norm: whether to apply layer normalisation.
        batch_norm: whether to apply batch normalisation, after the layer normalisation.

    Shapes:
        - **input:** x [n, channels]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; edge features [e, channels]; degree d [n] of the nodes in the
          original graph, or None for the number of edges into each node
        - **output:** nodes [n, channels] and edges [e, channels], in the caller's order; for a
          node without edges the attention's output is zero

    Raises:
        TypeError: if the edges have an unsupported type, edge_attr is not a tensor, or
            dtypes differ.
        ValueError: if num_heads does not divide channels, a shape is wrong, or an index is out of
            range.

    Reference:
        Ma et al., "Graph inductive biases in transformers without message passing" (ICML 2023).

    Example:
        >>> import torch
        >>> from gattn.nn import GRITConv
        >>> from gattn.transforms import AddRelativeRandomWalkPE
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> data = AddRelativeRandomWalkPE(4)(Data(edge_index=path, x=torch.randn(3, 8)))
        >>> edge_attr = torch.nn.Linear(4, 8)(data.walk_probability)
        >>> nodes, edges = GRITConv(8, num_heads=2)(data.x, data.walk_index, edge_attr)
        >>> nodes.shape, edges.shape
        (torch.Size([3, 8]), torch.Size([9, 8]))
    """

    def __init__(
        self,
        channels: int,
        num_heads: int = 1,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        layer_norm: bool = False,
        batch_norm: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(1, channels=channels)
        check_heads_divide(num_heads, channels=channels)
        check_probability("dropout", dropout)
        check_probability("attn_dropout", attn_dropout)
        self.channels, self.num_heads = channels, num_heads
        self.dropout, self.attn_dropout = dropout, attn_dropout
        self.lin_query = Linear(channels, channels)
        self.lin_key = Linear(channels, channels, bias=False)
        self.lin_value = Linear(channels, channels, bias=False)
        self.stream = EdgeStream(channels, num_heads)
        self.att = Parameter(torch.empty(num_heads, channels // num_heads))
        self.lin_edge_value = Parameter(
            torch.empty(num_heads, channels // num_heads, channels // num_heads)
        )
        self.lin_out, self.lin_edge_out = Linear(channels, channels), Linear(channels, channels)
        self.degree_scale = Parameter(torch.empty(2, channels))
        self.mlp = feed_forward(channels, 2 * channels, "relu", dropout)
        self.norm1, self.norm2, self.norm_edge = (
            norms(channels, layer_norm, batch_norm) for _ in range(3)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        for module in self.children():
            reset(module)
        for weight in (self.att, self.lin_edge_value, self.degree_scale):
            torch.nn.init.xavier_normal_(weight)

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        edge_attr: Tensor,
        degree: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute the attention along the edges, and update nodes and edges.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_attr: edge features, see Shapes.
            degree: number of edges of each node in the original graph, see Shapes.

        Returns:
            The new features of the nodes and of the edges.

        Raises:
            ValueError: if x, edge_attr or degree has a wrong shape.
            TypeError: if edge_attr is missing, or x or edge_attr does not have the dtype of the
                layer.
        """
        check_input("x", x, self.channels, self.lin_query)
        graph, edge_attr = read_required(edge_index, edge_attr, x)
        check_input("edge_attr", edge_attr, self.channels, self.stream.lin_weight)
        query, key, value = (
            split_heads(project(linear, x), self.channels // self.num_heads)
            for linear in (self.lin_query, self.lin_key, self.lin_value)
        )
        stream = apply_edges(self.stream, query, key, graph, edge_attr=edge_attr)
        score = WithEdgeValues(
            EdgeScore(torch.einsum("ehc,hc->eh", stream, self.att)), stream, self.lin_edge_value
        )
        out, _ = attend_with_score(score, value, graph, dropout=self.attn_dropout * self.training)
        y = self._scale_by_degree(self.lin_out(self._drop(out.flatten(1))), graph, degree)
        z = self.norm1(x + y)
        edges = self.lin_edge_out(self._drop(stream.flatten(1)))
        return self.norm2(z + self.mlp(z)), self.norm_edge(edge_attr + edges)

    def _drop(self, features: Tensor) -> Tensor:
        return F.dropout(features, self.dropout, self.training)

    def _scale_by_degree(self, y: Tensor, graph: Graph, degree: Tensor | None) -> Tensor:
        """Return theta_1 y + log(1 + d) theta_2 y, where y is the attention output and d are the
        node degrees. The degrees are the numbers of incoming edges if ``degree`` is None. Raises
        ValueError if ``degree`` is not [n].
        """
        degree = graph.in_degree() if degree is None else degree
        if degree.shape != y.shape[:1]:
            raise ValueError(f"degree must have shape ({y.shape[0]},); got {tuple(degree.shape)}")
        plain, with_degree = self.degree_scale
        return y * (plain + degree.to(y.dtype).log1p().unsqueeze(1) * with_degree)

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"{self.channels}, num_heads={self.num_heads}"


class EdgeStream(Module):
    r"""Hidden edge features of GRIT, computed from query, key and edge features.

    .. math:: \hat e_{ij} = \mathrm{ReLU}(\rho((q_i + k_j) \odot W_w e_{ij}) + W_b e_{ij})

    Args:
        channels: number of edge features, and of output channels over all heads.
        heads: number of heads, h.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.lin_weight, self.lin_bias = Linear(channels, channels), Linear(channels, channels)

    def forward(self, query: Tensor, key: Tensor, edge_attr: Tensor) -> Tensor:
        """Return the hidden features of b edges, [b, h, c], for their query and key rows [b, h,
        c].
        """
        weight, bias = (
            lin(edge_attr).unflatten(-1, (self.heads, -1))
            for lin in (self.lin_weight, self.lin_bias)
        )
        return (signed_root((query + key) * weight) + bias).relu()


def signed_root(z: Tensor) -> Tensor:
    """Return sign(z) * sqrt(abs(z)), with derivative 0 at z = 0."""
    magnitude = z.abs()
    root = magnitude.where(magnitude > 0, 1.0).sqrt()
    return torch.where(magnitude > 0, z.sign() * root, 0.0)
