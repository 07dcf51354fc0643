"""FlexAttention with the edges of the graph as its block mask."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.core.case import CannotRun, Function, Topology
from benchmarks.sides.inputs import Shape
from benchmarks.sides.pyg import compiled

MOST_NODES = 50_000


def operator(shape: Shape, topology: Topology) -> Function:
    """Compute dot-product attention on nodes that are padded to whole blocks."""
    if shape.operator != "dot_product":
        raise CannotRun("its score is a dot product without features of the edges")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n, device = topology.num_nodes, topology.device
    padded = 128 * math.ceil(n / 128)
    mask = F.pad(_dense_mask(topology), (0, padded - n, 0, padded - n))
    blocks = create_block_mask(
        lambda b, h, i, j: mask[i, j], None, None, padded, padded, device=device.type
    )
    attend = compiled(flex_attention) if device.type == "cuda" else flex_attention

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (
            F.pad(x, (0, 0, 0, 0, 0, padded - n)).transpose(0, 1).unsqueeze(0)
            for x in (query, key, value)
        )
        return attend(q, k, v, block_mask=blocks).squeeze(0).transpose(0, 1)[:n]

    return run


def _dense_mask(topology: Topology) -> Tensor:
    """Return the dense mask of attention, [n, n] bool, for graphs without repeated edges."""
    n = topology.num_nodes
    if n > MOST_NODES:
        raise CannotRun("a dense mask of the graph does not fit into memory")
    mask = torch.zeros(n, n, dtype=torch.bool, device=topology.device)
    source, destination = topology.edge_index
    mask[destination, source] = True
    if int(mask.sum()) != topology.num_edges:
        raise CannotRun("the graph repeats edges")
    return mask
