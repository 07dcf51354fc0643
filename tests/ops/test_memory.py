"""No tensor of size e x h x c is saved or allocated, in forward or backward."""

import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gattn import Graph
from gattn.kernels import cpu

NODES, DEGREE, HEADS, CHANNELS, FEATURES = 64, 32, 4, 16, 2


@pytest.fixture(scope="module")
def dense_graph():
    generator = torch.Generator().manual_seed(0)
    return Graph(torch.randint(0, NODES, (2, NODES * DEGREE), generator=generator), NODES)


class Largest(TorchDispatchMode):
    """The most elements in any tensor that an operation returns."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def see(self, tensor):
        if isinstance(tensor, torch.Tensor):
            self.elements = max(self.elements, tensor.numel())
        return tensor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return torch.utils._pytree.tree_map(self.see, func(*args, **(kwargs or {})))


def test_saved_and_allocated(operator, dense_graph, monkeypatch):
    edges = dense_graph.num_edges
    inputs = operator.inputs(dense_graph, HEADS, CHANNELS, dtype=torch.float32, d=FEATURES)
    largest, saved = Largest(), []
    inside = cpu.empty  # what launchers allocate, below the dispatcher
    monkeypatch.setattr(cpu, "empty", lambda *args, **kw: largest.see(inside(*args, **kw)))

    def pack(tensor):
        saved.append(tensor.numel())
        return tensor

    with largest, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        operator.gradients(inputs, dense_graph)
    per_edge = edges * HEADS  # more than n h c here; e h c is 16 times as much
    assert per_edge > NODES * HEADS * (CHANNELS + 1)
    assert max(saved) <= per_edge
    assert sum(saved) <= 3 * per_edge + 7 * edges + 8 * NODES * HEADS * (CHANNELS + 1)
    assert 0 < largest.elements <= per_edge


PEAK = """
import sys
import torch
from gattn import Graph
from gattn import functional as F
import resource
torch.set_num_threads(1)
n, e, h, c, d = 400, 60_000, 8, 64, 4
graph = Graph(torch.randint(0, n, (2, e)), n)
node, row = lambda: torch.randn(n, h, c, requires_grad=True), lambda: torch.randn(e, d)
attr, proj = row().requires_grad_(), torch.randn(h, c, d, requires_grad=True)
score, edge = torch.randn(n, h, requires_grad=True), torch.randn(e, h, requires_grad=True)
weight = torch.randn(h, c, requires_grad=True)
calls = [
    lambda g: F.additive_attention(score, score, node(), g, edge_score=edge),
    lambda g: F.dot_product_attention(node(), node(), node(), g, edge_attr=attr, edge_proj=proj),
    lambda g: F.mlp_attention(node(), node(), node(), weight, g, edge_attr=attr, edge_proj=proj),
]
tiny = Graph(torch.randint(0, n, (2, 0)), n)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
edge, whole, attr, all_attr = edge[:0], edge, attr[:0], attr
for call in calls:
    call(tiny).sum().backward()
edge, attr = whole, all_attr
start = peak()
for call in calls:
    call(graph).sum().backward()
print((peak() - start) / (4 * e * h * c))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss differs elsewhere")
def test_resident_memory_with_the_kernels_scratch():
    """All three attentions, forward and backward: a fraction of one [e, h, c] tensor."""
    ran = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.35
