"""Complete and causal graphs by torch's dense attention, where that is faster.

A graph made of blocks of consecutive queries and keys needs no edges: its attention is a dense
product per block, which torch's own kernels compute in tiles that stay in the cache, and the edges
are never laid out. Reads q, k, v once per tile of 32 queries or more instead of once per edge;
saves q, k, v, out and one number per query and head.

Each block is judged by its own size, so that it gives the same bits whatever else is in the batch:
blocks of one size go in one call, small ones run on their edges. The rows of a block are computed
together: where a key or value holds NaN or infinity, a causal block may give NaN to earlier
queries of that block, too.

On CPU alone: there torch's backward sums in a fixed order. On CUDA it may not, and two runs would
differ in their bits.
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
from gattn.ops.registration.derivatives import reference_gradients
from gattn.ops.registration.operator import WriteGuard, is_transformed, wants_grad

# Measured by benchmarks/dense_rule.py: in smaller blocks the operator on edges is faster.
FEWEST_PAIRS = {"complete": 32 * 32, "causal": 64 * 64}
"""Fewest pairs of query and key in a block."""
FEWEST_ROWS = 16
"""Fewest queries, and keys, in a block."""

OnEdges = Callable[[Tensor, Tensor, Tensor, Graph], Tensor]


class Plan(NamedTuple):
    """The queries and keys cut into pieces: a dense block each, or a run of small ones."""

    query_sizes: tuple[int, ...]
    key_sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    """Pieces that are dense blocks, those of one size together."""
    small: tuple[int, ...]
    """Pieces that are runs of small blocks."""
    rest: Blocks
    """The small blocks alone."""


def plan_for(
    graph: Graph, query: Tensor, value: Tensor, extras: tuple[Any, ...], backend: str | None
) -> Plan | None:
    """How to run this attention dense; None where it belongs on the edges.

    ``extras`` are the arguments that dense attention does not take: bias, edge features, a seed.
    """
    if graph.blocks is None or backend is not None or os.environ.get("GATTN_BACKEND"):
        return None
    if graph.device.type != "cpu":
        return None
    if is_transformed() and (
        torch_internals.innermost_transform() != "vmap" or wants_grad(query, value)
    ):
        return None  # the operator says what to do instead
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
    """softmax(scale q k^T) v for every block, [n, h, c]; ``on_edges`` does the small ones."""
    if path_trace.listeners:
        path_trace.report("scaled_dot_product_attention", "torch", "dense")
    causal = plan.rest.causal
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
        out = on_edges(q, k, v, _graph_of_rest(graph, plan.rest))
        sizes = [plan.query_sizes[piece] for piece in plan.small]
        for piece, part in zip(plan.small, out.split(sizes)):
            outs[piece] = part
    return torch.cat(outs)


def cut(
    blocks: Blocks, fewest_pairs: dict[str, int] = FEWEST_PAIRS, fewest_rows: int = FEWEST_ROWS
) -> Plan:
    """Judge every block by its own size, and gather what runs together."""
    sizes: list[tuple[int, int]] = []
    groups: dict[tuple[int, int], list[int]] = {}
    small: list[int] = []
    rest: list[tuple[int, int]] = []
    fewest = fewest_pairs["causal" if blocks.causal else "complete"]
    for q, k in zip(blocks.query_sizes, blocks.key_sizes):
        if min(q, k) >= fewest_rows and q * k >= fewest:
            groups.setdefault((q, k), []).append(len(sizes))
            sizes.append((q, k))
            continue
        rest.append((q, k))
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
        Blocks(tuple(q for q, _ in rest), tuple(k for _, k in rest), blocks.causal),
    )


def _graph_of_rest(graph: Graph, rest: Blocks) -> Graph:
    """The small blocks as a graph, laid out once for the graph that holds them."""
    return cached(graph, "rest", lambda: Graph.from_blocks(rest, graph.device))


def _call(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    """Attention of [b, n, h, c] on [b, m, h, c]."""
    if wants_grad(query, key, value) and not torch.compiler.is_compiling():
        return _Dense.apply(query, key, value, causal, scale)  # type: ignore[return-value]
    return _dense(query, key, value, causal, scale)


class _Dense(torch.autograd.Function):
    """torch's attention, which has a first derivative, with a second one by its plain form.

    What its backward reads is saved by autograd's own means, so that hooks see it, checkpointing
    saves its memory, and it is freed with the graph.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        out, logsumexp = _with_logsumexp(*args)
        ctx.causal, ctx.scale = args[3:]
        ctx.output_guard = WriteGuard.of(out)
        ctx.save_for_backward(*args[:3], *(() if logsumexp is None else (out.data, logsumexp)))
        return out.detach()  # no view to autograd, which may be written to

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
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
        turned = (t.transpose(1, 2) for t in (*grads, q, k, v, out))
        result = torch_internals.flash_attention.backward(
            *turned, logsumexp, 0.0, ctx.causal, scale=ctx.scale
        )
        return *(grad.transpose(1, 2) for grad in result), None, None


def _with_logsumexp(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor | None]:
    """``_dense``, and what its backward saves besides; None where torch would not run in tiles."""
    flash = torch_internals.flash_attention
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    if flash is None or not flash.is_chosen(q, k, v, causal):
        return _dense(query, key, value, causal, scale), None
    out, logsumexp = flash.forward(q, k, v, 0.0, causal, scale=scale)
    return out.transpose(1, 2), logsumexp


def _dense(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    with torch.autocast(query.device.type, enabled=False):  # the dtype is that of the inputs
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return out.transpose(1, 2)
