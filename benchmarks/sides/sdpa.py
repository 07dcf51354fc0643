"""Attention on a batch that is padded to its largest graph, by scaled_dot_product_attention with
a mask.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.core.case import CannotRun, Function, Topology
from benchmarks.sides.inputs import Shape


def operator(shape: Shape, topology: Topology) -> Function:
    """Compute dot-product attention within the graphs of a batch."""
    if shape.operator != "dot_product":
        raise CannotRun("its score is a dot product without features of the edges")
    if topology.batch is None:
        raise CannotRun("not a batch of small graphs")
    batch, device = topology.batch, topology.device
    sizes = torch.bincount(batch)
    count, longest = sizes.numel(), int(sizes.max())
    place = torch.arange(batch.numel(), device=device) - (sizes.cumsum(0) - sizes)[batch]
    at = batch * longest + place
    source, destination = topology.edge_index
    mask = torch.eye(longest, dtype=torch.bool, device=device).repeat(count, 1, 1)
    real = torch.zeros(count * longest, dtype=torch.bool, device=device)
    real[at] = True
    # Padding rows attend to themselves, because an empty row would give NaN.
    mask &= ~real.view(count, longest, 1)
    mask[batch[destination], place[destination], place[source]] = True
    mask = mask.unsqueeze(1)

    def pad(x: Tensor) -> Tensor:
        rows = x.new_zeros(count * longest, *x.shape[1:]).index_copy(0, at, x)
        return rows.view(count, longest, *x.shape[1:]).transpose(1, 2)

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(pad(query), pad(key), pad(value), attn_mask=mask)
        return out.transpose(1, 2).flatten(0, 1)[at]

    return run
