"""No tensor of size e x h x c is saved or allocated, in forward or backward."""

import subprocess
import sys
from pathlib import Path

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
    """Dispatch mode that records the largest number of elements in a tensor that an operation
    returns.
    """

    def __init__(self):
        super().__init__()
        self.elements = 0

    def see(self, tensor):
        if isinstance(tensor, torch.Tensor):
            self.elements = max(self.elements, tensor.numel())
        return tensor

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return torch.utils._pytree.tree_map(self.see, func(*args, **(kwargs or {})))


def test_operators_allocate_no_tensor_of_edges_times_channels(operator, dense_graph, monkeypatch):
    edges = dense_graph.num_edges
    inputs = operator.inputs(dense_graph, HEADS, CHANNELS, dtype=torch.float32, d=FEATURES)
    largest, saved = Largest(), []
    # The kernels' launchers allocate by this function, which torch's dispatch mode does not see.
    inside = cpu.empty
    monkeypatch.setattr(cpu, "empty", lambda *args, **kw: largest.see(inside(*args, **kw)))

    def pack(tensor):
        saved.append(tensor.numel())
        return tensor

    with largest, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        operator.gradients(inputs, dense_graph)
    # Larger than a tensor [n, h, c], but 16 times smaller than a tensor [e, h, c].
    per_edge = edges * HEADS
    assert per_edge > NODES * HEADS * (CHANNELS + 1)
    assert max(saved) <= per_edge
    assert sum(saved) <= 3 * per_edge + 7 * edges + 8 * NODES * HEADS * (CHANNELS + 1)
    assert 0 < largest.elements <= per_edge


PEAK = """
import sys
import torch
from gattn import Graph
from tests.families import FAMILIES
import resource
torch.set_num_threads(1)
n, e, h, c = 400, 60_000, 8, 64
graph, tiny = (Graph(torch.randint(0, n, (2, size)), n) for size in (e, 0))
attentions = [family.variants["edges"] for family in FAMILIES.values()]
inputs = [
    [x.inputs(g, h, c, dtype=torch.float32, d=4, w=c) for g in (tiny, graph)] for x in attentions
]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
for attention, (few, _) in zip(attentions, inputs):
    attention(few, tiny).sum().backward()
start = peak()
for attention, (_, all_of_them) in zip(attentions, inputs):
    attention(all_of_them, graph).sum().backward()
print((peak() - start) / (4 * e * h * c))
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss differs elsewhere")
def test_resident_memory_is_below_a_tensor_of_edges_times_channels():
    """The resident memory of each attention, in the forward and backward pass, must be a fraction
    of one [e, h, c] tensor.
    """
    ran = subprocess.run(
        [sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert float(ran.stdout) < 0.35


OUT_OF_MEMORY = """
import resource, torch, gattn
torch.set_num_threads(2)
graph = gattn.Graph(torch.randint(50, (2, 400)), 50)
h, c, d = 8, 512, 2048
query, key, value = (torch.randn(50, h, c) for _ in range(3))
edge_attr, edge_proj = torch.randn(400, d), torch.randn(h, c, d)
attend = gattn.functional.dot_product_attention
attend(query, key, value, graph)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (30 << 20),) * 2)
try:
    attend(query, key, value, graph, edge_attr=edge_attr, edge_proj=edge_proj)
except (MemoryError, RuntimeError) as error:
    print("refused", type(error).__name__)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory as Linux does")
def test_attention_without_enough_memory_raises_error():
    run = [sys.executable, "-c", OUT_OF_MEMORY]
    ended = subprocess.run(run, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.startswith("refused")
