"""The layer AGNNConv: graph attention by cosine similarity with one learned temperature."""

from __future__ import annotations

import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor

from gattn.graph import Graph
from gattn.nn.common.edge_inputs import read_edges
from gattn.nn.common.features import as_heads, merge_heads, node_pair
from gattn.nn.common.scores import FusedScore, dot_product_score
from gattn.nn.conv.base import AttentionConv, Nodes


class AGNNConv(pyg.AGNNConv, AttentionConv):
    r"""Graph attention by cosine similarity.

    .. math::
        x'_i = \sum_{j \in N(i) \cup \{i\}} \alpha_{ij} x_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \beta \cos(x_i, x_j)

    Has the arguments and the parameter of ``torch_geometric.nn.AGNNConv`` and returns the same
    outputs.

    Args:
        requires_grad: whether the temperature beta is learned; else it is 1.
        add_self_loops: whether each node also attends to itself: self-loops in the input are
            replaced by one self-loop per node.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``, of which
            ``decomposed_layers`` is ignored.

    Shapes:
        - **input:** x [n, d], or [b, n, d] for b sets of features on one set of edges; edges as
          pairs (2, e), an adjacency [n, n] or a :class:`gattn.Graph`
        - **output:** the shape of x; zeros for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape or an index out of range.

    Reference:
        Thekumparampil et al., "Attention-based graph neural network for semi-supervised learning"
        (2018).

    Example:
        >>> import torch
        >>> from gattn.nn import AGNNConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> AGNNConv()(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 16])
    """

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        *,
        edge_weight: OptTensor = None,
        attn_bias: OptTensor = None,
    ) -> Tensor:
        """Compute the attention along the edges. The attention weights are passed to the active
        recordings.

        Args:
            x: node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_weight: [e], multiplies the message of each edge.
            attn_bias: [e], added to the score of each edge; -inf removes the edge.

        Returns:
            The new node features.

        Raises:
            TypeError: if the edges have an unsupported type, or the dtypes differ.
            ValueError: for a wrong shape or an index out of range.
            RuntimeError: under torch.jit.trace, or if attention weights are recorded and the layer
                computes edge by edge without them.
        """
        x, _ = node_pair(x)
        graph, _ = read_edges(edge_index, None, x, x, self_loops=self.add_self_loops)
        x_norm = F.normalize(x, dim=-1).to(x.dtype)
        nodes = Nodes(as_heads(x_norm), as_heads(x_norm), as_heads(x))
        terms = self.read_terms(edge_index, graph, x, edge_weight, attn_bias)
        return merge_heads(self.attend(nodes, None, graph, terms=terms)[0], 1, x, concat=True)

    def _score(self, nodes: Nodes, edge_attr: OptTensor, graph: Graph) -> FusedScore:
        return dot_product_score(self.beta.to(nodes.key.dtype) * nodes.key, nodes.key, scale=1.0)

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: OptTensor, graph: Graph
    ) -> tuple[Tensor, OptTensor]:
        """Return the outputs [n, 1, d], computed by PyG's message passing, and None instead of
        weights.
        """
        x, x_norm = nodes.value.squeeze(1), nodes.key.squeeze(1)
        # propagate_type: (x: Tensor, x_norm: Tensor)
        return as_heads(self.propagate(graph.edge_index, x=x, x_norm=x_norm)), None

    def message(
        self,
        x_j: Tensor,
        x_norm_i: Tensor,
        x_norm_j: Tensor,
        index: Tensor,
        ptr: OptTensor,
        size_i: int | None,
    ) -> Tensor:
        """Return the features that the edges pass on, [e, d], multiplied by the attention weights.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        features of sources and the normalised features of both ends are [e, d], and ``index`` [e]
        is the destination.
        """
        alpha = self.softmax(self.beta * (x_norm_i * x_norm_j).sum(-1), index, ptr, size_i)
        return x_j * alpha.unsqueeze(-1)
