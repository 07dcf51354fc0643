"""What the convolution layers share: their settings, and the two paths that a forward may take."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, NamedTuple, overload

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import MessagePassing, SumAggregation
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import EdgeType

from gattn.compat import pyg as pyg_internals
from gattn.compat.torch import has_local_hooks
from gattn.graph import Graph
from gattn.nn.common.checks import check_features, check_settings, is_lazy, readable_weight
from gattn.nn.common.edge_inputs import with_loop_features
from gattn.nn.common.edge_terms import NO_TERMS, EdgeTerms, TermsEdgeByEdge, read_terms
from gattn.nn.common.features import as_columns, features_and_weight, is_plain, tile_heads
from gattn.nn.common.recording import is_recording, is_recording_anywhere, record
from gattn.nn.common.scores import Score, attend_with_score

_LIBRARIES = ("gattn", "torch", "torch_geometric")


def _levels_to_the_caller() -> int:
    """How far the first frame that is of no library lies from where this is called."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and (frame := frame.f_back) is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
            break
        level += 1
    return level


class Nodes(NamedTuple):
    """What the nodes at the ends of an edge bring to it, [*, h] or [*, h, c]."""

    query: Tensor | None
    key: Tensor
    value: Tensor
    value_dst: Tensor | None = None
    """Values of the destinations, which messages may read: the edge-by-edge path alone."""


class AttentionConv(TermsEdgeByEdge):
    """A layer with two paths: the fused operator, and PyG's edge-by-edge one.

    The fused path runs unless something wants to see or change single edges: explain mode, a
    hook on messages, propagation or edge updates, an equation overridden in a subclass, a mixin or
    on the instance, another aggregation than the sum, or a reversed flow. :attr:`slow_path_reason`
    tells.

    A layer says what its attention is by ``_score``, for the fused path, and by
    ``_edge_by_edge`` and the equations of ``MessagePassing``, for the other.

    Args:
        options: of ``torch_geometric.nn.MessagePassing``, and :attr:`checkpoint`.
        **settings: of the layer; they are checked and become its attributes.

    Raises:
        TypeError: for an option that neither has.
        ValueError: for a setting that is none.
    """

    in_channels: Any
    out_channels: int
    heads: int
    concat: bool
    negative_slope: float
    dropout: float = 0.0
    add_self_loops: bool = False
    edge_dim: int | None
    fill_value: float | Tensor | str
    lin_edge: Linear | None
    checkpoint: bool = False
    """Whether a forward keeps its inputs alone for the backward, which computes the rest again
    (``torch.utils.checkpoint``)."""
    _noted: tuple[str, dict[str, Any]] = "", {}
    """Which equations of the class are overridden, in words, and all that it had at that time."""
    _warned = False

    def __init__(self, options: dict[str, Any], **settings: Any) -> None:
        is_checkpointed = bool(options.pop("checkpoint", False))
        unknown = options.keys() - inspect.signature(MessagePassing).parameters.keys()
        if unknown:
            names = [name for name in inspect.signature(type(self)).parameters if name != "kwargs"]
            raise TypeError(
                f"{type(self).__name__} has no argument {min(unknown)!r}; it has {', '.join(names)}"
            )
        super().__init__(node_dim=0, **{"aggr": "add", **options})
        if is_checkpointed:  # else the class says it: a layer has no more attributes than PyG's
            self.checkpoint = True
        check_settings(**settings)
        for name, value in settings.items():
            setattr(self, name, value)
        self._note()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("gattn."):
            pyg_internals.register_equations(cls)

    def __setstate__(self, data: dict[str, Any]) -> None:
        super().__setstate__(data)
        self._note()

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Run the layer, and its hooks."""
        if self.checkpoint and torch.is_grad_enabled() and not is_recording_anywhere():
            return checkpoint(super().__call__, *inputs, use_reentrant=False, **options)
        return super().__call__(*inputs, **options)

    @classmethod
    def _note(cls) -> None:
        """Note the equations of the class, once PyG has written its own into it."""
        result = pyg_internals.equations(cls)
        if result != cls._noted[1]:
            cls._noted = pyg_internals.overridden(cls), result

    @property
    def _overrides(self) -> str:
        """Which equations of the class are overridden, in words; also by what came after it."""
        words, noted = self._noted
        kind = type(self)
        for name, equation in noted.items():
            if getattr(kind, name) is not equation:
                return pyg_internals.overridden(kind)
        return words

    @property
    def fused(self) -> bool:
        """Whether the next forward runs the fused operator."""
        return self.slow_path_reason == ""

    @property
    def slow_path_reason(self) -> str:
        """Why the next forward runs edge by edge, slowly, in words; empty where it does not."""
        if self.explain:
            return "explain mode is on"
        if overrides := self._overrides:
            return overrides
        if self.flow != "source_to_target":
            return f"flow is {self.flow!r}"
        aggr = self._modules.get("aggr_module")
        if type(aggr) is not SumAggregation or has_local_hooks(aggr) or "forward" in vars(aggr):
            return f"it aggregates by {aggr}, not by the plain sum"
        for name in self._edge_maps:
            if not self._is_readable(name):
                return f"{name} does more than multiply and add its bias"
        if reason := self._slow_setting():
            return reason
        for name in pyg_internals.replaced_methods(self):
            return f"{name} was replaced on the instance"
        return pyg_internals.edge_hooks(self)

    def _slow_setting(self) -> str:
        """What in the settings of the layer itself forbids the operator, in words."""
        return ""

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        """Maps on the edges whose weights the operator reads in place of calling them."""
        return ("lin_edge",)

    def _is_readable(self, name: str) -> bool:
        """Whether the operator may read the weight of a map in place of calling it."""
        linear = getattr(self, name, None)
        return linear is None or is_lazy(linear) or is_plain(linear)

    def attend(
        self,
        nodes: Nodes,
        edge_attr: Tensor | None,
        graph: Graph,
        want_weights: bool = False,
        edge_type: EdgeType | None = None,
        terms: EdgeTerms = NO_TERMS,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention along the edges: fused or, where something wants to see them, edge by edge.

        Args:
            nodes: what the ends of the edges bring.
            edge_attr: edge features, in the caller's order.
            graph: the edges.
            want_weights: whether to return the weights.
            edge_type: the type of the edges, where a layer has several.
            terms: weights and biases of single edges.

        Returns:
            The sums of the values, [n, h, c], and the weights [e, h] where they are asked for.
        """
        if not self.fused:
            graph, (key, value) = graph.fetch_source_rows(nodes.key, nodes.value)
            nodes = nodes._replace(key=key, value=value)
            with self.bind_terms(terms):
                out, alpha = self._edge_by_edge(nodes, edge_attr, graph)
                alpha = self.before_dropout(alpha)
            self.note_edge_by_edge(alpha, graph)
            return out, alpha if want_weights else None
        return attend_with_score(
            self._score(nodes, edge_attr, graph), nodes.value, graph, terms=terms,
            dropout=self.dropout_now(), want_weights=want_weights, edge_type=edge_type,
        )  # fmt: skip

    def note_edge_by_edge(self, alpha: Tensor | None, graph: Graph) -> None:
        """Pass the edge-by-edge attention weights to active recorders.

        Raises:
            RuntimeError: it forms none, or none that can be told, and somebody records.
        """
        if not is_recording():
            return
        if alpha is None:
            raise RuntimeError(
                f"{self} cannot tell its weights here, for it runs edge by edge: "
                f"{self.slow_path_reason}"
            )
        record(alpha.flatten(1) if alpha.dim() > 1 else alpha.unsqueeze(1), graph)

    def _score(self, nodes: Nodes, edge_attr: Tensor | None, graph: Graph) -> Score:
        """The score of the edges, for the fused operator."""
        raise NotImplementedError

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: Tensor | None, graph: Graph
    ) -> tuple[Tensor, Tensor | None]:
        """Attention by PyG's ``edge_updater`` and ``propagate``."""
        raise NotImplementedError

    def dropout_now(self) -> float:
        """The layer's dropout probability while training, else 0."""
        return self.dropout if self.training else 0.0

    @overload
    def edge_features(self, edge_attr: Tensor, graph: Graph) -> Tensor: ...
    @overload
    def edge_features(self, edge_attr: None, graph: Graph) -> None: ...
    def edge_features(self, edge_attr: Tensor | None, graph: Graph) -> Tensor | None:
        """The caller's edge features, and those of the self-loops that the layer added."""
        if edge_attr is None:
            return None
        weight = readable_weight(self.lin_edge)
        if weight is not None:
            check_features("edge_attr", as_columns(edge_attr), weight.shape[1], weight)
        if not self.add_self_loops:
            return edge_attr
        return with_loop_features(edge_attr, graph, self.fill_value)

    def read_terms(
        self,
        edge_index: Any,
        graph: Graph,
        x: Tensor,
        edge_weight: Tensor | None,
        attn_bias: Tensor | None,
    ) -> EdgeTerms:
        """The caller's weights and biases of single edges, and those of the layer's self-loops."""
        return read_terms(
            edge_index, graph, x, edge_weight, attn_bias,
            heads=getattr(self, "heads", 1), self_loops=self.add_self_loops,
        )  # fmt: skip

    def edge_term(
        self, edge_attr: Tensor | None, graph: Graph, like: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """(a, W_e) as an operator takes them, in the heads and the dtype of [n, h, c]."""
        if edge_attr is None:
            return None, None
        lin_edge, columns = self._given_edge_map(), as_columns(self.edge_features(edge_attr, graph))
        if is_lazy(lin_edge):
            lin_edge(columns[:0])
        columns, weight = features_and_weight(lin_edge, columns)
        weight = tile_heads(weight.unflatten(0, (self.heads, -1)), 0, like.shape[1])
        return columns.to(like.dtype), weight.to(like.dtype)

    def edge_values(self, edge_attr: Tensor, heads: int) -> Tensor:
        """W_e a_ij written out, [e, h, c]: for the edge-by-edge path."""
        values = self._given_edge_map()(as_columns(edge_attr))
        return tile_heads(values.unflatten(1, (self.heads, -1)), 1, heads)

    def warn_of_ignored(self, edge_attr: Tensor) -> None:
        """Warn once where the layer was given edge features that PyG's ignores, and so does it."""
        if self._warned or torch.compiler.is_compiling():
            return
        width = 1 if edge_attr.dim() == 1 else edge_attr.shape[-1]
        warnings.warn(
            f"{self} was made without edge_dim and ignores edge_attr, as PyG's does: make it with "
            f"edge_dim={width} to use them, or leave edge_attr out",
            stacklevel=_levels_to_the_caller(),
        )
        self._warned = True

    def _given_edge_map(self) -> Linear:
        if self.lin_edge is None:
            raise ValueError(f"{self} was made without edge_dim and takes no edge_attr")
        return self.lin_edge

    def __repr__(self) -> str:
        plain = super().__repr__()
        return plain if "heads" not in vars(self) else f"{plain[:-1]}, heads={self.heads})"
