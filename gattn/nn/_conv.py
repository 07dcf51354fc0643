"""What the convolution layers share: which path runs, the inputs, the heads."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear

from gattn import pyg_internals
from gattn.nn._checks import check_features, check_tensor, check_width
from gattn.ops import projection
from gattn.ops.features import is_sum_over_edges, sparse_linear
from gattn.ops.node import node_scores

_EQUATIONS = ("edge_update", "message", "message_and_aggregate", "aggregate", "update")
_MODULE_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


class AttentionConv(MessagePassing):
    """A layer with two paths: the fused operator, and PyG's edge by edge one.

    The fused path runs unless something wants to see or change single edges: explain mode, a
    hook on messages, propagation or edge updates, an equation overridden in a subclass or on the
    instance, another aggregation than the sum, or a reversed flow.
    """

    dropout: float
    heads: int
    _overrides = ""
    """Which equation a subclass of the layer has overridden, in words."""

    def __init__(self, **options: Any) -> None:
        unknown = options.keys() - inspect.signature(MessagePassing).parameters.keys()
        if unknown:
            own = [name for name in inspect.signature(type(self)).parameters if name != "kwargs"]
            raise TypeError(
                f"{type(self).__name__} has no argument {min(unknown)!r}; it has {', '.join(own)}"
            )
        super().__init__(**options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [name for name in _EQUATIONS if name in vars(cls)]
        if AttentionConv not in cls.__bases__ and own:
            cls._overrides = f"{cls.__name__} overrides {', '.join(own)}"

    @property
    def fused(self) -> bool:
        """Whether the next forward runs the fused operator."""
        return self.why_not_fused == ""

    @property
    def why_not_fused(self) -> str:
        """Why the next forward runs edge by edge, slowly, in words; empty where it does not."""
        if self.explain:
            return "explain mode is on"
        if self._overrides:
            return self._overrides
        if self.flow != "source_to_target":
            return f"flow is {self.flow!r}"
        if self.aggr not in ("add", "sum"):
            return f"aggr is {self.aggr!r}, not the sum"
        if not self._edge_map_is_plain:
            return "lin_edge does more than multiply by its weight"
        for name in _EQUATIONS:
            if name in self.__dict__:
                return f"{name} was replaced on the instance"
        return pyg_internals.edge_hooks(self)

    @property
    def _edge_map_is_plain(self) -> bool:
        """Whether the operator may read the weight of the edges' map in place of calling it."""
        linear = getattr(self, "lin_edge", None)
        return (
            linear is None
            or isinstance(getattr(linear, "weight", None), UninitializedParameter)
            or is_plain(linear)
        )

    def dropout_now(self) -> float:
        """The layer's dropout probability while training, else 0."""
        return self.dropout if self.training else 0.0

    def edge_term(
        self, edge_attr: Tensor | None, like: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """(a, W_e) as an operator takes them, in the heads and the dtype of [n, h, c]."""
        if edge_attr is None:
            return None, None
        weight = tile_heads(self._edge_weight(edge_attr), 0, like.shape[1])
        if not torch.is_autocast_enabled(like.device.type) and edge_attr.dtype != like.dtype:
            raise TypeError(f"edge_attr must be {like.dtype}, as x; got {edge_attr.dtype}")
        return edge_attr.to(like.dtype), weight.to(like.dtype)

    def check_edge_width(self, edge_attr: Tensor) -> None:
        """Raise where it is known already that edge_attr does not fit the edges' map."""
        weight = getattr(getattr(self, "lin_edge", None), "weight", None)
        if isinstance(weight, Tensor) and not isinstance(weight, UninitializedParameter):
            check_width("edge_attr", edge_attr, weight.shape[1])

    def edge_values(self, edge_attr: Tensor, heads: int) -> Tensor:
        """W_e a_ij written out, [e, h, c]: for the edge by edge path."""
        linear: Any = getattr(self, "lin_edge", None)
        if linear is None:
            raise ValueError(f"{self} was made without edge_dim and takes no edge_attr")
        return tile_heads(linear(edge_attr).unflatten(1, (self.heads, -1)), 1, heads)

    def _edge_weight(self, edge_attr: Tensor) -> Tensor:
        """The weight of the edges' projection as [h, c, d]; initialises a lazy one."""
        linear: Any = self.lin_edge
        if linear is None:
            raise ValueError(f"{self} was made without edge_dim and takes no edge_attr")
        if isinstance(linear.weight, UninitializedParameter):
            linear(edge_attr[:0])
        self.check_edge_width(edge_attr)
        return linear.weight.unflatten(0, (self.heads, -1))


def node_inputs(x: Any) -> tuple[Tensor, Tensor | None]:
    """Source and destination features with nodes first: [m, d], or [m, b, d] from [b, m, d].

    One tensor serves as both. A leading batch dimension (b sets of features on one set of edges)
    becomes the second one, where it rides among the heads.
    """
    if isinstance(x, Tensor):
        x = nodes_first(x)
        return x, x
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise TypeError(
            f"x must be a tensor or a pair (source, destination); got {type(x).__name__}"
        )
    x_src, x_dst = x
    return nodes_first(x_src), None if x_dst is None else nodes_first(x_dst)


def node_pair(x: Any) -> tuple[Tensor, Tensor]:
    """As :func:`node_inputs`, where the destinations must have features, too."""
    x_src, x_dst = node_inputs(x)
    if x_dst is None:
        raise ValueError("x must hold features for source and destination nodes; got None for one")
    return x_src, x_dst


def channel_pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """Widths of the source's and the destination's features; -1 waits for the first input."""
    pair = in_channels if isinstance(in_channels, (tuple, list)) else (in_channels, in_channels)
    if len(pair) != 2 or not all(hasattr(width, "__index__") and width >= -1 for width in pair):
        raise ValueError(f"in_channels must be an int or a pair of ints; got {in_channels!r}")
    return pair[0], pair[1]


def nodes_first(x: Tensor, name: str = "x") -> Tensor:
    """[n, d] as it is; [b, n, d] as [n, b, d]."""
    check_tensor(name, x)
    if x.dim() == 3:
        return x.transpose(0, 1)
    if x.dim() != 2:
        raise ValueError(
            f"{name} must have shape (n, d), or (b, n, d) for b sets of features on one set of "
            f"edges; got {tuple(x.shape)}"
        )
    return x


def split_heads(x: Tensor, channels: int) -> Tensor:
    """[n, h * c] to [n, h, c], and [n, b, h * c] to [n, b * h, c]."""
    return x.unflatten(-1, (-1, channels)).flatten(1, -2)


def as_heads(x: Tensor) -> Tensor:
    """[n, d] as one head, [n, 1, d]; [n, b, d] as b heads."""
    return x.unsqueeze(1) if x.dim() == 2 else x


def merge_heads(out: Tensor, heads: int, x: Tensor, concat: bool) -> Tensor:
    """[n, h, c] to [n, h * c], or their mean [n, c].

    Where x has a batch dimension, [n, b * h, c] to [b, n, h * c] or [b, n, c].
    """
    if x.dim() == 3:
        out = out.unflatten(1, (-1, heads)).transpose(0, 1)
    return out.flatten(-2) if concat else out.mean(-2)


def tile_heads(per_head: Tensor, dim: int, heads: int) -> Tensor:
    """Repeat what is given for h heads until it serves b * h, those of a batch."""
    if per_head.shape[dim] == heads:
        return per_head
    times = [1] * per_head.dim()
    times[dim] = heads // max(per_head.shape[dim], 1)
    return per_head.repeat(times)


def skip(linear: torch.nn.Module, x: Tensor) -> Tensor:
    """A residual projection of nodes-first features, with the batch first again."""
    out = project(linear, x)
    return out.transpose(0, 1) if out.dim() == 3 else out


def add_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    """``out + bias`` in the dtype of out, as torch's own layers under autocast."""
    return out if bias is None else projection.add(out, bias.to(out.dtype))


def project(linear: Any, x: Tensor, name: str = "x") -> Tensor:
    """Apply a linear map to dense or sparse features, in the dtype that autocast asks for.

    torch multiplies sparse matrices in fp32 and fp64 only: under autocast the product of a sparse
    x is formed in its own dtype, then cast. On the fused backends it is a sum over its entries.
    """
    casts = torch.is_autocast_enabled(x.device.type)
    if casts and x.layout != torch.strided:
        with torch.autocast(x.device.type, enabled=False):
            return project(linear, x, name).to(torch.get_autocast_dtype(x.device.type))
    if not is_plain(linear):
        return linear(x)
    check_features(name, x, linear.weight.shape[1], linear.weight)
    if x.layout == torch.strided:
        return projection.linear(x, linear.weight, linear.bias)
    if is_sum_over_edges(x, linear.weight):
        return sparse_linear(x, linear.weight, linear.bias)
    return linear(x)


def head_scores(
    linear: Any, x: Tensor, projected: Tensor | None, *att: Tensor, name: str = "x"
) -> tuple[Tensor, ...]:
    r"""Scalars per row and head, :math:`\langle W x, a \rangle`, for each a of shape [1, h, c].

    Where the projection is not at hand they are formed as :math:`\langle x, W^\top a \rangle`, a
    thin product, unless the map is more than its weight.
    """
    if projected is None and _is_its_weight(linear, x):
        check_features(name, x, linear.weight.shape[1], linear.weight)
        heads, channels = att[0].shape[-2:]
        weight = linear.weight.view(heads, channels, x.shape[-1])
        folded = (torch.cat(att).transpose(0, 1) @ weight).transpose(0, 1).flatten(0, 1)
        scores = project(lambda x: F.linear(x, folded), x)
        return tuple(score.flatten(1) for score in scores.split(heads, -1))
    return projected_scores(project(linear, x, name) if projected is None else projected, *att)


def projected_scores(projected: Tensor, *att: Tensor) -> tuple[Tensor, ...]:
    r"""Scalars per row and head, :math:`\langle y, a \rangle`, for each a of shape [1, h, c]."""
    value = split_heads(projected, att[0].shape[-1])
    vectors = tile_heads(torch.cat(att), 1, value.shape[1])
    return node_scores(value, vectors.to(value.dtype)).unbind(0)


def _is_its_weight(linear: Any, x: Tensor) -> bool:
    """Whether the map is x W^T and nothing else; initialises a lazy one."""
    if isinstance(getattr(linear, "weight", None), UninitializedParameter):
        linear(x[:0])
    return is_plain(linear) and linear.bias is None


def is_plain(linear: Any) -> bool:
    """Whether calling the map does nothing but multiply and add."""
    return (
        type(linear) in (Linear, torch.nn.Linear)
        and not isinstance(linear.weight, UninitializedParameter)
        and is_untouched(linear)
    )


def is_untouched(module: torch.nn.Module) -> bool:
    """Whether calling the module runs the forward of its class and nothing else."""
    return (
        "forward" not in module.__dict__
        and not any(len(getattr(module, hooks)) for hooks in _MODULE_HOOKS)
        and not torch.nn.modules.module._has_any_global_hook()
    )
