"""Launchers of the C++ kernels: from tensors to raw pointers.

Each has the name and arguments of its operator in ``gattn.ops``. Inputs may be slices of wider
rows (any row stride); outputs are allocated here, the kernels allocate only scratch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gattn.kernels.layout import Layout, bare, index_dtype

try:
    from gattn.kernels.cpu import _kernels  # pyright: ignore[reportAttributeAccessIssue]
except ImportError as error:
    _kernels: Any = None
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

_DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
_ABSENT = (0, 0)
_LARGE = 1 << 20  # elements from which fresh memory is asked for in huge pages


def unavailable_reason() -> str:
    """Why the kernels cannot run; empty where they can."""
    return "" if _kernels is not None else _reason


def serves(device: torch.device) -> bool:
    """Whether the kernels can work on this device's memory."""
    return _kernels is not None and device.type == "cpu"


def description() -> str:
    """The instruction set in use."""
    return f"C++, {_kernels.isa()}" if _kernels is not None else ""


def build_layout(source: Tensor, destination: Tensor, num_src: int, num_dst: int) -> Layout:
    """Counting sort; see :func:`gattn.kernels.layout.build`."""
    edges = source.numel()
    source, destination = source.contiguous(), destination.contiguous()
    dtype = index_dtype(num_src, num_dst, edges)
    sizes = num_dst + 1, edges, edges, num_src + 1, edges, edges
    layout = bare(*(torch.empty(size, dtype=dtype) for size in sizes))
    wide = source.dtype == torch.int64
    _kernels.build_layout(source.data_ptr(), destination.data_ptr(), wide, _layout(layout))
    return layout


def checksum(t: Tensor) -> int:
    """64 bits that depend on every byte of a contiguous tensor and on its place."""
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
    channels = value.shape[2]
    out, out_acc = _out(value, needs_backward, n, heads, channels)
    row_max, row_sum = _statistics(value, n, heads), _statistics(value, n, heads)
    out_pos_centered = _statistics(value, n if save_positive_part else 0, heads, channels)
    saved = row_max, row_sum, out_pos_centered
    _additive(
        _kernels.additive_forward,
        (query_score, key_score, value, edge_score),
        (out_acc, *saved),
        layout,
        out=out.data_ptr(),
        negative_slope=negative_slope,
        dropout=(_pointer(seed), dropout),
    )
    return out, *saved, out_acc


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
    grads = [_like(t, value) for t in (query_score, key_score, value, edge_score)]
    _additive(
        _kernels.additive_backward,
        (query_score, key_score, value, edge_score),
        (out_acc, row_max, row_sum, out_pos_centered),
        layout,
        negative_slope=negative_slope,
        dropout=(_pointer(seed), dropout),
        grad_out=grad_out,
        grad_query_score=grads[0].data_ptr(),
        grad_key_score=grads[1].data_ptr(),
        grad_value=grads[2].data_ptr(),
        grad_edge_score=grads[3].data_ptr(),
    )
    return tuple(grads)


def _additive(
    kernel: Any,
    inputs: tuple[Tensor | None, ...],
    saved: tuple[Tensor, ...],
    layout: list[Tensor],
    **fields: Any,
) -> None:
    """Run a kernel of additive.cpp."""
    query_score, key_score, value, edge_score = inputs
    assert query_score is not None
    assert value is not None
    names = "out_acc", "row_max", "row_sum", "out_pos_centered"
    _run(
        kernel,
        _kernels.AdditiveArgs(),
        value,
        layout,
        heads=query_score.shape[1],
        value_heads=value.shape[1],
        channels=value.shape[2],
        query_score=query_score,
        key_score=key_score,
        value=value,
        edge_score=edge_score,
        **_pointers(names, saved),
        **fields,
    )


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
    edge_out = _statistics(value, kept, heads, 0 if edge_proj is None else edge_proj.shape[2])
    _dot_product(
        _kernels.dot_product_forward,
        (query, key, value, bias, edge_attr, edge_proj),
        (out_acc, row_max, row_sum, edge_out),
        layout,
        scale=scale,
        dropout=(_pointer(seed), dropout),
        out=out.data_ptr(),
    )
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
    heads, edges = query.shape[1], layout[1].shape[0]
    inputs = query, key, value, bias, edge_attr, edge_proj
    wanted = query, key, value, bias, edge_attr if wants_edge_attr else None, edge_proj
    grads = [_like(t, value) for t in wanted]
    alpha, grad_score = _statistics(value, edges, heads), _statistics(value, edges, heads)
    _dot_product(
        _kernels.dot_product_backward,
        inputs,
        (out_acc, row_max, row_sum, edge_out),
        layout,
        scale=scale,
        dropout=(_pointer(seed), dropout),
        grad_out=grad_out,
        grad_query=grads[0].data_ptr(),
        grad_key=grads[1].data_ptr(),
        grad_value=grads[2].data_ptr(),
        grad_bias=grads[3].data_ptr(),
        grad_edge_attr=grads[4].data_ptr(),
        grad_edge_proj=grads[5].data_ptr(),
        alpha=alpha.data_ptr(),
        grad_score=grad_score.data_ptr(),
    )
    return tuple(grads)


def _dot_product(
    kernel: Any,
    inputs: tuple[Tensor | None, ...],
    saved: tuple[Tensor, ...],
    layout: list[Tensor],
    **fields: Any,
) -> None:
    """Run a kernel of dot_product.cpp."""
    query, key, value, bias, edge_attr, edge_proj = inputs
    assert query is not None
    assert value is not None
    _run(
        kernel,
        _kernels.DotProductArgs(),
        value,
        layout,
        heads=query.shape[1],
        channels=query.shape[2],
        value_channels=value.shape[2],
        features=0 if edge_attr is None else edge_attr.shape[1],
        query=query,
        key=key,
        value=value,
        bias=bias,
        edge_attr=edge_attr,
        edge_proj=None if edge_proj is None else edge_proj.contiguous(),
        **_pointers(("out_acc", "row_max", "row_sum", "edge_out"), saved),
        **fields,
    )


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
    _mlp(
        _kernels.mlp_forward,
        (query, key, value, weight, edge_attr, edge_proj),
        layout,
        activation,
        negative_slope=negative_slope,
        dropout=(_pointer(seed), dropout),
        out=out.data_ptr(),
        out_acc=out_acc.data_ptr(),
        row_max=row_max.data_ptr(),
        row_sum=row_sum.data_ptr(),
    )
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
    heads, edges = query.shape[1], layout[1].shape[0]
    inputs = query, key, value, weight, edge_attr, edge_proj
    wanted = query, key, value, weight, edge_attr if wants_edge_attr else None, None
    grads = [_like(t, query) for t in wanted]
    features = 0 if edge_attr is None else edge_attr.shape[1]
    # The kernel sums dW as [d, h * c].
    projection = empty(query, features, heads, query.shape[2])
    alpha, grad_score = _statistics(query, edges, heads), _statistics(query, edges, heads)
    _mlp(
        _kernels.mlp_backward,
        inputs,
        layout,
        activation,
        negative_slope=negative_slope,
        dropout=(_pointer(seed), dropout),
        out_acc=out_acc.data_ptr(),
        row_max=row_max.data_ptr(),
        row_sum=row_sum.data_ptr(),
        grad_out=grad_out,
        grad_query=grads[0].data_ptr(),
        grad_key=grads[1].data_ptr(),
        grad_value=grads[2].data_ptr(),
        grad_weight=grads[3].data_ptr(),
        grad_edge_attr=grads[4].data_ptr(),
        grad_edge_proj=projection.data_ptr(),
        alpha=alpha.data_ptr(),
        grad_score=grad_score.data_ptr(),
    )
    if edge_proj is not None:
        grads[5] = projection.permute(1, 2, 0).contiguous()
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
    _mlp(
        _kernels.mlp_score,
        (query, key, None, weight, edge_attr, edge_proj),
        layout,
        activation,
        negative_slope=negative_slope,
        score=score.data_ptr(),
    )
    return score


def _mlp(
    kernel: Any,
    inputs: tuple[Tensor | None, ...],
    layout: list[Tensor],
    activation: str,
    **fields: Any,
) -> None:
    """Run a kernel of mlp.cpp, which reads W as [d, h * c]."""
    query, key, value, weight, edge_attr, edge_proj = inputs
    assert query is not None
    if edge_proj is not None:
        edge_proj = edge_proj.permute(2, 0, 1).contiguous()
    _run(
        kernel,
        _kernels.MLPArgs(),
        query,
        layout,
        heads=query.shape[1],
        channels=query.shape[2],
        value_channels=(query if value is None else value).shape[2],
        features=0 if edge_attr is None else edge_attr.shape[1],
        tanh=activation == "tanh",
        query=query,
        key=key,
        value=value,
        weight=weight,
        edge_attr=edge_attr,
        edge_proj=edge_proj,
        **fields,
    )


def edge_softmax(score: Tensor, layout: list[Tensor]) -> Tensor:
    """Softmax over the edges into each destination; see ``edge.cpp``."""
    alpha = _like(score, score)
    return _edge(_kernels.edge_softmax, score, None, alpha, layout, heads=score.shape[1])


def edge_softmax_backward(grad: Tensor, alpha: Tensor, layout: list[Tensor]) -> Tensor:
    """Gradient of the score from that of alpha; see ``edge.cpp``."""
    found = _like(alpha, alpha)
    return _edge(_kernels.edge_softmax_backward, alpha, grad, found, layout, heads=alpha.shape[1])


def aggregate(weight: Tensor, value: Tensor, layout: list[Tensor], transposed: bool) -> Tensor:
    """Weighted sum over the edges into (transposed: out of) each node; see ``edge.cpp``."""
    heads, value_heads, channels = weight.shape[1], *value.shape[1:]
    rows = layout[3 if transposed else 0].shape[0] - 1
    return _edge(
        _kernels.aggregate,
        weight,
        value,
        empty(value, rows, heads, channels),
        layout,
        heads=heads,
        value_heads=value_heads,
        channels=channels,
        transposed=transposed,
    )


def edge_dot(query: Tensor, key: Tensor, layout: list[Tensor]) -> Tensor:
    """Dot product at each edge; see ``edge.cpp``."""
    heads, channels = query.shape[1:]
    return _edge(
        _kernels.edge_dot,
        query,
        key,
        empty(query, layout[1].shape[0], heads),
        layout,
        heads=heads,
        value_heads=key.shape[1],
        channels=channels,
    )


def node_scores(value: Tensor, vectors: Tensor) -> Tensor:
    """[t, m, h] from value [m, h, c] and vectors [t, h, c]; see ``node.cpp``."""
    rows, heads, _ = value.shape
    scores = empty(value, vectors.shape[0], rows, heads)
    _node(_kernels.node_scores, value, vectors, scores=scores.data_ptr())
    return scores


def node_scores_backward(grad: Tensor, value: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of value and vectors; see ``node.cpp``."""
    grad = grad.contiguous()
    grad_value, grad_vectors = _like(value, value), _like(vectors, value)
    _node(
        _kernels.node_scores_backward,
        value,
        vectors,
        scores=grad.data_ptr(),
        grad_value=grad_value.data_ptr(),
        grad_vectors=grad_vectors.data_ptr(),
    )
    return grad_value, grad_vectors


def _node(kernel: Any, value: Tensor, vectors: Tensor, **fields: int) -> None:
    rows, heads, channels = value.shape
    sizes = {"rows": rows, "heads": heads, "channels": channels, "count": vectors.shape[0]}
    _call(kernel, _kernels.NodeArgs(), value, value=value, vectors=vectors, **sizes, **fields)


def dropout(x: Tensor, seed: Tensor, p: float) -> Tensor:
    """Drop numbers and scale the others; see ``dropout.cpp``."""
    x = x.contiguous()
    out = empty(x, *x.shape)
    fields = {"count": x.numel(), "x": x.data_ptr(), "out": out.data_ptr()}
    _call(_kernels.dropout, _kernels.ElementArgs(), x, dropout=(_pointer(seed), p), **fields)
    return out


def row_gather(table: Tensor, layout: list[Tensor]) -> float:
    """Sum of the rows [m, channels] that the edges name: the roof of every gather here."""
    args = _kernels.EdgeArgs()
    args.dtype, args.layout = _DTYPES[table.dtype], _layout(layout)
    args.channels, args.right = table.shape[1], _rows(table)
    return _kernels.row_gather(args)


def _edge(
    kernel: Any, left: Tensor, right: Tensor | None, out: Tensor, layout: list[Tensor], **sizes: int
) -> Tensor:
    args = _kernels.EdgeArgs()
    _run(kernel, args, left, layout, left=left, right=right, out=out.data_ptr(), **sizes)
    return out


def _run(kernel: Any, args: Any, like: Tensor, layout: list[Tensor], **fields: Any) -> None:
    args.layout = _layout(layout)
    _call(kernel, args, like, **fields)


def _call(kernel: Any, args: Any, like: Tensor, **fields: Any) -> None:
    """Fill the argument struct and call. Tensors stand for (pointer, row stride)."""
    args.dtype = _DTYPES[like.dtype]
    held = []  # copies made for contiguity must outlive the call
    for name, value in fields.items():
        if isinstance(value, Tensor):
            if value.dtype != like.dtype:  # the kernel would read it as the wrong type
                raise TypeError(f"{name} must be {like.dtype}; got {value.dtype}")
            value = _inner_contiguous(value)
            held.append(value)
            value = _rows(value)
        setattr(args, name, _ABSENT if value is None else value)
    kernel(args)


def _layout(layout: list[Tensor] | Layout) -> Any:
    rowptr, col, _, colptr, *_ = layout
    return _kernels.LayoutArgs(
        *(t.data_ptr() for t in layout[:6]),
        rowptr.shape[0] - 1,
        colptr.shape[0] - 1,
        col.shape[0],
        rowptr.dtype == torch.int64,
    )


def _inner_contiguous(t: Tensor) -> Tensor:
    """The tensor itself where each row's elements are contiguous, whatever the row stride."""
    expected = 1
    for size, stride in zip(reversed(t.shape[1:]), reversed(t.stride()[1:])):
        if size != 1 and stride != expected:
            return t.contiguous()
        expected *= size
    return t


def _rows(t: Tensor) -> tuple[int, int]:
    return t.data_ptr(), t.stride(0)


def _pointers(names: tuple[str, ...], tensors: tuple[Tensor, ...]) -> dict[str, int]:
    return {name: t.data_ptr() for name, t in zip(names, tensors)}


def _pointer(t: Tensor | None) -> int:
    return 0 if t is None else t.data_ptr()


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
