"""The arguments edge_weight and attn_bias of layers, for fused kernels and for computation edge
by edge.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.typing import EdgeType
from torch_geometric.utils import softmax

from gattn.compat import pyg as pyg_internals
from gattn.graph import Graph
from gattn.nn.common.checks import is_autocast
from gattn.nn.common.edge_inputs import edge_rows, with_loop_features
from gattn.nn.common.features import as_columns, tile_heads
from gattn.ops.registration import path_trace
from gattn.ops.registration.checks import as_bias

FEW_EDGES, FEW_OF_TYPE, NARROW = 500, 1_500, 8
"""Number of edges below which a layer may take more time than PyG's layer, and numbers of edges
of a type and of channels below which HANConv does, as ``python -m benchmarks.shapes`` shows.
"""
SMALL_GRAPH = (
    f"with fewer than {FEW_EDGES} edges, the calls take more time than the arithmetic, as in PyG: "
    "join several graphs to a batch"
)


class EdgeTerms(NamedTuple):
    r"""Weight and score bias of each edge, both optional, in the caller's order of edges.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} w_{ij}\, \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)} (s_{ij} + b_{ij})

    A weight multiplies the message of its edge and does not change the softmax. The result is the
    same as if a subclass of a PyG layer multiplied the messages in ``message``. To let the softmax
    normalise the weights together with the scores, :math:`\alpha_{ij} \propto w_{ij} e^{s_{ij}}`,
    pass their logarithm as the bias. A self-loop that a layer adds has weight 1 and bias 0.

    A bias of -inf removes its edge from the softmax. A node whose edges are all removed gets the
    same result as a node without edges. A boolean bias is a mask, as in torch's attention: True
    keeps the edge, False removes it. Boolean weights are converted to 1 and 0.
    """

    weight: Tensor | None = None
    """Weights w, [e]; None if all weights are 1."""
    bias: Tensor | None = None
    """Biases b, [e, 1] or [e, h]; None if there is no bias."""

    def biased(self, score: Tensor) -> Tensor:
        """Return scores [e, h] or [e], with the bias of each edge added."""
        if self.bias is None:
            return score
        bias = self.bias.to(score.dtype)
        return score + (
            bias.squeeze(1) if score.dim() == 1 else tile_heads(bias, 1, score.shape[1])
        )

    def bias_like(self, score: Tensor) -> Tensor | None:
        """Return the bias in the dtype of a tensor [*, h, ...], as [e, h] or [e, 1]. Returns None
        without a bias.
        """
        if self.bias is None or self.bias.shape[1] == 1:
            return None if self.bias is None else self.bias.to(score.dtype)
        return tile_heads(self.bias.to(score.dtype), 1, score.shape[1])

    def joined_bias(self, bias: Tensor | None, score: Tensor) -> Tensor | None:
        """Return the sum of ``bias`` (which may be None) and the bias in this object, [e, h] or [e,
        1]; None if both are. Only the dtype and the heads of ``score`` [*, h, ...] are read.
        """
        return self.bias_like(score) if bias is None else self.biased(bias)

    def weight_like(self, value: Tensor) -> Tensor | None:
        """Return the weights, [e], in the dtype of a tensor; None if there are no weights."""
        return None if self.weight is None else self.weight.to(value.dtype)

    def weighted(self, messages: Tensor) -> Tensor:
        """Return the messages of the edges, [e, ...], multiplied by the weights."""
        if self.weight is None:
            return messages
        return messages * self.weight.to(messages.dtype).view(-1, *(1,) * (messages.dim() - 1))


NO_TERMS = EdgeTerms()


def report_shape(width: int, least: int, graphs: Collection[Graph] = ()) -> None:
    """Report a ``width`` in channels below ``least``, or a graph, one for each edge type, with few
    edges, to :func:`gattn.explain_path`; without it, do nothing.
    """
    if path_trace.listeners and (
        width < least or any(graph.num_edges < FEW_OF_TYPE for graph in graphs)
    ):
        edges = f" or {FEW_OF_TYPE:,} edges of a type" if graphs else ""
        path_trace.report(
            "", "", "fused", f"with fewer than {least} channels{edges}, PyG's layer may take less "
            "time: join several graphs to a batch, use more channels, or keep PyG's layer"
        )  # fmt: skip


def read_terms(
    edge_index: Any,
    graph: Graph,
    like: Tensor,
    edge_weight: Tensor | None,
    attn_bias: Tensor | None,
    *,
    heads: int = 1,
    self_loops: bool = False,
) -> EdgeTerms:
    """Check edge_weight and attn_bias, and add entries for the self-loops that the layer added. A
    graph with few edges is reported to :func:`gattn.explain_path`.

    Args:
        edge_index: the edges, as the caller passed them.
        graph: the graph that :func:`gattn.nn.common.edge_inputs.read_edges` returned for them.
        like: a tensor of the layer's dtype.
        edge_weight: w, [e] or [e, 1] in the caller's order, or None.
        attn_bias: b, [e], [e, 1] or [e, h] in the caller's order, a boolean mask, or None.
        heads: number of scores per edge, h.
        self_loops: whether the layer added self-loops.

    Returns:
        The terms of the edges of ``graph``.

    Raises:
        TypeError: for anything but a tensor, for complex numbers, or for floats of another dtype
            than the layer's.
        ValueError: for a wrong shape or device.
    """
    if path_trace.listeners and graph.num_edges < FEW_EDGES:
        path_trace.report("", "", "fused", SMALL_GRAPH)
    if edge_weight is None and attn_bias is None:
        return NO_TERMS
    if attn_bias is not None:
        attn_bias = edge_rows(edge_index, attn_bias, "attn_bias", heads)
        attn_bias = as_columns(_checked("attn_bias", as_bias(attn_bias, like), like))
    if edge_weight is not None:
        edge_weight = edge_rows(edge_index, edge_weight, "edge_weight", 1).flatten()
        edge_weight = _checked("edge_weight", edge_weight, like)
    if self_loops:
        edge_weight, attn_bias = (
            None if term is None else with_loop_features(term, graph, loop_value)
            for term, loop_value in ((edge_weight, 1.0), (attn_bias, 0.0))
        )
    return EdgeTerms(edge_weight, attn_bias)


def _checked(name: str, term: Tensor, like: Tensor) -> Tensor:
    """Check a weight or bias, and return it converted to the dtype of the layer. Raises ValueError
    for another device, and TypeError for complex numbers or another floating-point dtype (integers,
    and any real dtype under autocast, are converted).
    """
    if term.device != like.device:
        raise ValueError(f"{name} must be on {like.device}, as x; got {term.device}")
    if term.is_complex():
        raise TypeError(f"{name} must contain real numbers; got {term.dtype}")
    if term.dtype != like.dtype and term.is_floating_point() and not is_autocast(like):
        raise TypeError(f"{name} must be {like.dtype}, as x; got {term.dtype}")
    return term.to(like.dtype)


def read_typed_terms(
    edges: Mapping[EdgeType, Any],
    graphs: Mapping[EdgeType, Graph],
    like: Tensor,
    edge_weight: Mapping[EdgeType, Tensor] | None,
    attn_bias: Mapping[EdgeType, Tensor] | None,
    heads: int,
) -> dict[EdgeType, EdgeTerms]:
    """Return the weights and biases of the edges of each type. The arguments have the entries of
    :func:`read_terms` by edge type; ``like`` and ``heads`` are the same for all.

    Raises:
        TypeError: if edge_weight or attn_bias is not a dictionary.
        ValueError: for an edge type that is not in ``graphs``.
        The errors of :func:`read_terms`: for a term that does not fit to the edges of its type.
    """
    for name, by_type in (("edge_weight", edge_weight), ("attn_bias", attn_bias)):
        if by_type is not None and not isinstance(by_type, Mapping):
            raise TypeError(
                f"{name} must be a dictionary by edge type; got {type(by_type).__name__}"
            )
        unknown = set(by_type or {}) - set(graphs)
        if unknown:
            raise ValueError(
                f"{name} must contain edge types of {list(graphs)}; got {min(unknown)}"
            )
    weight, bias = edge_weight or {}, attn_bias or {}
    return {
        key: read_terms(edges[key], graph, like, weight.get(key), bias.get(key), heads=heads)
        for key, graph in graphs.items()
    }


def join_terms(parts: list[EdgeTerms], graphs: list[Graph], heads: int, like: Tensor) -> EdgeTerms:
    """Concatenate the weights [e] and the biases [e, heads] of several graphs, in their order.
    Edges of a graph without weights get 1, and without biases 0; the result is None where no graph
    has any.
    """
    if all(terms is NO_TERMS for terms in parts):
        return NO_TERMS
    weights, biases = [], []
    for (weight, bias), graph in zip(parts, graphs):
        edges = graph.num_edges
        weights.append(like.new_ones(edges) if weight is None else weight)
        biases.append(like.new_zeros(edges, heads) if bias is None else bias.expand(-1, heads))
    return EdgeTerms(
        None if all(terms.weight is None for terms in parts) else torch.cat(weights),
        None if all(terms.bias is None for terms in parts) else torch.cat(biases),
    )


class _ActiveTerms(threading.local):
    """Weights and biases that apply to the edges in the forward pass of this thread.

    The state is local to a thread, because one layer may run in several threads at once.
    """

    layer: MessagePassing | None = None
    terms: EdgeTerms = NO_TERMS
    unused: tuple[str, ...] = ()
    """Names of the arguments that no method of the layer has used yet."""
    weights: Tensor | None = None
    """Attention weights before dropout; None until a method has computed them."""


_active = _ActiveTerms()


class TermsEdgeByEdge(MessagePassing):
    """Base class of layers that can apply edge weights and score biases without kernels, edge by
    edge.

    Methods such as ``message`` have the same arguments as in PyG, so the terms cannot be passed to
    them. :meth:`bind_terms` stores the terms during a forward, :meth:`softmax` adds the bias to the
    scores, and :meth:`aggregate` multiplies the messages by the weights.
    """

    dropout: float = 0.0

    @contextmanager
    def bind_terms(self, terms: EdgeTerms) -> Iterator[None]:
        """Store edge_weight and attn_bias during a forward pass, for the methods that PyG calls in
        it.

        Raises:
            ValueError: if a term was not read, because a subclass overrides the method that
                reads it.
        """
        previous = _active.layer, _active.terms, _active.unused, _active.weights
        names = {"edge_weight": terms.weight, "attn_bias": terms.bias}
        _active.layer, _active.terms, _active.weights = self, terms, None
        _active.unused = tuple(name for name, term in names.items() if term is not None)
        try:
            yield
            unused = _active.unused
        finally:
            _active.layer, _active.terms, _active.unused, _active.weights = previous
        if unused:
            raise ValueError(
                f"{self} overrides methods that ignore {' and '.join(unused)}: its aggregate must "
                "call that of gattn, and its attention weights must come from self.softmax"
            )

    def softmax(
        self, score: Tensor, index: Tensor, ptr: Tensor | None = None, size: int | None = None
    ) -> Tensor:
        """Compute PyG's softmax over the edges into each node, of the scores plus their bias, [e,
        h] or [e]. ``index`` [e] is the destination of each edge.

        If the bias removes all edges of a node, their weights are 0, where PyG returns NaN.
        """
        score = self.biased(score)
        if self._terms.bias is None:
            return softmax(score, index, ptr, size)
        dropped = score == -torch.inf
        score = score.masked_fill(dropped, torch.finfo(score.dtype).min)
        return softmax(score, index, ptr, size).masked_fill(dropped, 0.0)

    def biased(self, score: Tensor) -> Tensor:
        """Add the bias of this forward pass, if there is one, to the scores, [e, h] or [e]. The
        bias then counts as used in :meth:`bind_terms`.
        """
        self._read("attn_bias")
        return self._terms.biased(score)

    def drop_weights(self, alpha: Tensor) -> Tensor:
        """Apply dropout, in training, to the attention weights [e, h] or [e], and store the weights
        before dropout if :meth:`bind_terms` is active.

        The layer returns or records the stored weights after the forward pass.
        """
        if _active.layer is self:
            _active.weights = alpha
        return F.dropout(alpha, self.dropout, self.training)

    def before_dropout(self, alpha: Tensor | None) -> Tensor | None:
        """Return the stored attention weights before dropout; if none are stored, return alpha.

        Alpha is the result of ``edge_updater``. It is also returned if a subclass or a hook
        replaces ``edge_update``, because PyG's layers return the result of the replacement, too.
        """
        weights = _active.weights if _active.layer is self else None
        if weights is None or not pyg_internals.is_original(self, "edge_update"):
            return alpha
        return weights

    def aggregate(
        self, inputs: Tensor, index: Tensor, ptr: Tensor | None = None, dim_size: int | None = None
    ) -> Tensor:
        """Multiply each message, [e, ...], by the weight of its edge, and sum the messages into the
        destinations ``index`` [e] as PyG does: [n, ...]. The weight then counts as used in
        :meth:`bind_terms`.
        """
        self._read("edge_weight")
        return super().aggregate(self._terms.weighted(inputs), index, ptr, dim_size)

    @property
    def _terms(self) -> EdgeTerms:
        """Weights and biases for the forward pass of this layer in this thread."""
        return _active.terms if _active.layer is self else NO_TERMS

    def _read(self, term: str) -> None:
        """Remove a term from the unused terms, for which :meth:`bind_terms` raises an error."""
        if _active.layer is self:
            _active.unused = tuple(name for name in _active.unused if name != term)


pyg_internals.register_equations(TermsEdgeByEdge)
