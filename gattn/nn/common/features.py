"""Features of nodes and edges: as they are given, projected, and shared out among heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from gattn.compat import torch as torch_internals
from gattn.nn.common.checks import check_features, is_autocast, is_lazy, readable_weight
from gattn.ops import projection
from gattn.ops.nodes import node_scores
from gattn.ops.sparse_features import is_sum_over_edges, sparse_linear


def node_inputs(x: Tensor | tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
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


def node_pair(x: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
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
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor; got {type(x).__name__}")
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


def as_columns(edge_attr: Tensor) -> Tensor:
    """Edge features [e] as [e, 1]; [e, d] as they are."""
    return edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr


def glorot_linear(in_channels: int, out_channels: int, bias: bool = False) -> Linear:
    """PyG's linear map, drawn as its attention layers draw theirs; -1 waits for the first input."""
    return Linear(in_channels, out_channels, bias=bias, weight_initializer="glorot")


def redraw(linear: Any, draw: Callable[[Tensor], Any]) -> None:
    """Draw the weight of a map anew; a map without a weight of its own is asked to do so itself."""
    weight = readable_weight(linear)
    if weight is None:
        reset(linear)
    else:
        draw(weight)


def dtype_of(linear: torch.nn.Module) -> torch.dtype:
    """The dtype that a map computes in: that of its first parameter of floats."""
    floats = (p.dtype for p in linear.parameters() if p.is_floating_point())
    return next(floats, torch.get_default_dtype())


def project(lin: Any, x: Tensor, name: str = "x") -> Tensor:
    """Apply a linear map to dense or sparse features, in the dtype that autocast asks for.

    torch multiplies sparse matrices in fp32 and fp64 only: under autocast the product of a sparse
    x is formed in its own dtype, then cast. On the fused backends it is a sum over its entries.
    """
    if x.layout != torch.strided and is_autocast(x):
        with torch.autocast(x.device.type, enabled=False):
            return project(lin, x, name).to(torch.get_autocast_dtype(x.device.type))
    if not is_plain(lin):
        return lin(x)
    check_features(name, x, lin.weight.shape[1], lin.weight)
    if x.layout == torch.strided:
        return projection.linear(x, lin.weight, lin.bias)
    if is_sum_over_edges(x, lin.weight):
        return sparse_linear(x, lin.weight, lin.bias)
    return lin(x)


def skip(lin: torch.nn.Module, x: Tensor) -> Tensor:
    """A residual projection of nodes-first features, with the batch first again."""
    out = project(lin, x)
    return out.transpose(0, 1) if out.dim() == 3 else out


def add_bias(out: Tensor, bias: Tensor | None, residual: Tensor | None = None) -> Tensor:
    """``out + residual + bias`` in the dtype of out, as torch's own layers under autocast."""
    out = out if residual is None else out + residual
    return out if bias is None else projection.add(out, bias.to(out.dtype))


def values_and_scores(
    lin: Any, x: Tensor, *att: Tensor, name: str = "x"
) -> tuple[Tensor, tuple[Tensor, ...]]:
    r"""Values v = W x, [n, h, c], and scalars :math:`\langle v, a \rangle` for each a [1, h, c]."""
    projected = project(lin, x, name)
    for_values, for_scores = projection.fork(projected)
    channels = att[0].shape[-1]
    return split_heads(for_values, channels), head_scores(split_heads(for_scores, channels), *att)


def head_scores(value: Tensor, *att: Tensor) -> tuple[Tensor, ...]:
    r"""Scalars per row and head, :math:`\langle v, a \rangle`, for each a of shape [1, h, c]."""
    vectors = tile_heads(torch.cat(att), 1, value.shape[1])
    return infinite_as_nan(node_scores(value, vectors.to(value.dtype))).unbind(0)


def infinite_as_nan(score: Tensor) -> Tensor:
    """Scores that were just computed from features, infinite ones as NaN, written in place.

    A score of -inf drops its edge, which a caller may ask for by a bias. From features it comes of
    an infinite number among them: PyG's layers give NaN for it, as a sum of infinite products has
    both signs, while the products here are summed in another order.
    """
    with torch.no_grad():
        return score.add_(score, alpha=0)


def folded_score(lin: Any, x: Tensor, att: Tensor, name: str = "x") -> Tensor:
    r"""Scalars per row and head, :math:`\langle W x, a \rangle`, for a of shape [1, h, c].

    They are formed as :math:`\langle x, W^\top a \rangle`, a thin product, unless the map is more
    than its weight.
    """
    if is_lazy(lin):
        lin(x[:0])  # takes its width from the input
    if not is_product(lin):
        return head_scores(split_heads(project(lin, x, name), att.shape[-1]), att)[0]
    check_features(name, x, lin.weight.shape[1], lin.weight)
    heads, channels = att.shape[-2:]
    weight = lin.weight.view(heads, channels, x.shape[-1])
    folded = (att.transpose(0, 1) @ weight).squeeze(1)
    return infinite_as_nan(project(lambda x: F.linear(x, folded), x)).flatten(1)


def is_plain(linear: Any) -> bool:
    """Whether calling the map does nothing but multiply and add."""
    return (
        type(linear) in (Linear, torch.nn.Linear) and not is_lazy(linear) and is_untouched(linear)
    )


def is_product(linear: Any) -> bool:
    """Whether calling the map does nothing but multiply by its weight."""
    return is_plain(linear) and linear.bias is None


def features_and_weight(linear: Any, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
    """What a plain map multiplies, [e, d] and [h * c, d]: a bias weighs a feature of ones."""
    if linear.bias is None:
        return edge_attr, linear.weight
    weight = torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    return F.pad(edge_attr, (0, 1), value=1.0), weight


def is_untouched(module: torch.nn.Module) -> bool:
    """Whether calling the module runs the forward of its class and nothing else."""
    return "forward" not in module.__dict__ and not torch_internals.has_hooks(module)
