"""Base class of the convolution layers: settings, the fused operator and edge-by-edge
computation.
"""

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
from gattn.nn.common.checks import (
    check_features,
    check_settings,
    is_lazy,
    readable_weight,
)
from gattn.nn.common.edge_inputs import with_loop_features
from gattn.nn.common.edge_terms import (
    NARROW,
    NO_TERMS,
    EdgeTerms,
    TermsEdgeByEdge,
    read_terms,
    report_shape,
)
from gattn.nn.common.features import (
    as_columns,
    channel_pair,
    features_and_weight,
    is_plain,
    tile_heads,
)
from gattn.nn.common.recording import is_recording, is_recording_anywhere, record
from gattn.nn.common.scores import Score, attend_with_score

_LIBRARIES = ("gattn", "torch", "torch_geometric")


def _stacklevel_outside_libraries() -> int:
    """Return the ``stacklevel`` with which a warning of the calling function names the first line
    of user code.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and (frame := frame.f_back) is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _LIBRARIES:
            break
        level += 1
    return level


class Nodes(NamedTuple):
    """Projected node features that a layer gathers for its edges, [*, h] or [*, h, c] for h
    heads of c channels.
    """

    query: Tensor | None
    key: Tensor
    value: Tensor
    value_dst: Tensor | None = None
    """Values of the destination nodes. They are only used if messages are computed edge by edge."""


class AttentionConv(pyg_internals.Twin, TermsEdgeByEdge):
    """Base class of layers with two implementations: a fused operator, and PyG's message passing.

    The fused operator runs unless another part of the program must read or change single edges:
    explain mode, a hook on messages, propagation or edge updates, an equation overridden in a
    subclass, a mixin or on the instance, an aggregation other than the sum, or a reversed flow.
    :attr:`slow_path_reason` describes which of these applies.

    A subclass defines its attention twice: ``_score`` for the fused path, and ``_edge_by_edge``
    with the methods of ``MessagePassing`` for the edge-by-edge path.

    The first base class of a layer is PyG's layer, whose constructor creates the parameters.

    Args:
        **options: arguments of ``torch_geometric.nn.MessagePassing``, and :attr:`checkpoint`.

    Raises:
        TypeError: for an unknown option.
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
    """True if the layer stores only its inputs, and backward computes everything else again
    (``torch.utils.checkpoint``).
    """
    _class_equations: tuple[str, dict[str, Any]] = "", {}
    """Pair of a description of the equations that the class overrides, and of all equations of the
    class, by which a later replacement is detected.
    """
    _warned = False

    def __init__(self, **options: Any) -> None:
        is_checkpointed = bool(options.pop("checkpoint", False))
        unknown = options.keys() - inspect.signature(MessagePassing).parameters.keys()
        if unknown:
            names = [name for name in inspect.signature(type(self)).parameters if name != "kwargs"]
            raise TypeError(
                f"{type(self).__name__} has no argument {min(unknown)!r}; it has {', '.join(names)}"
            )
        super().__init__(**{"aggr": "add", **options, "node_dim": 0})
        if is_checkpointed:
            # The attribute is set only if it is True, so that other layers have the same attributes
            # as PyG's layers.
            self.checkpoint = True
        self._store_equations()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give gattn's layers PyG's generic methods of message passing, and register their
        equations, so that a later replacement by a user is detected.
        """
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("gattn."):
            # A layer of PyG among the base classes may have methods that PyG generated for it.
            cls.propagate, cls.edge_updater = MessagePassing.propagate, MessagePassing.edge_updater
            pyg_internals.register_equations(*cls.__bases__, cls)

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Check the widths, the heads and the dropout. A number of channels of another integer
        type, such as NumPy's, is replaced by an int in ``arguments``. Raises ValueError or
        TypeError for invalid settings.
        """
        check_settings(**arguments)
        in_channels: Any = arguments.get("in_channels")
        if hasattr(in_channels, "__index__"):
            # PyG's layers treat any number that is not an int, such as one of NumPy, as a pair.
            arguments["in_channels"] = int(in_channels)
        if in_channels is not None and not isinstance(in_channels, dict):
            channel_pair(in_channels)

    def __setstate__(self, data: dict[str, Any]) -> None:
        super().__setstate__(data)
        self._store_equations()

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Run the forward pass and the hooks of the layer. If ``checkpoint`` is set, use a
        checkpoint, unless gradients are disabled or attention weights are recorded.
        """
        if self.checkpoint and torch.is_grad_enabled() and not is_recording_anywhere():
            return checkpoint(super().__call__, *inputs, use_reentrant=False, **options)
        return super().__call__(*inputs, **options)

    @classmethod
    def _store_equations(cls) -> None:
        """Store the equations of the class, after PyG has added its own equations to the class."""
        equations = pyg_internals.equations(cls)
        if equations != cls._class_equations[1]:
            cls._class_equations = pyg_internals.overridden(cls), equations

    @property
    def _overrides(self) -> str:
        """Description of the equations that the class overrides; "" if there are none.

        Equations that were replaced on the class after its definition are included.
        """
        description, equations = self._class_equations
        cls = type(self)
        for name, equation in equations.items():
            if getattr(cls, name) is not equation:
                return pyg_internals.overridden(cls)
        return description

    @property
    def fused(self) -> bool:
        """True if the next forward pass runs the fused operator."""
        return self.slow_path_reason == ""

    @property
    def slow_path_reason(self) -> str:
        """Reason why the next forward pass is computed edge by edge; "" if it runs the fused
        operator.
        """
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
        """Return the setting of this layer that prevents the use of the fused operator; "" if
        there is none.
        """
        return ""

    @property
    def _edge_maps(self) -> tuple[str, ...]:
        """Names of the linear layers for edge features whose weights the fused operator reads.

        The operator does not call these modules.
        """
        return ("lin_edge",)

    def _is_readable(self, name: str) -> bool:
        """Return True if the operator may read the weight of a linear layer without calling the
        layer.
        """
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
        """Compute the attention along the edges, with the fused operator or edge by edge. The
        weights are also passed to the active recordings.

        The page docs/paths.md lists the functions from this method to the kernel.

        Args:
            nodes: queries, keys and values of the nodes.
            edge_attr: edge features [e, d] or [e], in the caller's order.
            graph: the edges.
            want_weights: whether to return the attention weights.
            edge_type: type of these edges, for a layer with several edge types.
            terms: edge_weight and attn_bias of the edges.

        Returns:
            The weighted sums of the values, [n, h, c], and the attention weights [e, h], or None
            without ``want_weights``.

        Raises:
            ValueError: if a subclass overrides the method that reads a term, or for edge features
                of a wrong width or without edge_dim.
            RuntimeError: if the weights are recorded and the layer computes edge by edge without
                them.
            TypeError: for edge features of a wrong dtype.
        """
        if not self.fused:
            graph, (key, value) = graph.fetch_source_rows(nodes.key, nodes.value)
            nodes = nodes._replace(key=key, value=value)
            with self.bind_terms(terms):
                out, alpha = self._edge_by_edge(nodes, edge_attr, graph)
                alpha = self.before_dropout(alpha)
            self.record_edge_by_edge(alpha, graph)
            return out, alpha if want_weights else None
        return attend_with_score(
            self._score(nodes, edge_attr, graph), nodes.value, graph, terms=terms,
            dropout=self.dropout_now(), want_weights=want_weights, edge_type=edge_type,
        )  # fmt: skip

    def record_edge_by_edge(self, alpha: Tensor | None, graph: Graph) -> None:
        """Pass attention weights that were computed edge by edge, [e, h] or [e], to the active
        recordings.

        Raises:
            RuntimeError: if a recorder is active but the path provides no weights (alpha is None).
        """
        if not is_recording():
            return
        if alpha is None:
            raise RuntimeError(
                f"{self} cannot record its attention weights, because it runs edge by edge: "
                f"{self.slow_path_reason}"
            )
        record(alpha.flatten(1) if alpha.dim() > 1 else alpha.unsqueeze(1), graph)

    def _score(self, nodes: Nodes, edge_attr: Tensor | None, graph: Graph) -> Score:
        """Return the attention score of the edges, for the fused operator."""
        raise NotImplementedError

    def _edge_by_edge(
        self, nodes: Nodes, edge_attr: Tensor | None, graph: Graph
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the attention edge by edge with PyG's ``edge_updater`` and ``propagate``.

        Returns:
            The weighted sums [n, h, c], and the weights [e, h] or None.
        """
        raise NotImplementedError

    def dropout_now(self) -> float:
        """Return the dropout probability of the layer in training mode; 0 in evaluation mode."""
        return self.dropout if self.training else 0.0

    @overload
    def edge_features(self, edge_attr: Tensor, graph: Graph) -> Tensor: ...
    @overload
    def edge_features(self, edge_attr: None, graph: Graph) -> None: ...
    def edge_features(self, edge_attr: Tensor | None, graph: Graph) -> Tensor | None:
        """Return the caller's edge features [e, d] or [e], then those of the added self-loops.
        Returns None if edge_attr is None. Raises ValueError for a wrong width or an unknown
        reduction in ``fill_value``, TypeError for a wrong dtype, and RuntimeError under
        torch.jit.trace.
        """
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
        """Return edge_weight and attn_bias of all edges, including the added self-loops; see
        :func:`gattn.nn.common.edge_terms.read_terms`. Only the dtype and the device of x are read.
        Raises TypeError or ValueError for a term that does not fit to the edges.
        """
        return read_terms(
            edge_index, graph, x, edge_weight, attn_bias,
            heads=getattr(self, "heads", 1), self_loops=self.add_self_loops,
        )  # fmt: skip

    def edge_term(
        self, edge_attr: Tensor | None, graph: Graph, like: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the edge features a [e, d] and their projection W_e [h, c, d] for an operator.

        Both get the dtype of ``like``, [n, h, c], and W_e is repeated to its number of heads.
        Returns (None, None) without edge features. A lazy ``lin_edge`` gets its parameters, which
        are drawn at random, at the first call. Raises ValueError for edge features without edge_dim
        or of a wrong width, TypeError for a wrong dtype, and RuntimeError under torch.jit.trace.
        """
        if edge_attr is None:
            return None, None
        lin_edge = self._required_edge_map()
        report_shape(like.shape[1] * like.shape[2], NARROW)
        columns = as_columns(self.edge_features(edge_attr, graph))
        if is_lazy(lin_edge):
            lin_edge(columns[:0])
        columns, weight = features_and_weight(lin_edge, columns)
        weight = tile_heads(weight.unflatten(0, (self.heads, -1)), 0, like.shape[1])
        return columns.to(like.dtype), weight.to(like.dtype)

    def edge_values(self, edge_attr: Tensor, heads: int) -> Tensor:
        """Return the projected features of each edge, W_e a_ij: [e, h, c]. Raises ValueError in a
        layer without edge_dim.

        The layer calls this method if it computes edge by edge instead of with the kernels.
        """
        values = self._required_edge_map()(as_columns(edge_attr))
        return tile_heads(values.unflatten(1, (self.heads, -1)), 1, heads)

    def warn_of_ignored(self, edge_attr: Tensor) -> None:
        """Issue one warning that a layer without edge_dim ignores edge_attr, like PyG's layer. A
        layer warns once, and compiled code never.
        """
        if self._warned or torch.compiler.is_compiling():
            return
        width = 1 if edge_attr.dim() == 1 else edge_attr.shape[-1]
        warnings.warn(
            f"{self} was created without edge_dim and ignores edge_attr, as PyG's does: pass "
            f"edge_dim={width} to the layer to use them, or leave edge_attr out",
            stacklevel=_stacklevel_outside_libraries(),
        )
        self._warned = True

    def _required_edge_map(self) -> Linear:
        """Return the linear layer of the edge features. Raises ValueError in a layer without
        edge_dim.
        """
        if self.lin_edge is None:
            raise ValueError(f"{self} was created without edge_dim and takes no edge_attr")
        return self.lin_edge

    def __repr__(self) -> str:
        plain = super().__repr__()
        return plain if "heads" not in vars(self) else f"{plain[:-1]}, heads={self.heads})"
