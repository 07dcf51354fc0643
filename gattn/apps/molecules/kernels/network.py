"""Operator that computes :class:`gattn.apps.molecules.network.MoleculeNetwork` in one C++ kernel.

A batch of 64 molecules is so small that the calls of operators take longer than their work. The
kernel computes the whole network for a few molecules at a time, so that their features stay in the
cache, and its backward pass computes all gradients. It divides a batch into two shares, for two
threads, whose gradients are added in order. Therefore the number of threads does not change the
bits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gattn.kernels import cpu
from gattn.ops.registration import path_trace
from gattn.ops.registration.backend import is_transformed

LANES = 8
"""Multiple to which the kernel pads the number of heads."""
MAX_EDGES = 1 << 30
"""Maximum number of atoms and of edges, which the kernel numbers with 32 bits."""


class NetworkSizes(NamedTuple):
    """Sizes of the network (layers, heads, learned queries), and the number of threads."""

    layers: int
    heads: int
    queries: int
    threads: int


class NetworkGraph(NamedTuple):
    """Batch of g molecules, with n atoms, e edges and f descriptors, as input for the network.

    Attributes:
        x: [n, features of an atom].
        edge_index: [2, e] int64, the bonds in both directions; self-loops are ignored.
        edge_attr: [e, features of a bond].
        ptr: [g + 1] int64, the index of each molecule's first atom.
        extra: [g, f], descriptors that are inputs of the head.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    ptr: Tensor
    extra: Tensor


def obstacle(graph: NetworkGraph, parameters: Sequence[Tensor]) -> str:
    """Return the reason why the C++ kernel cannot compute the network; "" if it can.

    The kernel computes fp32 and fp64 on a CPU, and no gradients of the batch.
    """
    x = graph.x
    numbers = (graph.x, graph.edge_attr, graph.extra)
    if not cpu.serves(x.device):
        return f"there are no C++ kernels for the device {x.device}"
    if x.dtype not in (torch.float32, torch.float64) or torch.is_autocast_enabled("cpu"):
        return "the kernel computes only in fp32 and fp64: leave out autocast and 16-bit inputs"
    if any(t.dtype != x.dtype for t in (*numbers, *parameters)):
        return "the inputs and the parameters must have the same dtype"
    if any(p.device != x.device for p in parameters):
        return "the inputs and the parameters must be on the same device"
    if any(t.requires_grad for t in numbers):
        return "the kernel computes no gradients of the atoms and bonds"
    if not graph.edge_index.dtype == graph.ptr.dtype == torch.int64:
        return "edge_index and ptr must be int64"
    if max(len(x), len(graph.edge_attr)) >= MAX_EDGES:
        return f"the batch must have less than {MAX_EDGES:,} atoms and edges"
    plain = all(type(t) is Tensor for t in numbers) or _is_dry_run()
    if not plain or torch.compiler.is_compiling() or is_transformed():
        return "torch.compile, function transforms and subclasses of tensors need the layers"
    return ""


def _is_dry_run() -> bool:
    return bool(path_trace.listeners) and path_trace.is_dry_run()


def molecule_network(
    graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes
) -> Tensor:
    """Compute the network; see :class:`gattn.apps.molecules.network.MoleculeNetwork` for the
    equation.

    Args:
        graph: the batch of g molecules.
        parameters: weight and bias of the atoms; for each layer those of the norm, then ``lin``,
            ``att_src``, ``att_dst``, ``lin_edge``, ``att_edge`` and ``bias``; for the readout
            the queries, the weights of keys and values, weight and bias of its result; then weight
            and bias of the sum of the atoms and of the two layers of the head.
        sizes: sizes of the network, and the number of threads.

    Returns:
        [g, t]. Its gradients with respect to the parameters cannot be differentiated again.

    Raises:
        ValueError: an edge joins two molecules, ``ptr`` does not divide the atoms, or a shape is
            not that of the parameters.
    """
    _check(graph, parameters, sizes)
    if _is_dry_run():
        path_trace.report("molecule_network", "cpu", "fused")
        return graph.x.new_empty(len(graph.ptr) - 1, len(parameters[-1]))
    if torch.is_grad_enabled() and any(p.requires_grad for p in parameters):
        return _Network.apply(graph, sizes, *parameters)
    return _forward(graph, parameters, sizes, False)[0]


def _check(graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes) -> None:
    """Check the shapes of the batch, because the kernel reads it without checks."""
    atoms, edges, molecules = len(graph.x), graph.edge_index.shape[-1], len(graph.ptr) - 1
    width, features = parameters[0].shape
    edge_features = parameters[7].shape[1]
    extra = parameters[-4].shape[1] - (sizes.queries + 1) * width
    expected = {
        "x": (atoms, features), "edge_index": (2, edges), "edge_attr": (edges, edge_features),
        "extra": (molecules, extra),
    }  # fmt: skip
    for name, shape in expected.items():
        if (got := tuple(getattr(graph, name).shape)) != shape:
            raise ValueError(f"{name} must be {shape}; got {got}")


class _Network(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, graph: NetworkGraph, sizes: NetworkSizes, *parameters: Tensor) -> Tensor:
        out, states = _forward(graph, parameters, sizes, True)
        ctx.graph, ctx.sizes, ctx.states = graph, sizes, states
        ctx.save_for_backward(*parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        parameters = ctx.saved_tensors
        lengths = [p.numel() for p in parameters]
        gradients = grad.new_empty(sum(lengths))
        _run("molecule_network_backward", ctx.graph, parameters, ctx.sizes, ctx.states, {
            "grad": grad.contiguous(), "gradients": gradients,
        })  # fmt: skip
        pairs = zip(gradients.split(lengths), parameters)
        return None, None, *(gradient.view(p.shape) for gradient, p in pairs)


def _forward(
    graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes, is_saved: bool
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output, and the states that backward needs."""
    x, molecules, width = graph.x, len(graph.ptr) - 1, len(parameters[0])
    atoms, edges = len(x), graph.edge_index.shape[1]
    layers, heads, queries, _ = sizes
    lanes, head_input = -(-heads // LANES) * LANES, parameters[-4].shape[1]
    states = {
        "edges": torch.empty(atoms + 1 + 2 * edges, dtype=torch.int32, device=x.device),
        "pooled": x.new_empty(molecules, queries**2 + 1, width),
        "values": x.new_empty(molecules, queries, width),
        "head_input": x.new_empty(molecules, head_input),
        "hidden": x.new_empty(molecules, width),
    }
    if is_saved:
        states["rows"] = cpu.empty(x, 2 + 3 * layers, atoms, width)
        states["inverse_std"] = x.new_empty(layers, atoms)
        states["edge_weights"] = x.new_empty(layers, edges + atoms, lanes)
        states["query_weights"] = x.new_empty(atoms, queries**2)
    out = x.new_empty(molecules, len(parameters[-1]))
    _run("molecule_network", graph, parameters, sizes, states, {"out": out})
    return out, states


def _run(
    kernel: str, graph: NetworkGraph, parameters: Sequence[Tensor], sizes: NetworkSizes,
    states: dict[str, Tensor], more: dict[str, Tensor],
) -> None:  # fmt: skip
    source, destination = graph.edge_index.contiguous()
    # The tensors must exist until the kernel ends, because the table of arguments contains their
    # addresses.
    weights = [p.contiguous() for p in parameters]
    values: dict[str, Any] = {
        "x": graph.x, "edge_attr": graph.edge_attr, "ptr": graph.ptr,
        "extra_descriptors": graph.extra, "source": source, "destination": destination,
        "parameters": torch.tensor([p.data_ptr() for p in weights]),
        "num_atoms": len(graph.x), "num_edges": len(source), "num_molecules": len(graph.ptr) - 1,
        "atom_features": graph.x.shape[1], "edge_features": graph.edge_attr.shape[1],
        "width": len(weights[0]), "extra": graph.extra.shape[1], "targets": len(weights[-1]),
        **sizes._asdict(), **states, **more,
    }  # fmt: skip
    _launcher(kernel, tuple(values))(list(values.values()))


@functools.cache
def _launcher(kernel: str, names: tuple[str, ...]) -> cpu.Launcher:
    optional = {
        "rows", "inverse_std", "edge_weights", "query_weights", "out", "grad", "gradients"
    }  # fmt: skip
    return cpu.Launcher(kernel, {name: i for i, name in enumerate(names)}, optional)
