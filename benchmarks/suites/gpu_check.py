"""Checks of a case of the GPU benchmark: errors against float64, and repeatability.

All rows are checked on a small graph of the same kind, and sampled rows are checked at full size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import gattn
from benchmarks.core import verify
from benchmarks.core.case import Contender, Topology
from benchmarks.core.seeds import generator
from benchmarks.sides import ours
from benchmarks.sides.inputs import Shape, in_float64, operator_inputs

SAMPLED_ROWS = 64
SLACK = 2
"""Maximum ratio of the kernels' error to the reference's error, in addition to one rounding."""


@dataclass(frozen=True)
class Ground:
    """Data that the cases of one graph share."""

    topology: Topology
    graph: gattn.Graph
    small: Topology
    """A small graph of the same kind, for the check."""
    layout_seconds: float


def check(ground: Ground, shape: Shape) -> dict[str, Any]:
    """Return the errors against float64: of all rows on the small graph, of sampled rows on the
    whole graph.
    """
    small = ours.graph_of(ground.small)
    inputs = operator_inputs(ground.small, shape, edge_gradient=True)

    def contender(backend: str, inputs: dict[str, Tensor] = inputs) -> Contender:
        return Contender.of(ours.operator(shape.family, small, backend), inputs)

    exact = verify.step(contender("reference", in_float64(inputs)), rounded=shape.dtype)
    everything = errors(
        verify.step(contender("triton")), verify.step(contender("reference")), exact, shape.dtype
    )
    again = not verify.differing(contender("triton"))
    rows = sampled_rows(ground, shape)
    return {
        "small": everything, "rows": rows, "same_bits": again,
        "passed": again and all(part["ours"] <= part["bound"] for part in (everything, rows)),
    }  # fmt: skip


def errors(
    outcome: verify.Outcome, reference: verify.Outcome, exact: verify.Outcome, dtype: torch.dtype
) -> dict[str, float]:
    """Return the errors of the kernels, and of the reference in the same dtype, against float64."""
    baseline = verify.error(reference, exact, verify.norm)
    return {
        "ours": verify.error(outcome, exact, verify.norm),
        "reference": baseline,
        "bound": SLACK * baseline + torch.finfo(dtype).eps,
    }


@torch.no_grad()
def sampled_rows(ground: Ground, shape: Shape) -> dict[str, float]:
    """Return the errors of the outputs of sampled destinations of the full graph, including the
    largest degree.
    """
    topology, device = ground.topology, ground.topology.device
    inputs = operator_inputs(topology, shape)
    full = ours.operator(shape.family, ground.graph, "triton")(**inputs)
    count = min(SAMPLED_ROWS, topology.num_nodes)
    random = generator(3, device)
    rows = torch.randint(topology.num_nodes, (count,), generator=random, device=device)
    rows = torch.cat([rows, ground.graph.in_degree().argmax().view(1)]).unique()
    chosen = torch.isin(topology.edge_index[1], rows).nonzero().squeeze(1)
    graph = gattn.Graph(topology.edge_index[:, chosen], topology.num_nodes)
    reference = ours.operator(shape.family, graph, "reference")
    inputs_of_rows = {name: x[chosen] if name == "edge_attr" else x for name, x in inputs.items()}
    exact, base = (
        {"out": reference(**numbers)[rows]}
        for numbers in (in_float64(inputs_of_rows), inputs_of_rows)
    )
    return errors({"out": full[rows]}, base, exact, shape.dtype)
