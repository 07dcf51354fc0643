"""Fixtures of the tests of custom scores."""

from functools import partial

import pytest
import torch
from torch import Tensor

import gattn
from gattn.ops.custom_score import chunks, edge_function
from tests.ops.custom_score.scores import HEADS, NODES, WIDTH


@pytest.fixture(autouse=True)
def compiler(request, monkeypatch):
    """Trace and differentiate scores without generating C++ code, which takes seconds per score.

    The slow tests generate it: a model with a custom score, 16-bit sums, chunks of several lengths,
    and inputs with any strides.
    """
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    else:
        edge_function._compiled.cache_clear()


@pytest.fixture
def hub() -> gattn.Graph:
    """Graph with a hub, a node without edges, and repeated edges."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, NODES - 1, (2, 40), generator=generator)
    edges[1, :20] = 3
    return gattn.Graph(torch.cat([edges, edges[:, :3]], 1), NODES)


@pytest.fixture
def tensors(hub: gattn.Graph) -> dict[str, Tensor]:
    """Query, key and value of 12 nodes, and edge features, which require gradients."""
    torch.manual_seed(1)
    rows = {"query": NODES, "key": NODES, "value": NODES}
    leaves = {n: torch.randn(r, HEADS, WIDTH, dtype=torch.float64) for n, r in rows.items()}
    leaves["edge_attr"] = torch.randn(hub.num_edges, 2, dtype=torch.float64)
    return {name: tensor.requires_grad_() for name, tensor in leaves.items()}


@pytest.fixture
def in_chunks(monkeypatch) -> None:
    """Set the size of a chunk to seven edges."""
    monkeypatch.setattr(chunks, "CHUNK", 7)
