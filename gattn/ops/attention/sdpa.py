"""Use of torch's dense attention for complete and causal graphs, for which it is faster.

A graph of blocks, each with consecutive queries and keys, needs no list of edges: its attention is
dense within each block. torch's kernels compute it in tiles that fit into the cache. They read q,
k, v once per tile of at least 32 queries instead of once per edge, and save q, k, v, out and one
number per query and head.

The size of a block alone decides whether it is computed densely, so that it gives the same bits in
every batch. Blocks of equal size are stacked in one call, and small blocks use the kernels on
edges. The rows of a dense block are computed together: if a key or value contains NaN or infinity,
a causal block may also give NaN for earlier queries of that block.

This runs on a CPU only, where torch's backward sums in a fixed order. On CUDA the order may vary,
and two runs could differ in their bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from gattn.compat import torch as torch_internals
from gattn.graph import Graph
from gattn.graph.cache import cached
from gattn.layout.blocks import Blocks
from gattn.ops.registration import path_trace
from gattn.ops.registration.backend import is_transformed
from gattn.ops.registration.derivatives import reference_gradients
from gattn.ops.registration.operator import WriteGuard, wants_grad

# For blocks with fewer query-key pairs, the operator on edges is faster.
FEWEST_PAIRS = {"complete": 32 * 32, "causal": 64 * 64}
"""Dense attention is used only for blocks with at least this number of (query, key) pairs."""
FEWEST_ROWS = 16
"""Dense attention is used only for blocks with at least this number of queries, and of keys."""

OnEdges = Callable[[Tensor, Tensor, Tensor, Graph], Tensor]


class Plan(NamedTuple):
    """Division of the queries and keys into parts: dense blocks, and runs of small blocks."""

    query_sizes: tuple[int, ...]
    """Number of queries in each part."""
    key_sizes: tuple[int, ...]
    """Number of keys in each part."""
    groups: tuple[tuple[int, ...], ...]
    """Indices of the parts that are dense blocks, grouped by block size."""
    small: tuple[int, ...]
    """Indices of the parts that are runs of small blocks."""
    small_blocks: Blocks
    """Numbers of queries and keys in each small block."""


def plan_for(
    graph: Graph, query: Tensor, value: Tensor, extras: tuple[Any, ...], backend: str | None
) -> Plan | None:
    """Return the plan for dense attention of queries [n, h, c] and values [m, h, w], of which only
    the shape, the device and the need of a gradient are read; return None if the operator on edges
    is faster or required.

    ``extras`` are arguments that dense attention does not support: bias, edge features, a seed. If
    one of them is not None, the operator on edges is used. The same holds if the caller or the
    environment variable ``GATTN_BACKEND`` selects a backend, off the CPU, inside transforms other
    than vmap without gradients, for queries and values of different widths, and if no block is
    large; under torch.compile, if any block is small. The plan is cached in the graph.
    """
    if graph.blocks is None or backend is not None or os.environ.get("GATTN_BACKEND"):
        return None
    if graph.device.type != "cpu":
        return None
    if is_transformed() and (
        torch_internals.innermost_transform() != "vmap" or wants_grad(query, value)
    ):
        # The operator on edges runs in plain PyTorch, which all transforms of functions support.
        return None
    if any(extra is not None for extra in extras) or value.numel() == 0:
        return None
    if query.shape[2] != value.shape[2]:
        return None
    if torch.compiler.is_compiling():
        plan = cut(graph.blocks)
        return plan if plan.groups and not plan.small else None
    blocks = graph.blocks
    plan = cached(graph, "dense", lambda: cut(blocks))
    return plan if plan.groups else None


def attend_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    scale: float,
    plan: Plan,
    on_edges: OnEdges,
) -> Tensor:
    """Compute softmax(scale q k^T) v for every block of a complete or causal graph: [n, h, c].

    ``plan`` is the result of :func:`plan_for`; queries are [n, h, c], keys and values [m, h, c].
    ``on_edges`` computes the attention of the small blocks from their queries, keys, values and
    graph.
    """
    if path_trace.listeners:
        path_trace.report("scaled_dot_product_attention", "torch", "dense")
    causal = plan.small_blocks.causal
    if plan.groups == (tuple(range(len(plan.query_sizes))),):
        q, k, v = (t.unflatten(0, (len(plan.query_sizes), -1)) for t in (query, key, value))
        return _call(q, k, v, causal, scale).flatten(0, 1)
    queries = query.split(plan.query_sizes)
    pieces = queries, key.split(plan.key_sizes), value.split(plan.key_sizes)
    outs = list(queries)
    for group in plan.groups:
        q, k, v = (torch.stack([parts[piece] for piece in group]) for parts in pieces)
        for piece, out in zip(group, _call(q, k, v, causal, scale).unbind()):
            outs[piece] = out
    if plan.small:
        q, k, v = (torch.cat([parts[piece] for piece in plan.small]) for parts in pieces)
        out = on_edges(q, k, v, _graph_of_small_blocks(graph, plan.small_blocks))
        sizes = [plan.query_sizes[piece] for piece in plan.small]
        for piece, part in zip(plan.small, out.split(sizes)):
            outs[piece] = part
    return torch.cat(outs)


def cut(
    blocks: Blocks, fewest_pairs: dict[str, int] = FEWEST_PAIRS, fewest_rows: int = FEWEST_ROWS
) -> Plan:
    """Divide blocks into dense blocks, grouped by size, and runs of consecutive small blocks. A
    block is dense if it has at least ``fewest_rows`` queries and keys and the number of pairs in
    ``fewest_pairs`` for its kind.
    """
    sizes: list[tuple[int, int]] = []
    groups: dict[tuple[int, int], list[int]] = {}
    small: list[int] = []
    small_blocks: list[tuple[int, int]] = []
    fewest = fewest_pairs["causal" if blocks.causal else "complete"]
    for q, k in zip(blocks.query_sizes, blocks.key_sizes):
        if min(q, k) >= fewest_rows and q * k >= fewest:
            groups.setdefault((q, k), []).append(len(sizes))
            sizes.append((q, k))
            continue
        small_blocks.append((q, k))
        if small and small[-1] == len(sizes) - 1:
            sizes[-1] = sizes[-1][0] + q, sizes[-1][1] + k
        else:
            small.append(len(sizes))
            sizes.append((q, k))
    return Plan(
        tuple(q for q, _ in sizes),
        tuple(k for _, k in sizes),
        tuple(map(tuple, groups.values())),
        tuple(small),
        Blocks(tuple(q for q, _ in small_blocks), tuple(k for _, k in small_blocks), blocks.causal),
    )


def _graph_of_small_blocks(graph: Graph, small_blocks: Blocks) -> Graph:
    """Return the graph of the small blocks. It is cached with the whole graph."""
    return cached(graph, "small blocks", lambda: Graph.from_blocks(small_blocks, graph.device))


def _call(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    """Compute dense attention of queries [b, n, h, c] to keys [b, m, h, c]: [b, n, h, c]."""
    if wants_grad(query, key, value) and not torch.compiler.is_compiling():
        return _Dense.apply(query, key, value, causal, scale)  # type: ignore[return-value]
    return _dense(query, key, value, causal, scale)


class _Dense(torch.autograd.Function):
    """Autograd function for torch's dense attention. It can be differentiated twice.

    The second derivative uses torch's "math" implementation. The tensors that backward reads are
    saved with ``save_for_backward``, so that hooks on saved tensors see them, activation
    checkpointing saves their memory, and they are freed with autograd's graph.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        """Return the attention output, and save the inputs for the backward pass and, if torch
        chooses its flash attention, the output and its log-sum-exp. The arguments are those of
        :func:`_with_logsumexp`.
        """
        out, logsumexp = _with_logsumexp(*args)
        ctx.causal, ctx.scale = args[3:]
        ctx.output_guard = WriteGuard.of(out)
        ctx.save_for_backward(*args[:3], *(() if logsumexp is None else (out.data, logsumexp)))
        # The transposed output is detached. Otherwise autograd would treat it as a view and forbid
        # in-place writes to it.
        return out.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients of query, key and value: by torch's flash attention, or by its plain
        operations if a second derivative may follow or forward did not use it. An output that was
        changed in place is computed again.
        """
        q, k, v, *saved = ctx.saved_tensors
        if torch.is_grad_enabled() or not saved:
            with sdpa_kernel(SDPBackend.MATH):
                result = reference_gradients(
                    lambda q, k, v: _dense(q, k, v, ctx.causal, ctx.scale), (q, k, v), grads
                )
            return *result, None, None
        out, logsumexp = saved
        if ctx.output_guard.is_written():
            out, _ = _with_logsumexp(q, k, v, ctx.causal, ctx.scale)
        assert torch_internals.flash_attention is not None
        transposed = (t.transpose(1, 2) for t in (*grads, q, k, v, out))
        result = torch_internals.flash_attention.backward(
            *transposed, logsumexp, 0.0, ctx.causal, scale=ctx.scale
        )
        return *(grad.transpose(1, 2) for grad in result), None, None


def _with_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor | None]:
    """Compute dense attention of blocks, [b, n, h, c], and the logsumexp of the scores, [b, h, n],
    which the backward pass reads.

    The logsumexp is None if torch would not choose its tiled flash kernel for these inputs.
    """
    flash = torch_internals.flash_attention
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    if flash is None or not flash.is_chosen(q, k, v, causal):
        return _dense(query, key, value, causal, scale), None
    out, logsumexp = flash.forward(q, k, v, 0.0, causal, scale=scale)
    return out.transpose(1, 2), logsumexp


def _dense(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    """Compute torch's dense attention of blocks of equal sizes: [b, n, h, c] from queries of this
    shape, and from keys and values [b, m, h, c].
    """
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    # Autocast is switched off, because the result must have the dtype of the inputs.
    with torch.autocast(query.device.type, enabled=False):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return out.transpose(1, 2)
