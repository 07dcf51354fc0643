"""Functions for node and edge features: shape checks, linear projections and splitting into
heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import reset

from gattn.compat import torch as torch_internals
from gattn.kernels.precision import infinite_as_nan
from gattn.nn.common.checks import check_features, is_autocast, is_lazy, readable_weight
from gattn.ops import projection
from gattn.ops.nodes import node_scores
from gattn.ops.sparse_features import is_sum_over_edges, sparse_linear


def node_inputs(x: Tensor | tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
    """Return the source and destination features, with the node dimension first.

    A single tensor is used for both. Features [b, m, d], which are b sets of features on one set of
    edges, become [m, b, d], so that the layers can treat the batch dimension as more heads. In a
    pair, the destination features may be None. Raises TypeError for anything else, and ValueError
    for another number of dimensions.
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
    """Return the result of :func:`node_inputs`; raise its errors, and ValueError if destinations
    have no features.
    """
    x_src, x_dst = node_inputs(x)
    if x_dst is None:
        raise ValueError(
            "x must contain features for source and destination nodes; got None for one"
        )
    return x_src, x_dst


def channel_pair(in_channels: int | tuple[int, int]) -> tuple[int, int]:
    """Return the numbers of source and destination features. A value of -1 means that the first
    input sets it. Raises ValueError for anything but one or two numbers of at least -1.
    """
    pair = in_channels if isinstance(in_channels, (tuple, list)) else (in_channels, in_channels)
    if len(pair) != 2 or not all(hasattr(width, "__index__") and width >= -1 for width in pair):
        raise ValueError(f"in_channels must be an int or a pair of ints; got {in_channels!r}")
    return pair[0], pair[1]


def nodes_first(x: Tensor, name: str = "x") -> Tensor:
    """Transpose features [b, n, d] to [n, b, d]. Features [n, d] are returned unchanged. Raises
    TypeError if x is no tensor, and ValueError for another number of dimensions.
    """
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
    """Reshape [n, h * c] to [n, h, c], and [n, b, h * c] to [n, b * h, c]."""
    return x.unflatten(-1, (-1, channels)).flatten(1, -2)


def as_heads(x: Tensor) -> Tensor:
    """Reshape [n, d] to [n, 1, d], which has one head. [n, b, d] already has b heads."""
    return x.unsqueeze(1) if x.dim() == 2 else x


def merge_heads(out: Tensor, heads: int, x: Tensor, concat: bool) -> Tensor:
    """Concatenate the heads [n, h, c] to [n, h * c], or average them to [n, c].

    If x has a batch dimension, [n, b * h, c] becomes [b, n, h * c] or [b, n, c].
    """
    if x.dim() == 3:
        out = out.unflatten(1, (-1, heads)).transpose(0, 1)
    return out.flatten(-2) if concat else out.mean(-2)


def tile_heads(per_head: Tensor, dim: int, heads: int) -> Tensor:
    """Repeat the h heads in one dimension of a tensor b times, so that it has ``heads`` = b * h
    heads, in the order of the copies. A tensor with this number of heads is returned itself;
    ``heads`` must be a multiple of h.
    """
    if per_head.shape[dim] == heads:
        return per_head
    times = [1] * per_head.dim()
    times[dim] = heads // max(per_head.shape[dim], 1)
    return per_head.repeat(times)


def as_columns(edge_attr: Tensor) -> Tensor:
    """Reshape edge features [e] to [e, 1]; features [e, d] are returned unchanged."""
    return edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr


def redraw(linear: Any, draw: Callable[[Tensor], Any]) -> None:
    """Initialise the weight of a linear layer again, by the function ``draw``, which writes to it
    in place.

    A module without a plain weight, such as an adapter, is initialised by its method
    ``reset_parameters``.
    """
    weight = readable_weight(linear)
    if weight is None:
        reset(linear)
    else:
        draw(weight)


def project(lin: Any, x: Tensor, name: str = "x") -> Tensor:
    """Apply a linear layer to dense or sparse features, in the dtype that autocast selects: [n, d]
    to [n, c], or [n, b, d] to [n, b, c]. The first call of a lazy layer creates its weight.

    torch multiplies sparse matrices in fp32 and fp64 only, so under autocast the product of a
    sparse x is computed in the dtype of x and then cast. The fused backends compute it as a sum
    over the stored entries. If the module is a plain linear layer, raises ValueError for a wrong
    width, TypeError for a dtype that differs from the weight, and RuntimeError under
    torch.jit.trace.
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
    """Project node features for a residual connection: [n, d] to [n, c], or [n, b, d] to [b, n, c].
    Raises the errors of :func:`project`.
    """
    out = project(lin, x)
    return out.transpose(0, 1) if out.dim() == 3 else out


def add_bias(out: Tensor, bias: Tensor | None, residual: Tensor | None = None) -> Tensor:
    """Return ``out + residual + bias``. The bias is converted to the dtype of ``out`` first."""
    out = out if residual is None else out + residual
    return out if bias is None else projection.add(out, bias.to(out.dtype))


def values_and_scores(
    lin: Any, x: Tensor, *att: Tensor, name: str = "x"
) -> tuple[Tensor, tuple[Tensor, ...]]:
    r"""Return the values v = W x, [n, h, c], and their scores :math:`\langle v, a \rangle`, [n, h].

    There is one tensor of scores for each vector a [1, h, c]. Raises the errors of :func:`project`.
    """
    values = split_heads(project(lin, x, name), att[0].shape[-1])
    return values, head_scores(values, *att)


def head_scores(value: Tensor, *att: Tensor) -> tuple[Tensor, ...]:
    r"""Return the scores :math:`\langle v, a \rangle`, [n, h], of the values v for each vector a.

    The vectors have the shape [1, h, c].

    Infinite scores become NaN, see :func:`infinite_as_nan`. The values are [n, h, c]. Raises the
    errors of :func:`node_scores`.
    """
    vectors = tile_heads(torch.cat(att), 1, value.shape[1])
    return infinite_as_nan(node_scores(value, vectors.to(value.dtype))).unbind(0)


def folded_score(lin: Any, x: Tensor, att: Tensor, name: str = "x") -> Tensor:
    r"""Return the scores :math:`\langle W x, a \rangle`, [n, h], for a vector a [1, h, c].

    The scores are computed as :math:`\langle x, W^\top a \rangle`, a cheap product with h columns,
    unless the module does more than multiply by its weight. Raises the errors of :func:`project`.
    The first call of a lazy module creates its weight.
    """
    if is_lazy(lin):
        # Calling a lazy module creates its weight, with the width of x.
        lin(x[:0])
    if not is_product(lin):
        return head_scores(split_heads(project(lin, x, name), att.shape[-1]), att)[0]
    check_features(name, x, lin.weight.shape[1], lin.weight)
    weight = lin.weight.unflatten(0, att.shape[-2:])
    # Not a transpose: DistributedDataParallel warns if the gradient of a has other strides than a.
    folded = (att.reshape(-1, 1, att.shape[-1]) @ weight).squeeze(1)
    return infinite_as_nan(project(lambda x: F.linear(x, folded), x)).flatten(1)


def is_plain(linear: Any) -> bool:
    """Return True if a module only multiplies by a weight and adds a bias, without hooks."""
    return (
        type(linear) in (Linear, torch.nn.Linear) and not is_lazy(linear) and is_untouched(linear)
    )


def is_product(linear: Any) -> bool:
    """Return True if a module only multiplies by its weight, without a bias or hooks."""
    return is_plain(linear) and linear.bias is None


def features_and_weight(linear: Any, edge_attr: Tensor) -> tuple[Tensor, Tensor]:
    """Return edge features [e, d] and a weight [h * c, d]. Their product is the output of a linear
    layer.

    A bias becomes one more column of the weight, for an added feature of ones.
    """
    if linear.bias is None:
        return edge_attr, linear.weight
    weight = torch.cat([linear.weight, linear.bias[:, None]], dim=1)
    return F.pad(edge_attr, (0, 1), value=1.0), weight


def is_untouched(module: torch.nn.Module) -> bool:
    """Return True if calling a module only runs the forward method of its class."""
    return "forward" not in module.__dict__ and not torch_internals.has_hooks(module)
