"""Launchers of the C++ kernels: from tensors to packed pointers and sizes.

Each has the name and arguments of its operator in ``gattn.ops``. Inputs may be slices of wider
rows (any row stride); outputs are allocated here, the kernels allocate only scratch.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gattn.kernels.layout import Layout, index_dtype

try:
    _kernels: Any = importlib.import_module("gattn.kernels.cpu._kernels")
except ModuleNotFoundError as error:
    _kernels = None
    _reason = (
        f"the C++ extension is not built ({type(error).__name__}): it is compiled as gattn is "
        "installed, where a C++ compiler is found"
    )
    _sources = Path(__file__).parents[3]
    if (_sources / "pyproject.toml").exists():
        _reason += (
            f"; the gattn at work is the source folder {_sources}: if pip has installed another, "
            "start Python elsewhere, or install with pip install -e ."
        )
except ImportError as error:  # built, but for other machines or another Python
    _kernels = None
    _reason = str(error)

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_ACTIVATIONS = {"leaky_relu": 0, "tanh": 1}
_LARGE = 1 << 20  # elements from which fresh memory is asked for in huge pages
_CODES = {"pointer": "Q", "rows": "Qq", "int": "q", "float": "d"}
_LAYOUT = (*Layout._fields, "n", "m", "e", "is_int64")


class _Kernel(NamedTuple):
    """How to call a kernel: where its fields lie among the values to pack."""

    number: int
    pack: Callable[..., bytes]
    zeros: list[int]
    """The values where every tensor is absent; two for a tensor of rows."""
    places: dict[str, tuple[int, bool]]
    """For each field its place among the values, and whether it is a tensor of rows."""
    layout: slice
    """The places of the layout's fields, which stand together."""


def _describe(number: int, fields: Iterable[tuple[str, str]]) -> _Kernel:
    codes, places = "", {}
    for name, kind in fields:
        places[name] = len(codes), kind == "rows"
        codes += _CODES[kind]
    first = places["rowptr"][0] if "rowptr" in places else 0
    layout = slice(first, first + len(_LAYOUT))
    return _Kernel(number, struct.Struct("=" + codes).pack, [0] * len(codes), places, layout)


_TABLE: dict[str, _Kernel] = (
    {}
    if _kernels is None
    else {
        name: _describe(number, fields)
        for number, (name, fields) in enumerate(_kernels.kernels().items())
    }
)


def unavailable_reason() -> str:
    """Why the kernels cannot run; empty where they can."""
    return "" if _kernels is not None else _reason


def serves(device: torch.device) -> bool:
    """Whether the kernels can work on this device's memory."""
    return _kernels is not None and device.type == "cpu"


def description() -> str:
    """The instruction set in use."""
    return f"C++, {_kernels.isa()}" if _kernels is not None else ""


def launch(
    kernel: str,
    like: Tensor | None,
    layout: list[Tensor] | Layout | None,
    **values: Tensor | float | None,
) -> None:
    """Run a kernel on the fields that are given by name; the others are zero or absent.

    Tensors of rows must have ``like``'s dtype, which is the kernel's, and are copied where the
    elements of a row do not lie together. Those that are a bare pointer must be contiguous.
    """
    number, pack, zeros, places, at_layout = _TABLE[kernel]
    packed: list[Any] = zeros.copy()
    dtype = None if like is None else like.dtype
    if dtype is not None:
        packed[places["dtype"][0]] = _DTYPES[dtype]
    if layout is not None:
        packed[at_layout] = _layout(layout)
    held = []  # copies must outlive the call
    for name, value in values.items():
        place, is_rows = places[name]
        if isinstance(value, Tensor):
            if is_rows:
                if dtype is not None and value.dtype != dtype:  # read as the wrong type
                    raise TypeError(f"{name} must be {dtype}; got {value.dtype}")
                if not value.is_contiguous():
                    value = _inner_contiguous(value)
                    held.append(value)
                packed[place + 1] = value.stride(0)
            packed[place] = value.data_ptr()
        elif value is not None:
            packed[place] = value
    _kernels.run(number, pack(*packed))


def _layout(layout: list[Tensor] | Layout) -> list[int]:
    """The values of the layout's fields."""
    rowptr, col, perm, colptr, row, csr2csc = layout
    return [
        rowptr.data_ptr(), col.data_ptr(), perm.data_ptr(),
        colptr.data_ptr(), row.data_ptr(), csr2csc.data_ptr(),
        rowptr.shape[0] - 1, colptr.shape[0] - 1, col.shape[0], rowptr.dtype == torch.int64,
    ]  # fmt: skip


def _inner_contiguous(t: Tensor) -> Tensor:
    """The tensor itself where each row's elements are contiguous, whatever the row stride."""
    expected = 1
    for size, stride in zip(reversed(t.shape[1:]), reversed(t.stride()[1:])):
        if size != 1 and stride != expected:
            return t.contiguous()
        expected *= size
    return t


def build_layout(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Counting sort; see :func:`gattn.kernels.layout.build`."""
    edges = source.numel()
    source, destination = source.contiguous(), destination.contiguous()
    dtype = index_dtype(num_src, num_dst, edges)
    sizes = num_dst + 1, edges, edges, num_src + 1, edges, edges
    layout = Layout(*(torch.empty(size, dtype=dtype) for size in sizes))
    is_int64 = source.dtype == torch.int64
    _kernels.build_layout(source.data_ptr(), destination.data_ptr(), is_int64, *_layout(layout))
    return layout


def checksum(t: Tensor) -> int:
    """A 64-bit number of the contents of a contiguous tensor, which depends on their order."""
    return _kernels.checksum(t.data_ptr(), t.nbytes)


def additive_forward(
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
    save_positive_part: bool,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Out, its statistics, and out before rounding; see ``additive.cpp``."""
    n, heads = query_score.shape
    value_heads, channels = value.shape[1:]
    out, out_acc = _out(value, needs_backward, n, heads, channels)
    row_max, row_sum = _statistics(value, n, heads), _statistics(value, n, heads)
    out_pos_centered = _statistics(value, n if save_positive_part else 0, heads, channels)
    launch(
        "additive_forward", value, layout, heads=heads, value_heads=value_heads, channels=channels,
        query_score=query_score, key_score=key_score, value=value, edge_score=edge_score,
        seed=seed, negative_slope=negative_slope, dropout=dropout, out=out, out_acc=out_acc,
        row_max=row_max, row_sum=row_sum, out_pos_centered=out_pos_centered,
    )  # fmt: skip
    return out, row_max, row_sum, out_pos_centered, out_acc


def additive_backward(
    grad_out: Tensor,
    query_score: Tensor,
    key_score: Tensor,
    value: Tensor,
    edge_score: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    out_pos_centered: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    negative_slope: float,
    dropout: float,
) -> tuple[Tensor, ...]:
    """Gradients of the four inputs; see ``additive.cpp``."""
    heads = query_score.shape[1]
    value_heads, channels = value.shape[1:]
    grads = [_like(t, value) for t in (query_score, key_score, value, edge_score)]
    launch(
        "additive_backward", value, layout, heads=heads, value_heads=value_heads,
        channels=channels, query_score=query_score, key_score=key_score, value=value,
        edge_score=edge_score, seed=seed, negative_slope=negative_slope, dropout=dropout,
        out_acc=out_acc, row_max=row_max, row_sum=row_sum, out_pos_centered=out_pos_centered,
        grad_out=grad_out, grad_query_score=grads[0], grad_key_score=grads[1],
        grad_value=grads[2], grad_edge_score=grads[3],
    )  # fmt: skip
    return tuple(grads)


def dot_product_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Out, statistics, and the sums of values and edge features; see ``dot_product.cpp``."""
    n, heads = query.shape[:2]
    out, out_acc = _out(value, needs_backward, n, heads, value.shape[2], adds=edge_proj is not None)
    row_max, row_sum = _statistics(value, n, heads), _statistics(value, n, heads)
    kept = n if edge_proj is not None and needs_backward else 0
    edge_out = _statistics(value, kept, heads, _features(edge_attr))
    launch(
        "dot_product_forward", value, layout, **_sizes(query, value, edge_attr), query=query,
        key=key, value=value, bias=bias, edge_attr=edge_attr, edge_proj=edge_proj, seed=seed,
        scale=scale, dropout=dropout, out=out, out_acc=out_acc, row_max=row_max, row_sum=row_sum,
        edge_out=edge_out,
    )  # fmt: skip
    return out, row_max, row_sum, out_acc, edge_out


def dot_product_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    edge_out: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    scale: float,
    dropout: float,
    wants_edge_attr: bool,
) -> tuple[Tensor, ...]:
    """Gradients of the six inputs; see ``dot_product.cpp``."""
    wanted = query, key, value, bias, edge_attr if wants_edge_attr else None, edge_proj
    grads = [_like(t, value) for t in wanted]
    launch(
        "dot_product_backward", value, layout, **_sizes(query, value, edge_attr), query=query,
        key=key, value=value, bias=bias, edge_attr=edge_attr, edge_proj=edge_proj, seed=seed,
        scale=scale, dropout=dropout, out_acc=out_acc, row_max=row_max, row_sum=row_sum,
        edge_out=edge_out, grad_out=grad_out, grad_query=grads[0], grad_key=grads[1],
        grad_value=grads[2], grad_bias=grads[3], grad_edge_attr=grads[4], grad_edge_proj=grads[5],
    )  # fmt: skip
    return tuple(grads)


def mlp_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    needs_backward: bool,
) -> tuple[Tensor, ...]:
    """Out, its statistics, and out before rounding; see ``mlp.cpp``."""
    n, heads = query.shape[:2]
    channels = (key if value is None else value).shape[2]
    out, out_acc = _out(query, needs_backward, n, heads, channels)
    row_max, row_sum = _statistics(query, n, heads), _statistics(query, n, heads)
    launch(
        "mlp_forward", query, layout, **_sizes(query, value, edge_attr), query=query, key=key,
        value=value, weight=weight, edge_attr=edge_attr, edge_proj=edge_proj, seed=seed,
        activation=_ACTIVATIONS[activation], negative_slope=negative_slope, dropout=dropout,
        out=out, out_acc=out_acc, row_max=row_max, row_sum=row_sum,
    )  # fmt: skip
    return out, row_max, row_sum, out_acc


def mlp_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    out_acc: Tensor,
    row_max: Tensor,
    row_sum: Tensor,
    layout: list[Tensor],
    seed: Tensor | None,
    activation: str,
    negative_slope: float,
    dropout: float,
    wants_edge_attr: bool,
) -> tuple[Tensor, ...]:
    """Gradients of the six inputs; see ``mlp.cpp``."""
    wanted = query, key, value, weight, edge_attr if wants_edge_attr else None, edge_proj
    grads = [_like(t, query) for t in wanted]
    launch(
        "mlp_backward", query, layout, **_sizes(query, value, edge_attr), query=query, key=key,
        value=value, weight=weight, edge_attr=edge_attr, edge_proj=edge_proj, seed=seed,
        activation=_ACTIVATIONS[activation], negative_slope=negative_slope, dropout=dropout,
        out_acc=out_acc, row_max=row_max, row_sum=row_sum, grad_out=grad_out, grad_query=grads[0],
        grad_key=grads[1], grad_value=grads[2], grad_weight=grads[3],
        grad_edge_attr=grads[4], grad_edge_proj=grads[5],
    )  # fmt: skip
    return tuple(grads)


def mlp_score(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    edge_attr: Tensor | None,
    edge_proj: Tensor | None,
    layout: list[Tensor],
    activation: str,
    negative_slope: float,
) -> Tensor:
    """Scores alone, in the caller's edge order; see ``mlp.cpp``."""
    score = empty(query, layout[1].shape[0], query.shape[1])
    launch(
        "mlp_score", query, layout, **_sizes(query, None, edge_attr), query=query, key=key,
        weight=weight, edge_attr=edge_attr, edge_proj=edge_proj,
        activation=_ACTIVATIONS[activation], negative_slope=negative_slope, out=score,
    )  # fmt: skip
    return score


def edge_softmax(score: Tensor, layout: list[Tensor]) -> Tensor:
    """Softmax over the edges into each destination; see ``edge.cpp``."""
    alpha = _like(score, score)
    launch("edge_softmax", score, layout, heads=score.shape[1], score=score, out=alpha)
    return alpha


def edge_softmax_backward(grad: Tensor, alpha: Tensor, layout: list[Tensor]) -> Tensor:
    """Gradient of the score from that of alpha; see ``edge.cpp``."""
    grad_score = _like(alpha, alpha)
    launch(
        "edge_softmax_backward", alpha, layout, heads=alpha.shape[1], grad=grad, alpha=alpha,
        grad_score=grad_score,
    )  # fmt: skip
    return grad_score


def aggregate(weight: Tensor, value: Tensor, layout: list[Tensor], transposed: bool) -> Tensor:
    """Weighted sum over the edges into (transposed: out of) each node; see ``edge.cpp``."""
    heads, value_heads, channels = weight.shape[1], *value.shape[1:]
    out = empty(value, layout[3 if transposed else 0].shape[0] - 1, heads, channels)
    launch(
        "aggregate", weight, layout, heads=heads, value_heads=value_heads, channels=channels,
        transposed=transposed, weight=weight, value=value, out=out,
    )  # fmt: skip
    return out


def edge_dot(query: Tensor, key: Tensor, layout: list[Tensor]) -> Tensor:
    """Dot product at each edge; see ``edge.cpp``."""
    heads, channels = query.shape[1:]
    out = empty(query, layout[1].shape[0], heads)
    launch(
        "edge_dot", query, layout, heads=heads, key_heads=key.shape[1], channels=channels,
        query=query, key=key, out=out,
    )  # fmt: skip
    return out


def node_scores(value: Tensor, vectors: Tensor) -> Tensor:
    """[t, m, h] from value [m, h, c] and vectors [t, h, c]; see ``node.cpp``."""
    out = empty(value, vectors.shape[0], *value.shape[:2])
    launch("node_scores", value, None, **_node(value, vectors), out=out)
    return out


def node_scores_backward(grad: Tensor, value: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of value and vectors; see ``node.cpp``."""
    grad_value, grad_vectors = _like(value, value), _like(vectors, value)
    launch(
        "node_scores_backward", value, None, **_node(value, vectors), grad=grad,
        grad_value=grad_value, grad_vectors=grad_vectors,
    )  # fmt: skip
    return grad_value, grad_vectors


def _node(value: Tensor, vectors: Tensor) -> dict[str, Any]:
    num_nodes, heads, channels = value.shape
    sizes = {"num_nodes": num_nodes, "num_vectors": vectors.shape[0]}
    return {"heads": heads, "channels": channels, "value": value, "vectors": vectors, **sizes}


def dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    """Drop numbers and scale the others; see ``dropout.cpp``."""
    x = x.contiguous()
    out = empty(x, *x.shape)
    launch("dropout", x, None, numel=x.numel(), x=x, out=out, seed=seed, dropout=p)
    return out


def row_gather(table: Tensor, layout: list[Tensor]) -> float:
    """Sum of the fp32 rows [m, channels] that int32 edges name: the roof of every gather here."""
    if table.dtype != torch.float32 or layout[0].dtype != torch.int32:
        raise TypeError(f"needs float32 rows and int32 edges; got {table.dtype}, {layout[0].dtype}")
    total = torch.zeros((), dtype=torch.float64)
    launch("row_gather", None, layout, channels=table.shape[1], table=table, out=total)
    return total.item()


def _sizes(query: Tensor, value: Tensor | None, edge_attr: Tensor | None) -> dict[str, int]:
    """Sizes of the attentions whose scores are of vectors."""
    heads, channels = query.shape[1:]
    return {
        "heads": heads,
        "channels": channels,
        "value_channels": channels if value is None else value.shape[2],
        "features": _features(edge_attr),
    }


def _features(edge_attr: Tensor | None) -> int:
    return 0 if edge_attr is None else edge_attr.shape[1]


def _like(t: Tensor | None, like: Tensor) -> Tensor:
    """Room for the gradient of t; an empty tensor where there is none."""
    return like.new_empty(0) if t is None else empty(like, *t.shape)


def _out(
    like: Tensor, needs_backward: bool, *shape: int, adds: bool = False
) -> tuple[Tensor, Tensor]:
    """Room for the output, and, where backward asks, for the sum before more is added to it or it
    is rounded."""
    differs = adds or like.dtype in (torch.bfloat16, torch.float16)
    return empty(like, *shape), _statistics(like, *(shape if needs_backward and differs else (0,)))


def _statistics(like: Tensor, *shape: int) -> Tensor:
    """Room for numbers kept in the dtype that the kernels sum in."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return empty(like, *shape, dtype=dtype)


def empty(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Uninitialised memory; where it is large, in huge pages if the system grants them."""
    t = like.new_empty(shape, dtype=dtype)
    if t.numel() >= _LARGE:
        _kernels.advise_huge(t.data_ptr(), t.nbytes)
    return t
