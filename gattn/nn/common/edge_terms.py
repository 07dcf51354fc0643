"""A weight and a bias that a caller gives to single edges, on either path of a layer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
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
from gattn.ops.registration.checks import as_bias


class EdgeTerms(NamedTuple):
    r"""What a caller says of the edges of a graph, in their order; the same for every layer.

    .. math::
        \mathrm{out}_i = \sum_{j \in N(i)} w_{ij}\, \alpha_{ij} v_j, \qquad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)} (s_{ij} + b_{ij})

    A weight multiplies the message of its edge and is no part of the softmax: this is what a
    subclass of PyG's layers does that multiplies in ``message``. For weights that are normalised
    with the scores, :math:`\alpha_{ij} \propto w_{ij} e^{s_{ij}}`, the bias is their logarithm.
    A self-loop that a layer adds has the weight 1 and the bias 0.

    A bias of -inf drops its edge from the softmax; a node whose edges are all dropped gets what one
    without edges does. A bias of booleans is a mask, as in torch's attention: True keeps the edge,
    False drops it. Weights of booleans are the numbers 1 and 0.
    """

    weight: Tensor | None = None
    """w, [e]."""
    bias: Tensor | None = None
    """b, [e, 1] or [e, h]."""

    def biased(self, score: Tensor) -> Tensor:
        """s + b, of scores [e, h] or [e]."""
        if self.bias is None:
            return score
        bias = self.bias.to(score.dtype)
        return score + (
            bias.squeeze(1) if score.dim() == 1 else tile_heads(bias, 1, score.shape[1])
        )

    def bias_like(self, score: Tensor) -> Tensor | None:
        """b in the dtype and the heads of a tensor [*, h, ...]: [e, h], or [e, 1] for all heads."""
        if self.bias is None or self.bias.shape[1] == 1:
            return None if self.bias is None else self.bias.to(score.dtype)
        return tile_heads(self.bias.to(score.dtype), 1, score.shape[1])

    def joined_bias(self, bias: Tensor | None, score: Tensor) -> Tensor | None:
        """Add b to another bias of a score, or return it as :meth:`bias_like` does without one."""
        return self.bias_like(score) if bias is None else self.biased(bias)

    def weight_like(self, value: Tensor) -> Tensor | None:
        """w in the dtype of a tensor: [e]."""
        return None if self.weight is None else self.weight.to(value.dtype)

    def weighted(self, messages: Tensor) -> Tensor:
        """What the edges bring, [e, ...], times w."""
        if self.weight is None:
            return messages
        return messages * self.weight.to(messages.dtype).view(-1, *(1,) * (messages.dim() - 1))


NO_TERMS = EdgeTerms()


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
    """The terms of the edges of a graph, loops included, from those of the caller's edges.

    Args:
        edge_index: the edges, as the caller gave them.
        graph: what :func:`gattn.nn.common.edge_inputs.read_edges` made of them.
        like: a tensor of the layer's dtype.
        edge_weight: w, [e] or [e, 1] in the caller's order, or None.
        attn_bias: b, [e], [e, 1] or [e, h] in the caller's order, or None; or a mask.
        heads: number of scores of an edge, h.
        self_loops: whether the layer added loops.

    Returns:
        The terms.

    Raises:
        TypeError: for anything but a tensor, for complex numbers, or for floats of another dtype
            than the layer's.
        ValueError: for a wrong shape or device.
    """
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
            None if term is None else with_loop_features(term, graph, of_loop)
            for term, of_loop in ((edge_weight, 1.0), (attn_bias, 0.0))
        )
    return EdgeTerms(edge_weight, attn_bias)


def _checked(name: str, term: Tensor, like: Tensor) -> Tensor:
    """A term in the dtype of the layer: integers are taken for numbers, as booleans are."""
    if term.device != like.device:
        raise ValueError(f"{name} must be on {like.device}, as x; got {term.device}")
    if term.is_complex():
        raise TypeError(f"{name} must hold real numbers; got {term.dtype}")
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
    """The terms of the edges of every type, as :func:`read_terms` for each.

    Raises:
        TypeError: for anything but dictionaries.
        ValueError: for a type of which the graph has no edges.
    """
    for name, supplied in (("edge_weight", edge_weight), ("attn_bias", attn_bias)):
        if supplied is not None and not isinstance(supplied, Mapping):
            raise TypeError(
                f"{name} must be a dictionary by edge type; got {type(supplied).__name__}"
            )
        unknown = set(supplied or {}) - set(graphs)
        if unknown:
            raise ValueError(f"{name} must hold edge types of {list(graphs)}; got {min(unknown)}")
    weight, bias = edge_weight or {}, attn_bias or {}
    return {
        key: read_terms(edges[key], graph, like, weight.get(key), bias.get(key), heads=heads)
        for key, graph in graphs.items()
    }


def join_terms(parts: list[EdgeTerms], graphs: list[Graph], heads: int, like: Tensor) -> EdgeTerms:
    """The terms of all edges, one graph after the other."""
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
    """The terms of the forward that runs in this thread: one layer may run in several at once."""

    layer: MessagePassing | None = None
    terms: EdgeTerms = NO_TERMS
    unused: tuple[str, ...] = ()
    """Which of the terms no equation has asked for."""
    weights: Tensor | None = None
    """The weights of the edges before dropout, once an equation has formed them."""


_active = _ActiveTerms()


class TermsEdgeByEdge(MessagePassing):
    """The edge-by-edge path of a layer whose edges have a weight or a bias.

    Its equations take what PyG's take. So the terms are told to the layer for the time of a
    forward (:meth:`bind_terms`): :meth:`softmax` adds the bias, :meth:`aggregate` multiplies.
    """

    dropout: float = 0.0

    @contextmanager
    def bind_terms(self, terms: EdgeTerms) -> Iterator[None]:
        """Bind edge_weight and attn_bias for this forward, for the equations of PyG.

        Raises:
            ValueError: they ran and did not ask, for a subclass overrides what would.
        """
        before = _active.layer, _active.terms, _active.unused, _active.weights
        names = {"edge_weight": terms.weight, "attn_bias": terms.bias}
        _active.layer, _active.terms, _active.weights = self, terms, None
        _active.unused = tuple(name for name, term in names.items() if term is not None)
        try:
            yield
            unused = _active.unused
        finally:
            _active.layer, _active.terms, _active.unused, _active.weights = before
        if unused:
            raise ValueError(
                f"{self} runs equations that know nothing of {' and '.join(unused)}: its aggregate "
                "must call that of gattn, and what makes its weights must call self.softmax"
            )

    def softmax(
        self, score: Tensor, index: Tensor, ptr: Tensor | None = None, size: int | None = None
    ) -> Tensor:
        """PyG's softmax of scores [e, h] or [e], with their bias, over the edges into each node.

        Where the bias drops all edges of a node their weights are zeros, not PyG's NaN.
        """
        score = self.biased(score)
        if self._terms.bias is None:
            return softmax(score, index, ptr, size)
        dropped = score == -torch.inf
        score = score.masked_fill(dropped, torch.finfo(score.dtype).min)
        return softmax(score, index, ptr, size).masked_fill(dropped, 0.0)

    def biased(self, score: Tensor) -> Tensor:
        """The scores [e, h] or [e] with the bias of this forward, if there is one."""
        self._read("attn_bias")
        return self._terms.biased(score)

    def drop_weights(self, alpha: Tensor) -> Tensor:
        """Weights after dropout; those before it are what the layer returns of this forward."""
        if _active.layer is self:
            _active.weights = alpha
        return F.dropout(alpha, self.dropout, self.training)

    def before_dropout(self, alpha: Tensor | None) -> Tensor | None:
        """The weights before dropout, of those that ``edge_updater`` gave in this forward.

        Where ``edge_update`` is not the layer's own, or has a hook, they are what it gave: a layer
        of PyG's that somebody derived returns them, too.
        """
        weights = _active.weights if _active.layer is self else None
        if weights is None or not pyg_internals.is_original(self, "edge_update"):
            return alpha
        return weights

    def aggregate(
        self, inputs: Tensor, index: Tensor, ptr: Tensor | None = None, dim_size: int | None = None
    ) -> Tensor:
        """PyG's sum of the messages, each times its edge's weight if there is one."""
        self._read("edge_weight")
        return super().aggregate(self._terms.weighted(inputs), index, ptr, dim_size)

    @property
    def _terms(self) -> EdgeTerms:
        """The terms of the forward that runs in this thread."""
        return _active.terms if _active.layer is self else NO_TERMS

    def _read(self, term: str) -> None:
        if _active.layer is self:
            _active.unused = tuple(name for name in _active.unused if name != term)


pyg_internals.register_equations(TermsEdgeByEdge)
