"""Graphs follow writes to the edges, including those that torch does not count."""

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch_geometric import EdgeIndex

import gattn.graph.graph
import gattn.graphs
from gattn.graph import as_graph, cache
from gattn.kernels import cpu
from gattn.kernels.checksum import checksum


def _through_storage(edges, new):
    same = torch.empty(0, dtype=edges.dtype).set_(edges.untyped_storage())
    same.as_strided(edges.shape, edges.stride(), edges.storage_offset()).copy_(new)


UNCOUNTED = {
    "dlpack": lambda edges, new: torch.from_dlpack(edges).copy_(new),
    "numpy": lambda edges, new: np.copyto(edges.numpy(), new.numpy()),
    "data": lambda edges, new: edges.data.copy_(new),
    "storage": _through_storage,
}
"""Functions that write to a tensor without increasing its version counter of torch."""
VIEWS = {
    "contiguous": lambda edges: edges.clone(),
    "int32": lambda edges: edges.int(),
    "transposed": lambda edges: edges.t().contiguous().t(),
    "sliced": lambda edges: torch.cat([edges, edges], 1)[:, : edges.shape[1]],
    "strided": lambda edges: edges.repeat_interleave(2, 1)[:, ::2],
}

WRITES = list(zip(VIEWS, [*UNCOUNTED, "numpy"], strict=True))
"""Each view with one of the functions that write."""


@pytest.fixture(params=["kernels", "no kernels"])
def with_and_without_kernels(request, monkeypatch):
    if request.param == "no kernels":
        monkeypatch.setattr(cpu, "unavailable_reason", lambda: "not built")
        monkeypatch.setattr(cpu, "serves", lambda device: False)


@pytest.mark.parametrize(("view", "write"), WRITES, ids=str)
def test_writes_to_edges_not_counted_by_torch_are_detected(write, view, with_and_without_kernels):
    edge_index = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 1]])
    edges, version = VIEWS[view](edge_index), None
    layer, x = gattn.nn.GATConv(5, 3), torch.randn(4, 5)
    for new in (edge_index.flip(0), edge_index.roll(1), edge_index, edge_index[:, [1, 0, 2, 3, 4]]):
        before = as_graph(edges, 4)
        assert as_graph(edges, 4) is before
        version = edges._version
        UNCOUNTED[write](edges, new.to(edges.dtype))
        assert edges._version == version
        assert torch.equal(as_graph(edges, 4).edge_index, new)
        assert torch.equal(layer(x, edges), layer(x, edges.clone()))


def test_writes_to_an_edge_index_object_not_counted_by_torch_are_detected():
    edges = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    assert as_graph(edges).num_edges == 2
    edges.as_tensor().numpy()[:] = [[0, 1], [1, 1]]
    assert as_graph(edges).edge_index.tolist() == [[0, 1], [1, 1]]


def test_writes_to_index_and_ptr_not_counted_by_torch_are_detected():
    x, index, ptr = torch.randn(4, 6), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 4])
    readout = gattn.nn.LearnedQueryReadout(6, 4)
    for name, named, new in (("index", index, [1, 0, 0, 0]), ("ptr", ptr, [0, 1, 4])):
        readout(x, **{name: named}, dim_size=2)
        named.numpy()[:] = new
        actual = readout(x, **{name: named}, dim_size=2)
        assert torch.equal(actual, readout(x, **{name: named.clone()}, dim_size=2)), name


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int64])
def test_writes_to_edge_types_are_detected(dtype, with_and_without_kernels):
    edges, kind = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.tensor([0, 0, 1]).to(dtype)
    layer, x = gattn.nn.RGATConv(5, 4, num_relations=2), torch.randn(3, 5)
    layer(x, edges, kind)
    kind.copy_(torch.tensor([1, 0, 0]))
    assert torch.equal(layer(x, edges, kind), layer(x, edges, kind.clone()))
    kind.numpy()[:] = [0, 1, 0]  # torch does not count this write
    assert torch.equal(layer(x, edges, kind), layer(x, edges, kind.clone()))


def test_graphs_of_fake_tensors_are_not_cached():
    edges, x = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.randn(3, 5)
    layer = gattn.nn.GATv2Conv(5, 4, add_self_loops=False)
    blocks = gattn.graphs.complete([2, 1])
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(x, edges).shape == (3, 4)
        assert blocks.edge_index.shape == (2, 5)
    assert torch.equal(layer(x, edges), layer(x, edges.clone()))
    assert blocks.edge_index.tolist() == [[0, 1, 0, 1, 2], [0, 0, 1, 1, 2]]


@pytest.mark.parametrize("write", UNCOUNTED)
def test_write_on_a_device_not_counted_by_torch_fails_an_assertion(write, monkeypatch):
    """On a device, the device compares the checksum, and a mismatch fails its assertion."""
    monkeypatch.setattr(cache, "_is_readable", lambda tensor: False)
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = as_graph(edges, 3)
    assert as_graph(edges, 3) is graph
    edges[0, 0] = 2
    assert as_graph(edges, 3).edge_index.tolist() == [[2, 1], [1, 0]]
    UNCOUNTED[write](edges, edges.flip(0))
    with pytest.raises(RuntimeError, match=r"torch does not count .*graph\.increment_version"):
        as_graph(edges, 3)
    torch.autograd.graph.increment_version(edges)
    assert torch.equal(as_graph(edges, 3).edge_index, edges)
    kind, built = torch.tensor([0, 1]), []
    for _ in range(2):
        cache.cached_last(graph, "kind", (kind, 2), lambda: built.append(1))
    assert len(built) == 1
    UNCOUNTED[write](kind, kind.flip(0))
    with pytest.raises(RuntimeError, match="changed by a write that torch"):
        cache.cached_last(graph, "kind", (kind, 2), lambda: built.append(1))


def test_checksum_depends_on_every_index_and_its_position(with_and_without_kernels):
    edges = torch.arange(600).view(2, 300)
    seen = {checksum(edges)}
    for place in range(600):
        changed = edges.clone()
        changed.view(-1)[place] += 1 << (place % 31)
        seen.add(checksum(changed))
        swapped = edges.view(-1).clone()
        swapped[[place, 599 - place]] = swapped[[599 - place, place]]
        seen.add(checksum(swapped.view(2, 300)))
    assert len(seen) == 1 + 600 + 300
    for view in VIEWS.values():
        assert checksum(view(edges)) == checksum(view(edges.clone()))
    assert checksum(edges[:, :0]) == checksum(edges[:, :0].clone())
    assert checksum(edges.to("meta")) == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.bool])
def test_checksum_depends_on_every_floating_point_number(with_and_without_kernels, dtype):
    numbers = torch.arange(12).remainder(2).to(dtype).view(6, 2)
    seen = {checksum(numbers), checksum(numbers[:3]), checksum(numbers.flip(1))}
    for place in range(12):
        changed = numbers.clone()
        changed.view(-1)[place] = numbers.view(-1)[place].logical_not()
        seen.add(checksum(changed))
    assert len(seen) == 3 + 12
