"""Graph: every input, the layout, the memory, validation."""

import contextlib
import copy
import gc
import pickle
import re
import subprocess
import sys
import threading
import weakref

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric import EdgeIndex

import gattn.graph.graph
import gattn.graphs
from gattn import Graph
from gattn import functional as F
from gattn.graph import as_graph, cache
from gattn.kernels import cpu
from gattn.kernels.checksum import checksum
from gattn.layout import layout as reference
from gattn.layout import stats
from gattn.layout.layout import Layout, without_stats
from gattn.testing import awkward_graphs

BUILDERS = ["reference", "cpu"]
CASES = pytest.mark.parametrize("case", awkward_graphs(), ids=lambda case: case.name)


def builder(name):
    if name == "cpu" and not cpu.serves(torch.device("cpu")):
        pytest.skip("the C++ extension is not built")
    return {"cpu": getattr(cpu, "build_layout", None), "reference": reference.build}[name]


def brute_layout(source, destination, num_src, num_dst):
    """The layout by Python's sort."""
    edges = list(zip(source, destination))
    by_row = sorted(range(len(edges)), key=lambda e: (destination[e], source[e]))
    position = {e: p for p, e in enumerate(by_row)}
    by_col = sorted(by_row, key=lambda e: (source[e], position[e]))

    def offsets(values, size):
        return [sum(v < bound for v in values) for bound in range(size + 1)]

    return {
        "rowptr": offsets(destination, num_dst),
        "col": [source[e] for e in by_row],
        "perm": by_row,
        "colptr": offsets(source, num_src),
        "row": [destination[e] for e in by_col],
        "csr2csc": [position[e] for e in by_col],
    }


def assert_same_layout(layout, expected):
    for name, values in expected.items():
        got = getattr(layout, name)
        assert got.dtype == torch.int32, name
        assert got.is_contiguous(), name
        assert got.tolist() == values, name


def assert_same_graph(one, other):
    assert one.size == other.size
    assert one.num_edges == other.num_edges
    for a, b in zip(one.layout[:6], other.layout[:6]):
        assert torch.equal(a, b)


# The layout


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@CASES
def test_layout_of_awkward_graphs(name, dtype, case):
    source, destination = case.edge_index.to(dtype)
    layout = builder(name)(source, destination, *case.size)
    expected = brute_layout(source.tolist(), destination.tolist(), *case.size)
    assert_same_layout(layout, expected)


@pytest.mark.parametrize("name", BUILDERS)
@given(st.data())
@settings(max_examples=80, deadline=None)
def test_layout_of_any_graph(name, data):
    build = builder(name)
    num_src, num_dst = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    ends = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    edges = data.draw(st.lists(ends, max_size=40))
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()  # rows with a stride
    layout = build(pairs[0], pairs[1], num_src, num_dst)
    source, destination = [j for j, _ in edges], [i for _, i in edges]
    assert_same_layout(layout, brute_layout(source, destination, num_src, num_dst))


@pytest.mark.parametrize("name", BUILDERS)
def test_builders_agree_on_a_larger_graph(name):
    generator = torch.Generator().manual_seed(0)
    source = (torch.rand(200_000, generator=generator) ** 3 * 3000).long()
    destination = (torch.rand(200_000, generator=generator) ** 3 * 2000).long()
    one = builder(name)(source, destination, 3000, 2000)
    other = reference.build(source, destination, 3000, 2000)
    for field, a, b in zip(one._fields, one, other):
        assert torch.equal(a, b), field


@CASES
def test_edges_come_back_in_the_callers_order(case):
    graph = case.graph()
    assert torch.equal(graph.edge_index, case.edge_index)
    assert graph.num_edges == case.edge_index.shape[1]
    source, destination = case.edge_index
    assert torch.equal(graph.in_degree(), torch.bincount(destination, minlength=case.size[1]))
    assert torch.equal(graph.out_degree(), torch.bincount(source, minlength=case.size[0]))


@CASES
def test_transpose(case):
    graph = case.graph()
    turned = graph.transpose()
    assert turned.size == graph.size[::-1]
    assert torch.equal(turned.edge_index, case.edge_index.flip(0))
    assert_same_graph(turned.transpose(), graph)
    source, destination = case.edge_index
    expected = brute_layout(destination.tolist(), source.tolist(), *case.size[::-1])
    del expected["perm"], expected["csr2csc"]  # multi-edges may stand in another order
    assert_same_layout(turned.layout, expected)


def test_layout_does_not_depend_on_the_order_of_the_edges():
    case = next(case for case in awkward_graphs() if case.name == "edges in no order")
    order = torch.randperm(case.edge_index.shape[1], generator=torch.Generator().manual_seed(0))
    one, other = case.graph(), Graph(case.edge_index[:, order], 4)
    for name in ("rowptr", "col", "colptr", "row", "csr2csc"):
        assert torch.equal(getattr(one.layout, name), getattr(other.layout, name)), name
    assert torch.equal(order[other.layout.perm], one.layout.perm)


@pytest.mark.parametrize(
    ("sizes", "dtype"),
    [((10, 10, 10), torch.int32), ((2**31 - 2**16 - 1, 1, 1), torch.int32),
     ((2**31 - 2**16, 1, 1), torch.int64), ((1, 2**31, 1), torch.int64),
     ((1, 1, 2**40), torch.int64)],
)  # fmt: skip
def test_indices_are_32_bit_where_they_fit(sizes, dtype):
    assert reference.index_dtype(*sizes) == dtype


@CASES
def test_incidence(case):
    graph = case.graph()
    actual = graph.incidence()
    assert graph.incidence() is actual
    number = torch.arange(graph.num_edges)
    expected = Graph(torch.stack([number, graph.edge_index[1]]), (graph.num_edges, graph.num_dst))
    assert actual.size == expected.size
    assert torch.equal(actual.edge_index, expected.edge_index)
    assert torch.equal(actual.transpose().transpose().edge_index, expected.edge_index)
    assert torch.equal(actual.in_degree(), expected.in_degree())


@CASES
def test_by_destination(case):
    """The same edges: only their numbers are others, and a second time not even these."""
    graph = case.graph()
    actual = graph.by_destination()
    assert graph.by_destination() is actual
    assert_same_graph(actual, Graph(case.edge_index[:, graph.layout.perm.long()], case.size))
    assert torch.equal(actual.layout.perm.long(), torch.arange(graph.num_edges))
    assert actual.by_destination() is actual
    part = Graph.from_layout(graph.layout, edge_offset=5)
    assert part.by_destination().edge_offset == 5


def test_graph_without_layout_of_64_bit_positions():
    """With 64-bit positions every operator still has one dtype to read."""
    layout = Graph(torch.tensor([[0, 1, 2, 2], [1, 1, 0, 1]]), 3).layout
    wide = Graph.from_layout(without_stats(*(t.long() for t in layout[:6])))
    x = torch.randn(3, 2, 4)
    got = gattn.functional.dot_product_attention(x, x, x, wide, backend="reference")
    expected = gattn.functional.dot_product_attention(
        x, x, x, Graph.from_layout(layout), backend="reference"
    )
    assert torch.equal(got, expected)
    assert wide.transpose().layout.csr2csc.dtype == torch.int64


# Every kind of input


@CASES
def test_inputs_of_one_graph_agree(case):
    expected = case.graph()
    source, destination = case.edge_index
    num_src, num_dst = case.size
    ones = torch.ones(source.numel())
    assert_same_graph(Graph(case.edge_index.int(), case.size), expected)
    assert_same_graph(Graph(case.edge_index.t().contiguous().t(), case.size), expected)
    assert_same_graph(Graph(expected), expected)
    assert_same_graph(Graph(EdgeIndex(case.edge_index, sparse_size=case.size)), expected)
    coo = torch.sparse_coo_tensor(
        torch.stack([destination, source]), ones, (num_dst, num_src), check_invariants=True
    )
    assert_same_graph(Graph(coo), expected)
    scipy_coo = scipy.sparse.coo_array(
        (ones.numpy(), (source.numpy(), destination.numpy())), (num_src, num_dst)
    )
    assert_same_graph(Graph(scipy_coo), expected)
    unique = Graph(torch.unique(case.edge_index, dim=1), case.size)
    for matrix in (
        coo.coalesce(), scipy_coo.tocsr(), scipy_coo.tocsc(), scipy.sparse.csr_matrix(scipy_coo)
    ):  # fmt: skip
        got = Graph(matrix)
        assert got.size == case.size
        assert torch.equal(got.layout.col, unique.layout.col)
        assert torch.equal(got.layout.rowptr, unique.layout.rowptr)


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:Sparse CSC:UserWarning")
@CASES
def test_compressed_torch_matrices(case):
    source, destination = case.edge_index
    dense = torch.zeros(case.size[::-1])
    dense[destination, source] = 1
    unique = Graph(torch.unique(case.edge_index, dim=1), case.size)
    for matrix in (dense.to_sparse_csr(), dense.to_sparse_csc()):
        got = Graph(matrix)
        assert got.size == case.size
        assert torch.equal(got.layout.col, unique.layout.col)
        assert torch.equal(got.layout.rowptr, unique.layout.rowptr)


def test_matrix_keeps_stored_zeros_and_reads_rows_as_destinations():
    adj_t = torch.sparse_coo_tensor([[0, 0], [1, 2]], [0.0, 5.0], (1, 3), check_invariants=True)
    graph = Graph(adj_t)
    assert graph.size == (3, 1)
    assert graph.edge_index.tolist() == [[1, 2], [0, 0]]


def test_networkx_input():
    graph = Graph(networkx.DiGraph([("a", "b"), ("c", "a")]))
    assert graph.edge_index.tolist() == [[0, 2], [1, 0]]
    assert graph.size == (3, 3)
    assert Graph(networkx.empty_graph(4)).size == (4, 4)


class SparseTensor:
    """The part of torch_sparse's class of that name that is read."""

    def __init__(self, row, col, sizes):
        self.row, self.col, self.sizes = row, col, sizes

    def coo(self):
        return self.row, self.col, None

    def sparse_sizes(self):
        return self.sizes


def test_sparse_tensor_input():
    adj_t = SparseTensor(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), (2, 3))
    graph = Graph(adj_t)
    assert graph.size == (3, 2)
    assert graph.edge_index.tolist() == [[2, 0, 1], [0, 1, 1]]
    with pytest.raises(ValueError, match=r"size must be \(3, 2\)"):
        Graph(adj_t, 4)


def test_size_from_the_edges():
    assert Graph(torch.tensor([[0, 6], [1, 2]])).size == (7, 7)
    assert Graph(torch.empty(2, 0, dtype=torch.int64)).size == (0, 0)
    assert Graph(torch.tensor([[0], [1]]), (3, 5)).size == (3, 5)
    assert Graph(torch.tensor([[0], [1]]), [3, 5]).size == (3, 5)
    assert Graph(EdgeIndex([[0, 1], [1, 0]])).size == (2, 2)


def test_sizes_may_be_numpy_s():
    graph = Graph(torch.tensor([[0], [1]]), (np.int64(3), np.int32(5)))
    assert graph.size == (3, 5)
    assert [type(number) for number in graph.size] == [int, int]


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_the_default_device_changes_nothing(device):
    edges = torch.tensor([[0, 1], [1, 1]])
    with torch.device(device):
        graph = Graph(edges, 2)
        blocks = gattn.graphs.causal([2, 1], device="cpu").edge_index
    assert_same_graph(graph, Graph(edges, 2))
    assert blocks.tolist() == [[0, 0, 1, 2], [0, 1, 1, 2]]


def test_torch_jit_trace_is_refused():
    """It would write empty memory into the program in place of the layout."""
    edges, score = torch.tensor([[0, 1], [1, 1]]), torch.randn(2, 1)
    with pytest.raises(RuntimeError, match=r"gattn does not run under torch\.jit\.trace"):
        torch.jit.trace(lambda a, e: F.edge_softmax(a, Graph(e, 2)), (score, edges))


@pytest.mark.parametrize(
    "size", [-1, True, (3,), (3, 3, 3), (3, -1), "ab", 2.0, (2.0, 3), ((3, 3), 3)]
)
def test_size_is_checked(size):
    with pytest.raises(ValueError, match=r"size must be num_nodes or \(num_src, num_dst\)"):
        Graph(torch.tensor([[0], [1]]), size)


def test_size_must_match_the_input():
    with pytest.raises(ValueError, match=r"size must be \(3, 2\), that of edges"):
        Graph(torch.zeros(2, 3).to_sparse(), 3)
    graph = Graph(torch.tensor([[0], [1]]), 3)
    for make in (Graph, as_graph):
        assert_same_graph(make(graph, (3, 3)), graph)
        with pytest.raises(ValueError, match=r"size must be \(3, 3\), as that of Graph"):
            make(graph, 4)


# Validation


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    ("edges", "size", "error"),
    [
        ([[0, 3], [1, 1]], 3, r"source indices must be in \[0, 3\); got 3 at edge 1"),
        ([[0, 1], [1, 7]], (9, 3), r"destination indices must be in \[0, 3\); got 7 at edge 1"),
        ([[-1, 1], [1, 0]], 3, r"source indices must be in \[0, 3\); got -1 at edge 0"),
        ([[0, 1], [0, -2]], None, r"destination indices must be in \[0, 2\); got -2 at edge 1"),
        ([[-1], [-1]], None, r"source indices must be in \[0, 0\); got -1 at edge 0"),
        ([[0], [0]], 0, r"source indices must be in \[0, 0\); got 0 at edge 0"),
    ],
)
def test_index_out_of_range(edges, size, error, dtype):
    with pytest.raises(ValueError, match=error):
        Graph(torch.tensor(edges, dtype=dtype), size)


def test_the_largest_index_of_32_bits_is_told_right():
    edges = torch.tensor([[2**31 - 1], [-1]], dtype=torch.int32)
    with pytest.raises(ValueError, match=rf"in \[0, {2**31}\); got -1 at edge 0"):
        Graph(edges)


def test_kernels_lay_out_nothing_that_is_out_of_range():
    """They check what they read themselves: a thread may write after any check before."""
    build = builder("cpu")
    for bad in ([[0, 3], [1, 1]], [[0, 1], [3, 1]], [[-1, 0], [0, 0]], [[0, 2**40], [0, 0]]):
        assert build(*torch.tensor(bad), 3, 3) is None
    assert build(*torch.tensor([[0, 2], [1, 1]]), 3, 3) is not None


def test_edges_written_by_a_thread_while_they_are_laid_out():
    edges = torch.zeros(2, 20_000, dtype=torch.int64)
    numbers, done = edges.numpy(), threading.Event()

    def write():
        while not done.is_set():
            numbers[1, :] = 10**9
            numbers[1, :] = 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            with contextlib.suppress(ValueError):
                graph = Graph(edges, 3)
                assert graph.in_degree().tolist() == [20_000, 0, 0]
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("first", "last", "num_src", "num_edges"),
    [
        ([2, 0], [4, 2], 4, 4),
        ([0, 1], [2, 1], 4, 2),
        ([0, 2], [1, 5], 4, 4),
        ([-1, 0], [1, 2], 4, 4),
        ([0, 0], [2, 2], 4, 3),
        ([1], [0], 4, -1),
        ([0], [1, 2], 4, 3),
    ],
)
def test_runs_must_ascend_within_range(first, last, num_src, num_edges):
    with pytest.raises(ValueError, match="first and last must"):
        Graph.from_ranges(torch.tensor(first), torch.tensor(last), num_src, num_edges)


def test_index_beyond_32_bits_does_not_wrap():
    for index in (2**31, 2**32, 2**32 + 1, 2**63 - 1, -(2**63)):
        with pytest.raises(ValueError, match=rf"source indices .*got {index} at edge 1"):
            Graph(torch.tensor([[0, index], [0, 0]]), 3)
        matrix = scipy.sparse.coo_array(([1.0], ([0], [1])), (2, 2))
        matrix.coords = (np.array([0]), np.array([index]))
        with pytest.raises(ValueError, match=rf"got {index} at edge 0"):
            Graph(matrix)


def test_sizes_too_large_are_refused():
    with pytest.raises((ValueError, RuntimeError, MemoryError)):
        Graph(torch.tensor([[0], [2**62]]))


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.uint8, torch.int8, torch.int16, torch.float32, torch.float64,
     torch.complex64],
)  # fmt: skip
def test_index_of_another_dtype(dtype):
    with pytest.raises(TypeError, match=f"edge_index must be int32 or int64; got {dtype}"):
        Graph(torch.ones(2, 3).to(dtype), 3)


@pytest.mark.parametrize("shape", [(), (2,), (3, 4), (4, 2), (2, 3, 1), (0,)])
def test_index_of_another_shape(shape):
    error = r"edge_index must have shape \(2, e\); got \(" + ", ".join(map(str, shape))
    with pytest.raises(ValueError, match=error):
        Graph(torch.zeros(shape, dtype=torch.int64), 5)


@pytest.mark.parametrize("edges", [None, "ab", 3, [[0, 1], [1, 0]], ([0], [1]), np.zeros((2, 1))])
def test_edges_of_another_type(edges):
    with pytest.raises(TypeError, match=f"edges must be .*; got {type(edges).__name__}"):
        Graph(edges, 3)


def test_sparse_of_another_dimension():
    with pytest.raises(ValueError, match="must have 2 dimensions; got 3"):
        Graph(torch.zeros(2, 2, 2).to_sparse())


# A frozen object


def test_frozen():
    graph = Graph(torch.tensor([[0], [1]]), 2)
    for change in (
        lambda: setattr(graph, "num_src", 3),
        lambda: setattr(graph, "layout", None),
        lambda: setattr(graph, "mine", 1),
        lambda: delattr(graph, "num_src"),
    ):
        with pytest.raises(AttributeError, match="a Graph is immutable"):
            change()
    assert graph.size == (2, 2)


def test_repr_names_sizes_and_device():
    graph = Graph(torch.tensor([[0], [1]]), (2, 3))
    assert repr(graph) == "Graph(num_src=2, num_dst=3, num_edges=1, device='cpu')"


def test_does_not_alias_the_callers_tensor():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = Graph(edge_index, 2)
    edge_index.zero_()
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


@CASES
def test_pickle_copy_and_move(case, tmp_path):
    graph = case.graph().with_self_loops()
    torch.save(graph, tmp_path / "graph.pt")
    loaded = torch.load(tmp_path / "graph.pt", weights_only=True)
    for again in (
        pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph), loaded,
        graph.to("cpu"), graph.to("meta"),
    ):  # fmt: skip
        assert again.size == graph.size
        assert (again.kept_edges is None) == (graph.kept_edges is None)
        if again.device.type != "meta":
            assert_same_graph(again, graph)
            assert graph.kept_edges is None or torch.equal(again.kept_edges, graph.kept_edges)
    assert graph.to("cpu") is graph
    assert graph.to("meta").device.type == "meta"


@pytest.mark.parametrize("build", [gattn.graphs.complete, gattn.graphs.causal])
def test_blocks_load_with_weights_only(build, tmp_path):
    torch.save(build([2, 3]), tmp_path / "graph.pt")
    loaded = torch.load(tmp_path / "graph.pt", weights_only=True)
    assert loaded.blocks == build([2, 3]).blocks
    assert_same_graph(loaded, build([2, 3]))


def test_a_pickle_is_checked_as_it_is_read():
    """Files are not trusted: no index of theirs leads a kernel out of bounds."""
    restore_edges = gattn.graph.graph._restore_edges
    restore_blocks = gattn.graph.graph._restore_blocks
    for restore, state, error in [
        (
            restore_edges,
            (torch.tensor([[9], [0]]), (2, 2), None),
            r"in \[0, 2\)",
        ),
        (
            restore_edges,
            (torch.tensor([[0], [0]]), (2, -2), None),
            "size must be",
        ),
        (
            restore_edges,
            (torch.tensor([[0, 0, 1], [1, 0, 1]]), (2, 2), torch.tensor([0, 99])),
            "must hold 1 ascending positions",
        ),
        (
            restore_blocks,
            (((2,), (-3,), False), torch.empty(0)),
            "sizes of blocks",
        ),
        (
            restore_blocks,
            (((2,), (3,), True), torch.empty(0)),
            "sizes of blocks",
        ),
        (
            restore_blocks,
            (((2, 1), (3,), False), torch.empty(0)),
            "sizes of blocks",
        ),
    ]:
        with pytest.raises(ValueError, match=error):
            restore(*state)


@CASES
def test_with_self_loops(case):
    graph = case.graph()
    looped = graph.with_self_loops()
    source, destination = case.edge_index
    nodes = torch.arange(min(case.size))
    rest = case.edge_index[:, source != destination]
    assert torch.equal(looped.edge_index, torch.cat([rest, nodes.expand(2, -1)], dim=1))
    assert looped.size == graph.size
    kept_rows = torch.arange(graph.num_edges) if looped.kept_edges is None else looped.kept_edges
    assert torch.equal(case.edge_index[:, kept_rows], rest)
    again = looped.with_self_loops()
    assert torch.equal(again.edge_index, looped.edge_index)


# The memory


@pytest.fixture
def sorts(monkeypatch):
    """Counts the layouts that are built from edges, by whichever kernel."""
    count = []

    def counted(build):
        return lambda *args: count.append(args) or build(*args)

    monkeypatch.setattr(cpu, "build_layout", counted(cpu.build_layout))
    monkeypatch.setattr(reference, "build", counted(reference.build))
    return count


class Waits(TorchDispatchMode):
    """Counts the single numbers that the host reads off tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.fixture
def elsewhere(monkeypatch):
    """Lay out as on a device that the C++ extension does not serve."""
    monkeypatch.setattr(cpu, "serves", lambda device: False)


@CASES
def test_elsewhere_the_layout_is_the_same(case, monkeypatch):
    expected = Graph(case.edge_index, case.size)
    monkeypatch.setattr(cpu, "serves", lambda device: False)
    actual = Graph(case.edge_index, case.size)
    assert_same_graph(actual, expected)
    looped = actual.with_self_loops()
    assert torch.equal(looped.edge_index, expected.with_self_loops().edge_index)
    for graph in (actual, looped, actual.transpose(), looped.transpose()):
        layout = graph.layout
        for transposed, offsets in ((False, layout.rowptr), (True, layout.colptr)):
            assert stats.max_degree(layout, transposed) >= int(stats.largest(offsets))
            assert stats.largest(offsets) == max([*offsets.diff().tolist(), 0])


def test_elsewhere_a_graph_is_read_at_once(elsewhere):
    edges = torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]])
    with Waits() as waits:
        graph = Graph(edges, 3)
    assert waits.count == 0  # a list of all that has to be known is read in one piece
    assert graph.layout.stats[:2].tolist() == [2, 2]
    with Waits() as waits:
        graph.with_self_loops()
    assert waits.count == 1  # whether there are loops


def degrees(graph):
    """Most edges in and out of any node, as far as the graph knows."""
    return [stats.max_degree(graph.layout), stats.max_degree(graph.layout, transposed=True)]


def test_the_largest_degrees_go_along_to_a_device():
    graph = Graph(torch.tensor([[0, 1, 2, 2], [1, 1, 1, 0]]), 3)
    moved = graph.to("meta")  # a device from which nothing can be read
    assert degrees(moved) == [3, 2]
    assert degrees(moved.transpose()) == [2, 3]
    more = stats.inherit_stats(moved.layout, without_stats(*moved.layout[:6]), extra_edges=1)
    assert degrees(Graph.from_layout(more)) == [4, 3]
    unknown = Graph.from_layout(without_stats(*moved.layout[:6]))
    assert degrees(unknown) == degrees(unknown.transpose()) == [None, None]


@CASES
def test_the_largest_degrees_are_bounds(case):
    graph = case.graph()
    others = [graph.with_self_loops(), graph.transpose(), graph.incidence(), Graph(graph)]
    for other_graph in (
        graph,
        *others,
        graph.with_self_loops().transpose(),
        graph.to("meta").to("meta"),
    ):
        if other_graph.device.type == "cpu":
            bounds = other_graph.in_degree(), other_graph.out_degree()
            assert [max([*b.tolist(), 0]) <= d for b, d in zip(bounds, degrees(other_graph))] == [
                1,
                1,
            ]
    blocks = gattn.graphs.bipartite([2, 0, 1], [3, 9, 4])
    assert blocks.layout.stats[:2].tolist() == [4, 2]
    assert gattn.graphs.complete([0, 0]).layout.stats[:2].tolist() == [0, 0]


def test_facts_travel_with_the_layout_and_no_copy_of_them_counts():
    """A CUDA graph that torch.compile records is played with other inputs than it was made of."""
    graph = gattn.graphs.complete([3, 4])
    layout = graph.layout
    assert stats.max_degree(layout) == 4
    assert stats.band_density(layout) == 25 / (64 * 7)
    assert stats.get_stat(layout.stats, stats.BAND_AREA) == 64 * 7
    copy = layout._replace(stats=layout.stats.clone())
    assert stats.get_stat(copy.stats, stats.MAX_IN_DEGREE) is None
    assert stats.band_density(copy) is None
    stats.set_stat(copy.stats, stats.MAX_IN_DEGREE, 0)  # written nowhere
    assert torch.equal(copy.stats, layout.stats)
    assert stats.are_valid(Graph.from_layout(copy).layout.stats)
    assert stats.band_density(without_stats(*layout[:6])) is None
    assert graph.layout.stats._version == 0  # backward reads what forward saved


def test_compiled_code_tells_nothing_of_its_layouts():
    source, destination = torch.tensor([[0, 1, 2, 2], [1, 1, 1, 0]])
    result = torch.ops.gattn.build_layout(source, destination, 3, 3)
    assert len(result) == len(Layout._fields)
    assert result[6].numel() == result[7].numel() == 0


@pytest.mark.parametrize(("edges", "message"), [
    ([[0, 3], [1, 1]], "source indices must be in [0, 3); got 3 at edge 1"),
    ([[-1, 3], [1, 1]], "source indices must be in [0, 3); got -1 at edge 0"),
    ([[0, 1], [1, 2]], "destination indices must be in [0, 2); got 2 at edge 1"),
    ([[0, 1], [1, -(2**33)]], "destination indices must be in [0, 2); got -8589934592 at edge 1"),
])  # fmt: skip
def test_elsewhere_indices_are_checked(edges, message, elsewhere):
    with pytest.raises(ValueError, match=re.escape(message)):
        Graph(torch.tensor(edges), (3, 2))


def test_two_hundred_epochs_sort_once(sorts):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    for _ in range(200):
        graphs = {as_graph(edge_index, 3) for _layer in range(3)}
        assert len(graphs) == 1
    assert len(sorts) == 1


def test_self_loops_are_remembered_too(sorts):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    looped = {as_graph(edge_index, 3, self_loops=True) for _ in range(10)}
    assert len(looped) == 1
    assert len(sorts) == 2
    assert as_graph(edge_index, 3).num_edges == 3
    assert len(sorts) == 2


def test_self_loops_of_a_graph_are_remembered(sorts):
    graph = Graph(torch.tensor([[0, 1, 2], [1, 2, 2]]), 3)
    assert as_graph(graph, self_loops=True) is as_graph(graph, self_loops=True)
    assert len(sorts) == 2


def test_int_and_pair_of_sizes_share(sorts):
    edge_index = torch.tensor([[0], [1]])
    assert as_graph(edge_index, 3) is as_graph(edge_index, (3, 3))
    assert as_graph(edge_index, 4).size == (4, 4)
    assert len(sorts) == 2


def test_change_in_place_is_seen(sorts):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    before = as_graph(edge_index, 3)
    edge_index[0, 0] = 2
    after = as_graph(edge_index, 3)
    assert before.edge_index.tolist() == [[0, 1], [1, 0]]
    assert after.edge_index.tolist() == [[2, 1], [1, 0]]
    edge_index[1] = edge_index[0]
    assert as_graph(edge_index, 3).edge_index.tolist() == [[2, 1], [2, 1]]
    assert len(sorts) == 3


SPARSE = pytest.mark.parametrize(
    ("make", "indices"),
    [
        (lambda dense: dense.to_sparse(), lambda t: t.indices()[1]),
        (lambda dense: dense.to_sparse_csr(), lambda t: t.col_indices()),
        (lambda dense: dense.to_sparse_csc(), lambda t: t.row_indices()),
    ],
    ids=["coo", "csr", "csc"],
)
ignore_beta = pytest.mark.filterwarnings("ignore:Sparse CS:UserWarning")


def _through_storage(edges, new):
    same = torch.empty(0, dtype=edges.dtype).set_(edges.untyped_storage())
    same.as_strided(edges.shape, edges.stride(), edges.storage_offset()).copy_(new)


UNCOUNTED = {
    "dlpack": lambda edges, new: torch.from_dlpack(edges).copy_(new),
    "numpy": lambda edges, new: np.copyto(edges.numpy(), new.numpy()),
    "data": lambda edges, new: edges.data.copy_(new),
    "storage": _through_storage,
}
"""Writes that torch does not count."""
VIEWS = {
    "contiguous": lambda edges: edges.clone(),
    "int32": lambda edges: edges.int(),
    "transposed": lambda edges: edges.t().contiguous().t(),
    "sliced": lambda edges: torch.cat([edges, edges], 1)[:, : edges.shape[1]],
    "strided": lambda edges: edges.repeat_interleave(2, 1)[:, ::2],
}


@pytest.fixture(params=["kernels", "no kernels"])
def with_and_without_kernels(request, monkeypatch):
    if request.param == "no kernels":
        monkeypatch.setattr(cpu, "unavailable_reason", lambda: "not built")
        monkeypatch.setattr(cpu, "serves", lambda device: False)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", UNCOUNTED)
def test_writes_that_torch_does_not_count_are_seen(write, view, with_and_without_kernels):
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


@SPARSE
@ignore_beta
def test_uncounted_writes_to_a_sparse_matrix_are_seen(make, indices):
    adj_t = make(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    assert as_graph(adj_t).edge_index.tolist() == [[1], [1]]
    indices(adj_t).numpy()[:] = 0
    assert as_graph(adj_t).edge_index.sum() == 1


def test_uncounted_writes_to_an_edge_index_are_seen():
    edges = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    assert as_graph(edges).num_edges == 2
    edges.as_tensor().numpy()[:] = [[0, 1], [1, 1]]
    assert as_graph(edges).edge_index.tolist() == [[0, 1], [1, 1]]


def test_uncounted_writes_to_what_names_segments_are_seen():
    x, index, ptr = torch.randn(4, 6), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 4])
    readout = gattn.nn.LearnedQueryReadout(6, 4)
    for name, named, new in (("index", index, [1, 0, 0, 0]), ("ptr", ptr, [0, 1, 4])):
        readout(x, **{name: named}, dim_size=2)
        named.numpy()[:] = new
        actual = readout(x, **{name: named}, dim_size=2)
        assert torch.equal(actual, readout(x, **{name: named.clone()}, dim_size=2)), name


def test_uncounted_writes_to_edge_types_are_seen():
    edges, kind = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.tensor([0, 0, 1])
    layer, x = gattn.nn.RGATConv(5, 4, num_relations=2), torch.randn(3, 5)
    layer(x, edges, kind)
    kind.numpy()[:] = [1, 0, 0]
    assert torch.equal(layer(x, edges, kind), layer(x, edges, kind.clone()))


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16])
def test_writes_to_edge_types_of_few_bits_are_seen(dtype, with_and_without_kernels):
    edges, kind = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.tensor([0, 0, 1]).to(dtype)
    layer, x = gattn.nn.RGATConv(5, 4, num_relations=2), torch.randn(3, 5)
    layer(x, edges, kind)
    kind.copy_(torch.tensor([1, 0, 0]))
    assert torch.equal(layer(x, edges, kind), layer(x, edges, kind.clone()))


def test_graphs_of_fake_tensors_are_not_kept():
    edges, x = torch.tensor([[0, 1, 2], [1, 2, 2]]), torch.randn(3, 5)
    layer = gattn.nn.GATv2Conv(5, 4, add_self_loops=False)
    blocks = gattn.graphs.complete([2, 1])
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert layer(x, edges).shape == (3, 4)
        assert blocks.edge_index.shape == (2, 5)
    assert torch.equal(layer(x, edges), layer(x, edges.clone()))
    assert blocks.edge_index.tolist() == [[0, 1, 0, 1, 2], [0, 0, 1, 1, 2]]


# Two processes, one a copy of the other: importing torch is slow.
BROADCAST = """
import os, sys, torch, torch.distributed as dist, gattn
other = os.fork()
rank = 0 if other else 1
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
torch.manual_seed(0)
layer, x = gattn.nn.GATConv(5, 3), torch.randn(4, 5)
before = layer(x, edges)
if rank == 0:
    edges.copy_(torch.tensor([[0, 0, 2, 3], [3, 2, 1, 0]]))
version = edges._version
dist.broadcast(edges, 0)
assert edges._version == version
assert edges.tolist() == [[0, 0, 2, 3], [3, 2, 1, 0]]
assert torch.equal(layer(x, edges), layer(x, edges.clone()))
assert not torch.equal(layer(x, edges), before)
dist.destroy_process_group()
if other:
    assert os.waitpid(other, 0)[1] == 0
"""


@pytest.mark.slow
def test_edges_received_into_a_reused_buffer_are_seen(tmp_path):
    command = [sys.executable, "-c", BROADCAST, tmp_path / "meeting"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("write", UNCOUNTED)
def test_on_a_device_uncounted_writes_fail(write, monkeypatch):
    """There no checksum is read: it is compared by the device, whose failure nobody can miss."""
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


def test_the_checksum_depends_on_every_number_and_its_place(with_and_without_kernels):
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
def test_the_checksum_depends_on_every_bit_of_what_is_no_integer(with_and_without_kernels, dtype):
    numbers = torch.arange(12).remainder(2).to(dtype).view(6, 2)
    seen = {checksum(numbers), checksum(numbers[:3]), checksum(numbers.flip(1))}
    for place in range(12):
        changed = numbers.clone()
        changed.view(-1)[place] = numbers.view(-1)[place].logical_not()
        seen.add(checksum(changed))
    assert len(seen) == 3 + 12


def test_equal_tensors_are_not_confused(sorts):
    one, other = torch.tensor([[0], [1]]), torch.tensor([[0], [1]])
    assert as_graph(one, 2) is not as_graph(other, 2)
    assert len(sorts) == 2


def test_memory_holds_neither_tensor_nor_graph():
    gc.collect()  # what other tests left in cycles must not go between the counts
    before = cache.size()
    edge_index = torch.tensor([[0, 1], [1, 0]])
    graph = weakref.ref(as_graph(edge_index, 2))
    assert cache.size() == before + 1
    assert graph() is not None
    tensor = weakref.ref(edge_index)
    del edge_index
    gc.collect()
    assert tensor() is None
    assert graph() is None
    assert cache.size() == before


def test_reused_addresses_are_not_confused():
    for number in range(200):
        edge_index = torch.tensor([[number % 5], [number % 3]])
        assert as_graph(edge_index, 5).edge_index.tolist() == edge_index.tolist()


def test_inference_tensors_are_remembered_by_content(sorts):
    with torch.inference_mode():
        edge_index = torch.tensor([[0, 1], [1, 0]])
        assert as_graph(edge_index, 2) is as_graph(edge_index, 2)
        edge_index[0, 0] = 1
        assert as_graph(edge_index, 2).edge_index.tolist() == [[1, 1], [1, 0]]
    assert len(sorts) == 2
    normal = torch.tensor([[0, 1], [1, 0]])
    with torch.inference_mode():
        made_inside = as_graph(normal, 2)
        assert as_graph(normal, 2) is made_inside


@pytest.mark.parametrize("self_loops", [False, True])
def test_graph_made_in_inference_mode_serves_training(self_loops):
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 1]])
    with torch.inference_mode():
        remembered = as_graph(edge_index, 2, self_loops=self_loops)
        inside = torch.tensor([[0, 1], [1, 0]])
        graphs = [
            remembered, remembered.transpose(), Graph(inside, 2), Graph(inside.int(), 2),
            gattn.graphs.causal([2]), gattn.graphs.band([2], 1),
            gattn.graphs.knn(torch.ones(2, 1), 1),
        ]  # fmt: skip
        assert all(graph.layout for graph in graphs)
    assert as_graph(edge_index, 2, self_loops=self_loops) is remembered
    assert remembered.kept_edges is None or not remembered.kept_edges.is_inference()
    for graph in graphs:
        assert not any(tensor.is_inference() for tensor in graph.layout)
        x = torch.randn(2, 1, 4, requires_grad=True)
        gattn.functional.dot_product_attention(x, x, x, graph).sum().backward()
        assert x.grad is not None


def test_other_inputs_are_laid_out_anew(sorts):
    matrix = scipy.sparse.eye_array(3).tocsr()
    assert as_graph(matrix) is not as_graph(matrix)
    assert as_graph(EdgeIndex([[0], [1]], sparse_size=(2, 2))).num_edges == 1


@SPARSE
@ignore_beta
def test_sparse_matrices_are_remembered(sorts, make, indices):
    adj_t = make(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
    for _ in range(3):
        graph = as_graph(adj_t)
        assert as_graph(adj_t, (2, 2), self_loops=True).num_edges == 2
    assert len(sorts) == 3  # without size and with it, and the loops
    assert graph.edge_index.tolist() == [[1], [1]]
    indices(adj_t).zero_()
    assert as_graph(adj_t).edge_index.sum() == 1
    assert as_graph(adj_t) is not graph
    assert as_graph(adj_t) is as_graph(adj_t)


@SPARSE
@ignore_beta
def test_memory_holds_no_sparse_matrix(make, indices):
    gc.collect()  # what other tests left in cycles must not go between the counts
    before = cache.size()
    adj_t = make(torch.eye(3))
    graph = weakref.ref(as_graph(adj_t))
    assert cache.size() == before + 1
    del adj_t
    gc.collect()
    assert graph() is None
    assert cache.size() == before


def test_other_memory_in_a_sparse_matrix_is_seen():
    adj_t = torch.eye(3).to_sparse()
    before = as_graph(adj_t)
    adj_t.data = torch.ones(3, 3).to_sparse()
    assert as_graph(adj_t).num_edges == 9
    assert before.num_edges == 3


def test_edge_index_class_is_remembered(sorts):
    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(2, 2))
    assert as_graph(edge_index) is as_graph(edge_index)
    assert len(sorts) == 1


def test_errors_are_not_remembered():
    edge_index = torch.tensor([[0, 5], [1, 0]])
    for _ in range(2):
        with pytest.raises(ValueError, match="got 5 at edge 1"):
            as_graph(edge_index, 3)
    assert as_graph(edge_index, 6).num_edges == 2


def test_threads_share_the_memory():
    tensors = [torch.tensor([[0, k % 4], [1, 0]]) for k in range(20)]
    errors = []

    def work():
        try:
            for _ in range(30):
                for k, tensor in enumerate(tensors):
                    graph = as_graph(tensor, 4, self_loops=k % 2 == 0)
                    assert graph.size == (4, 4)
                    edges = torch.tensor([[k % 4], [0]])
                    assert as_graph(edges, 4).edge_index.tolist() == edges.tolist()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for tensor in tensors:
        assert torch.equal(as_graph(tensor, 4).edge_index, tensor)


def test_what_is_made_of_numbers_alone_is_kept_in_a_small_number():
    built = []

    def build(number):
        return cache.cached(None, ("a number", number), lambda: built.append(number) or number)

    for _ in range(3):
        assert [build(number) for number in range(4)] == list(range(4))
    assert built == list(range(4))
    for number in range(100):
        build(number)
    assert build(0) == 0
    assert built[-1] == 0  # forgotten, and built again


def test_threads_share_what_is_made_of_numbers_alone():
    errors, before = [], sys.getswitchinterval()

    def work(seed):
        try:
            for step in range(3000):
                number = (seed * 7 + step) % 20
                assert cache.cached(None, ("threads", number), lambda n=number: n) == number
        except Exception as error:
            errors.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not errors


def test_only_the_last_of_several_is_kept_and_holds_nothing_alive():
    graph, other = (Graph(torch.tensor([[0], [1]]), 2) for _ in range(2))
    kinds, built = [torch.tensor([k]) for k in range(2)], []

    def build(kind, number=1):
        return cache.cached_last(graph, "test", (kind, other, number), lambda: built.append(1))

    for _ in range(2):
        build(kinds[0])
    assert len(built) == 1
    build(kinds[1])
    build(kinds[0])
    build(kinds[0], 2)
    assert len(built) == 4
    gone = weakref.ref(kinds[0])
    del kinds
    gc.collect()
    assert gone() is None
