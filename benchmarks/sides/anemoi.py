"""The Triton graph transformer of anemoi-models."""

from __future__ import annotations

import importlib

import torch
from torch import Tensor

from benchmarks.core.case import CannotRun, Function, Topology
from benchmarks.sides.inputs import Shape
from benchmarks.sides.pyg import check_fits


def operator(shape: Shape, topology: Topology) -> Function:
    """Compute dot-product attention; edge features are passed as W a_ij, [e, h, c]."""
    if shape.family != "dot_product":
        raise CannotRun("its score is a dot product")
    check_fits(topology)
    try:
        attend = importlib.import_module("anemoi.models.triton.gt").GraphTransformerFunction.apply
    except (ImportError, ValueError) as problem:
        raise CannotRun(f"anemoi-models cannot be imported ({problem})") from problem
    source, destination = topology.edge_index
    perm = torch.argsort(source, stable=True)
    # perm[p] is the edge at the CSR position p.
    perm = perm[torch.argsort(destination[perm], stable=True)]
    col, row = source[perm], destination[perm]
    csr2csc = torch.argsort(col, stable=True)
    csc = col.int(), _offsets(row, topology.num_nodes)
    reverse = _offsets(col, topology.num_nodes), csr2csc.int(), row.int()

    def run(
        query: Tensor, key: Tensor, value: Tensor,
        edge_attr: Tensor | None = None, edge_proj: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        if edge_attr is None:
            edges = query.new_zeros(topology.num_edges, *query.shape[1:])
        else:
            edges = torch.einsum("ed,hcd->ehc", edge_attr[perm], edge_proj)
        return attend(query, key, value, edges, csc, reverse)

    return run


def _offsets(index: Tensor, size: int) -> Tensor:
    """Return the offset of the first edge of each node, [size + 1]."""
    counts = torch.bincount(index, minlength=size)
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0)).int()
