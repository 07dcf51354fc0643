"""FAConv: signed weights, that may take a neighbour's features away."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import (
    Adj,
    OptTensor,
    SparseTensor,  # pyright: ignore[reportAttributeAccessIssue]
)

from gattn.functional import aggregate, edge_dot
from gattn.graph import Graph, outside_transforms
from gattn.kernels.precision import acc_dtype
from gattn.nn.common.edge_inputs import edge_sum, read_edges, sparse_values, with_weights
from gattn.nn.common.edge_terms import EdgeTerms, read_terms
from gattn.nn.common.features import as_columns, as_heads, merge_heads, node_pair, project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.conv.base import AttentionConv
from gattn.ops.edges import sum_incoming


class FAConv(AttentionConv):
    r"""Frequency adaptive graph convolution: weights between -1 and 1, not a softmax.

    .. math::
        x'_i = \epsilon x^{(0)}_i + \sum_{j \in N(i) \cup \{i\}} w_{ij} \alpha_{ij} x_j, \qquad
        \alpha_{ij} = \tanh(a_r \cdot x_i + a_l \cdot x_j), \qquad
        w_{ij} = \frac{1}{\sqrt{d_i d_j}}

    with the in-degrees d (sums of weights, where the edges have any). Takes the arguments and the
    parameters of ``torch_geometric.nn.FAConv`` and gives its outputs.

    Args:
        channels: features of a node, d; -1 takes it from the first input.
        eps: epsilon, how much of the initial features is added.
        dropout: probability of dropping a weight in training.
        cached: whether the normalised edges of the first forward are kept for all others.
        add_self_loops: whether each node attends to itself, where ``normalize`` is set: loops in
            the input are replaced by one loop per node.
        normalize: whether :math:`w_{ij}` is computed; else it is given.
        **kwargs: of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x and x_0 [n, channels], or [b, n, channels] for b sets of features on one
          set of edges; edges as pairs (2, e), an adjacency [n, n] (its values are edge weights)
          or a :class:`gattn.Graph`; edge weights [e]
        - **output:** that of x; epsilon times the initial features for a node without edges

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: for a wrong shape, a dropout that is no probability, an index out of range, or
            edge weights where they are computed or none where they are not, or biases of other
            edges than the cached ones.

    Reference:
        Bo et al., "Beyond low-frequency information in graph convolutional networks" (AAAI 2021).

    Example:
        >>> import torch
        >>> from gattn.nn import FAConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> x = torch.randn(3, 16)
        >>> FAConv(16)(x, x, edge_index).shape
        torch.Size([3, 16])
    """

    _alpha: OptTensor
    _cached_edge_index: tuple[Graph, Tensor] | None

    def __init__(
        self,
        channels: int,
        eps: float = 0.1,
        dropout: float = 0.0,
        cached: bool = False,
        add_self_loops: bool = True,
        normalize: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(kwargs, dropout=dropout, add_self_loops=add_self_loops)
        self.channels = channels
        self.eps = eps
        self.cached = cached
        self.normalize = normalize
        self._cached_edge_index = None
        self._cached_adj_t = None
        self._alpha = None
        self.att_l = Linear(channels, 1, bias=False)
        self.att_r = Linear(channels, 1, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew and forget the cached edges."""
        super().reset_parameters()
        self.att_l.reset_parameters()
        self.att_r.reset_parameters()
        self._cached_edge_index = None

    def forward(
        self,
        x: Tensor,
        x_0: Tensor,
        edge_index: Adj | Graph,
        edge_weight: OptTensor = None,
        return_attention_weights: bool | None = None,
        *,
        attn_bias: OptTensor = None,
    ) -> Any:
        """Sum along the edges.

        Args:
            x: node features, see Shapes.
            x_0: initial node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_weight: w, [e], where it is not computed.
            return_attention_weights: True or False to return the weights, too, as in PyG; None
                not to.
            attn_bias: b, [e], is added to the score of each edge, before tanh; of the cached
                edges, where ``cached`` is set.

        Returns:
            The new node features; asked for the weights, ``(out, (edge_index, alpha))`` with
            alpha [e] before dropout, aligned with the returned edges: the caller's without loops,
            then the loops, where they are added. For a sparse adjacency its entries.
        """
        x, _ = node_pair(x)
        graph, weight = self._weighted(edge_index, edge_weight, x)
        loops = self.normalize and self.add_self_loops
        terms = self._biases(edge_index, graph, x, attn_bias, loops)
        scores = project(self.att_l, x), project(self.att_r, x)
        if self.fused:
            score = edge_sum(scores[1].flatten(1), scores[0].flatten(1), graph)
            alpha = terms.biased(score).tanh()
            retained = F.dropout(alpha, self.dropout, self.training) * weight[:, None]
            out = aggregate(retained.to(x.dtype), as_heads(x), graph)
            out = merge_heads(out, 1, x, concat=True)
            alpha = alpha.squeeze(1) if x.dim() == 2 else alpha
        else:
            # propagate_type: (x: Tensor, alpha: PairTensor, edge_weight: OptTensor)
            with self.bind_terms(terms):
                out = self.propagate(graph.edge_index, x=x, alpha=scores, edge_weight=weight)
            out = out.transpose(0, 1) if x.dim() == 3 else out
            alpha, self._alpha = self._alpha, None
        if is_recording() and alpha is not None:
            record(alpha if alpha.dim() > 1 else alpha.unsqueeze(1), graph)
        out = out.add(x_0, alpha=self.eps) if self.eps != 0 else out
        if alpha is None or not isinstance(return_attention_weights, bool):
            return out
        return out, with_weights(edge_index, graph, alpha, x, self_loops=loops)

    def message(
        self, x_j: Tensor, alpha_j: Tensor, alpha_i: Tensor, edge_weight: OptTensor
    ) -> Tensor:
        """Weighted features of the edges: the edge-by-edge path."""
        assert edge_weight is not None
        self._alpha = alpha = self.biased((alpha_j + alpha_i).squeeze(-1)).tanh()
        alpha = F.dropout(alpha, self.dropout, self.training)
        weight = edge_weight.view(-1, *(1,) * (alpha.dim() - 1))
        return x_j * (alpha * weight).to(x_j.dtype).unsqueeze(-1)

    def _biases(
        self, edge_index: Any, graph: Graph, x: Tensor, attn_bias: OptTensor, loops: bool
    ) -> EdgeTerms:
        """The biases of the edges of the graph; cached edges must be those that they are given for.

        Raises:
            TypeError: for a mask: tanh makes a weight of -inf, too.
            ValueError: for biases of other edges than the cached ones.
        """
        if isinstance(attn_bias, Tensor) and attn_bias.dtype == torch.bool:
            raise TypeError(f"{self} has no softmax: attn_bias must hold numbers; got a mask")
        if attn_bias is not None and self._cached_edge_index is not None:
            supplied, _ = read_edges(edge_index, None, x, x, self_loops=loops)
            pairs, cached = supplied.edge_index, graph.edge_index
            if supplied is not graph and not (
                pairs.shape == cached.shape and torch.equal(pairs, cached)
            ):
                raise ValueError(
                    "attn_bias must belong to the cached edges, in their order; got other edges: "
                    f"call reset_parameters, or make {self} without cached"
                )
            graph = supplied
        return read_terms(edge_index, graph, x, None, attn_bias, self_loops=loops)

    def _weighted(self, edge_index: Any, edge_weight: OptTensor, x: Tensor) -> tuple[Graph, Tensor]:
        """The edges with w_ij: [e]."""
        if self._cached_edge_index is not None:
            return self._cached_edge_index
        if self.normalize and edge_weight is not None:
            raise ValueError("edge_weight is computed where normalize is set; got one")
        if edge_weight is None:
            edge_weight = sparse_values(edge_index, x.dtype)
        if self.normalize:
            normalized = outside_transforms(self._normalized) if self.cached else self._normalized
            result = normalized(edge_index, edge_weight, x)
        elif edge_weight is None:
            raise ValueError("edge_weight must be given where normalize is not set")
        else:
            graph, weight = read_edges(edge_index, edge_weight, x, x)
            assert weight is not None
            return graph, weight.flatten()
        if self.cached:
            self._cached_edge_index = result
        return result

    def _normalized(
        self, edge_index: Any, edge_weight: OptTensor, x: Tensor
    ) -> tuple[Graph, Tensor]:
        """w_ij in fp32 or wider: in fp16 a degree overflows at 2^16."""
        graph, weight = read_edges(edge_index, edge_weight, x, x, self_loops=self.add_self_loops)
        wide = acc_dtype(x.dtype)
        if weight is None:
            degree = graph.in_degree().to(wide)
        else:
            weight = as_columns(weight).to(wide)
            weight = _add_identity(edge_index, weight, x) if self.add_self_loops else weight
            degree = sum_incoming(weight, graph).squeeze(1)
        scale = degree.pow(-0.5)
        scale = scale.masked_fill(scale == torch.inf, 0).view(-1, 1, 1)
        norm = edge_dot(scale, scale, graph)
        return graph, (norm if weight is None else norm * weight).squeeze(1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, eps={self.eps})"


def _add_identity(adj_t: Any, weight: Tensor, x: Tensor) -> Tensor:
    """Values of a sparse adjacency plus the identity: the other edges' first, then the loops'.

    As in PyG, the diagonal of a SparseTensor is set to one.
    """
    source, destination = read_edges(adj_t, None, x, x)[0].edge_index
    loops = source == destination
    loop_weight = weight.new_ones(x.shape[0], 1)
    if not isinstance(adj_t, SparseTensor):
        loop_weight = loop_weight.index_add(0, source[loops], weight[loops])
    return torch.cat([weight[~loops], loop_weight])
