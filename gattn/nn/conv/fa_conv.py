"""The layer FAConv: graph convolution with learned weights between -1 and 1."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import Tensor
from torch_geometric.typing import (
    Adj,
    OptTensor,
    SparseTensor,  # pyright: ignore[reportAttributeAccessIssue]
)

from gattn.functional import aggregate, edge_dot
from gattn.graph import Graph, outside_transforms
from gattn.kernels.precision import acc_dtype
from gattn.nn.common.edge_inputs import edge_sum, read_edges, sparse_values, with_weights
from gattn.nn.common.edge_terms import NARROW, EdgeTerms, read_terms, report_shape
from gattn.nn.common.features import as_columns, as_heads, merge_heads, node_pair, project
from gattn.nn.common.recording import is_recording, record
from gattn.nn.conv.base import AttentionConv
from gattn.ops.edges import sum_incoming


class FAConv(pyg.FAConv, AttentionConv):
    r"""Frequency adaptive graph convolution. Its weights are computed by tanh instead of a softmax.

    .. math::
        x'_i = \epsilon x^{(0)}_i + \sum_{j \in N(i) \cup \{i\}} w_{ij} \alpha_{ij} x_j, \qquad
        \alpha_{ij} = \tanh(a_r \cdot x_i + a_l \cdot x_j), \qquad
        w_{ij} = \frac{1}{\sqrt{d_i d_j}}

    with the in-degrees d, which are sums of edge weights if the edges have weights. Has the
    arguments and the parameters of ``torch_geometric.nn.FAConv`` and returns the same outputs.

    Args:
        channels: number of node features, d; -1 takes it from the first input.
        eps: factor epsilon of the initial features.
        dropout: dropout probability of the weights alpha in training.
        cached: whether the normalised edges of the first forward are stored and used in all later
            ones.
        add_self_loops: whether each node also attends to itself, if ``normalize`` is set:
            self-loops in the input are replaced by one self-loop per node.
        normalize: whether :math:`w_{ij}` is computed; else forward needs it as ``edge_weight``.
        **kwargs: arguments of ``torch_geometric.nn.MessagePassing``.

    Shapes:
        - **input:** x and x_0 [n, channels], or [b, n, channels] for b sets of features on one
          set of edges; edges as pairs (2, e), an adjacency [n, n] (its values are edge weights)
          or a :class:`gattn.Graph`; edge weights [e]
        - **output:** the shape of x; epsilon times the initial features for a node without edges

    Raises:
        TypeError: if the edges have an unsupported type, or the dtypes differ.
        ValueError: for a wrong shape, a dropout that is not a probability, an index out of range,
            edge weights although ``normalize`` is set, missing edge weights although it is not
            set, or attn_bias for edges other than the cached ones.

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
        """Sum the weighted features of the neighbours, in training with dropout of the weights.
        With ``cached``, the first call stores the normalised edges in the layer, and later calls
        use them instead of ``edge_index``. The first call of a layer with the width -1 creates its
        weights. The attention weights are passed to the active recordings.

        Args:
            x: node features, see Shapes.
            x_0: initial node features, see Shapes.
            edge_index: the edges, see Shapes.
            edge_weight: w, [e]; required without ``normalize`` and not allowed with it.
            return_attention_weights: True or False returns the attention weights, too, as in PyG;
                None returns the features alone.
            attn_bias: b, [e], added to the score of each edge before tanh; with ``cached``, in
                the order of the cached edges.

        Returns:
            The new node features. With ``return_attention_weights``, ``(out, (edge_index, alpha))``
            with the weights alpha [e] before dropout, in the order of the returned edges: the
            caller's edges without self-loops, then the added self-loops; or the entries of a
            sparse adjacency. For a SparseTensor, ``(out, adj_t)`` with alpha as its values.

        Raises:
            TypeError: if the edges have an unsupported type, the dtypes differ, or attn_bias is a
                boolean mask.
            ValueError: for a wrong shape, an index out of range, edge weights with ``normalize``,
                missing edge weights without it, or attn_bias for edges other than the cached ones.
            RuntimeError: under torch.jit.trace.
        """
        x, _ = node_pair(x)
        graph, weight = self._weighted_edges(edge_index, edge_weight, x)
        loops = self.normalize and self.add_self_loops
        terms = self._biases(edge_index, graph, x, attn_bias, loops)
        scores = project(self.att_l, x), project(self.att_r, x)
        if self.fused:
            score = edge_sum(scores[1].flatten(1), scores[0].flatten(1), graph)
            alpha = terms.biased(score).tanh()
            dropped = F.dropout(alpha, self.dropout, self.training) * weight[:, None]
            out = aggregate(dropped.to(x.dtype), as_heads(x), graph)
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
        # Inductor in PyTorch 2.13 ignores the argument alpha of add if x_0 is a matrix product.
        out = out.sub(x_0, alpha=-self.eps) if self.eps != 0 else out
        if alpha is None or not isinstance(return_attention_weights, bool):
            return out
        return out, with_weights(edge_index, graph, alpha, x, self_loops=loops)

    def message(
        self, x_j: Tensor, alpha_j: Tensor, alpha_i: Tensor, edge_weight: OptTensor
    ) -> Tensor:
        """Return the features of the source nodes, [e, d], multiplied by the weights of the edges
        after dropout. The weights before dropout are stored in the layer.

        PyG calls this method if the layer computes edge by edge instead of with the kernels. The
        features of sources are [e, d], the terms alpha of both ends [e, 1], and the edge weights
        [e].
        """
        assert edge_weight is not None
        self._alpha = alpha = self.biased((alpha_j + alpha_i).squeeze(-1)).tanh()
        alpha = F.dropout(alpha, self.dropout, self.training)
        weight = edge_weight.view(-1, *(1,) * (alpha.dim() - 1))
        return x_j * (alpha * weight).to(x_j.dtype).unsqueeze(-1)

    def _biases(
        self, edge_index: Any, graph: Graph, x: Tensor, attn_bias: OptTensor, loops: bool
    ) -> EdgeTerms:
        """Check that attn_bias [e], if there is one, fits the cached edges, and return the edge
        terms with it. ``graph`` has the edges of the layer, with self-loops if ``loops`` is True.

        Raises:
            TypeError: for a boolean mask, because tanh gives masked edges the weight -1, not 0.
            ValueError: for biases of edges other than the cached ones.
            The errors of :func:`read_terms`: for biases that do not fit to the edges.
        """
        if isinstance(attn_bias, Tensor) and attn_bias.dtype == torch.bool:
            raise TypeError(f"{self} has no softmax: attn_bias must contain numbers; got a mask")
        if attn_bias is not None and self._cached_edge_index is not None:
            input_graph, _ = read_edges(edge_index, None, x, x, self_loops=loops)
            pairs, cached = input_graph.edge_index, graph.edge_index
            if input_graph is not graph and not (
                pairs.shape == cached.shape and torch.equal(pairs, cached)
            ):
                raise ValueError(
                    "attn_bias must belong to the cached edges, in their order; got other edges: "
                    f"call reset_parameters, or create {self} without cached"
                )
            graph = input_graph
        report_shape(x.shape[-1], NARROW)
        return read_terms(edge_index, graph, x, None, attn_bias, self_loops=loops)

    def _weighted_edges(
        self, edge_index: Any, edge_weight: OptTensor, x: Tensor
    ) -> tuple[Graph, Tensor]:
        """Return the edges and their weights w_ij, [e]. The weights are computed, read from the
        cache, or passed by the caller. With ``cached=True``, the first normalised weights are
        stored in the layer. Raises ValueError for weights with normalize=True, for missing weights
        with normalize=False, and the errors of :func:`read_edges`.
        """
        if self._cached_edge_index is not None:
            return self._cached_edge_index
        if self.normalize and edge_weight is not None:
            raise ValueError("edge_weight must be None with normalize=True; got weights")
        if edge_weight is None:
            edge_weight = sparse_values(edge_index, x.dtype)
        if self.normalize:
            normalized = outside_transforms(self._normalized) if self.cached else self._normalized
            result = normalized(edge_index, edge_weight, x)
        elif edge_weight is None:
            raise ValueError("edge_weight is required with normalize=False; got None")
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
        """Return the edges, with self-loops if the layer adds them, and their weights w_ij, [e], in
        fp32 or fp64, because a degree of 2^16 overflows fp16. Edges of a node of degree 0 have the
        weight 0. Raises the errors of :func:`read_edges`.
        """
        graph, weight = read_edges(edge_index, edge_weight, x, x, self_loops=self.add_self_loops)
        wide = acc_dtype(x.dtype)
        ends = graph if self.flow == "source_to_target" else graph.transpose()
        if weight is None:
            degree = ends.in_degree().to(wide)
        else:
            weight = as_columns(weight).to(wide)
            weight = _add_identity(edge_index, weight, x) if self.add_self_loops else weight
            degree = sum_incoming(weight, ends).squeeze(1)
        scale = degree.pow(-0.5)
        scale = scale.masked_fill(scale == torch.inf, 0).view(-1, 1, 1)
        norm = edge_dot(scale, scale, graph)
        return graph, (norm if weight is None else norm * weight).squeeze(1)


def _add_identity(adj_t: Any, weight: Tensor, x: Tensor) -> Tensor:
    """Add the identity matrix to a sparse adjacency matrix, for a graph with self-loops.

    Returns the values [e, 1] of the edges other than self-loops, then the values of the self-loops,
    from the values of all edges, ``weight`` [e, 1]. As in PyG, the diagonal of a SparseTensor is
    set to one and not increased by one. Raises the errors of :func:`read_edges`.
    """
    source, destination = read_edges(adj_t, None, x, x)[0].edge_index
    loops = source == destination
    loop_weight = weight.new_ones(x.shape[0], 1)
    if not isinstance(adj_t, SparseTensor):
        loop_weight = loop_weight.index_add(0, source[loops], weight[loops])
    return torch.cat([weight[~loops], loop_weight])
