"""Edge inputs of layers: edge indices, sparse matrices, graphs, and returned weights."""

import gc

import networkx
import pytest
import scipy.sparse
import torch

from gattn import Graph
from gattn.graph import cache
from gattn.kernels import cpu
from gattn.nn import FAConv, GATConv, GATv2Conv, TransformerBlock, TransformerConv
from gattn.nn.common.edge_inputs import read_edges, with_loop_features

ROWS, COLS = torch.tensor([[0, 1, 1, 0, 2], [1, 2, 0, 1, 0]])


def _coo():
    return torch.sparse_coo_tensor(torch.stack([ROWS, COLS]), torch.ones(5), (3, 3))


def _csr():
    """CSR adjacency with the columns (1, 1), (2, 0), (0): a duplicate, and unsorted columns."""
    rows, cols = torch.tensor([0, 2, 4, 5]), torch.tensor([1, 1, 2, 0, 0])
    return torch.sparse_csr_tensor(rows, cols, torch.ones(5), (3, 3), check_invariants=False)


def _csc():
    cols, rows = torch.tensor([0, 2, 4, 5]), torch.tensor([1, 1, 2, 0, 0])
    return torch.sparse_csc_tensor(cols, rows, torch.ones(5), (3, 3), check_invariants=False)


def _entries(adj_t):
    if adj_t.layout == torch.sparse_coo:
        return adj_t.indices()
    return adj_t.to_sparse_coo()._indices()


@pytest.mark.parametrize("make", [_coo, _csr, _csc])
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("layer", [GATConv, GATv2Conv])
def test_attention_weights_are_in_the_order_of_the_matrix_entries(layer, make, loops):
    """The entries of the adjacency matrix may have any order and may be repeated."""
    torch.manual_seed(0)
    conv, x, adj_t = layer(4, 2, 2, add_self_loops=loops), torch.randn(3, 4), make()
    _, (adjacency, alpha) = conv(x, adj_t, return_attention_weights=True)
    assert adjacency.layout == adj_t.layout
    torch.testing.assert_close(adjacency.values(), alpha)
    rows, cols = _entries(adjacency)
    if not loops:
        assert torch.equal(torch.stack([rows, cols]), _entries(adj_t.coalesce() if make is _coo
                                                                else adj_t))  # fmt: skip
    if adjacency.layout == torch.sparse_coo:
        assert adjacency.is_coalesced()
        assert len(torch.unique(rows * 3 + cols)) == len(rows)
    pairs = torch.stack([cols, rows])
    plain, (_, expected) = layer.__call__(
        _without_loops(conv), x, pairs, return_attention_weights=True
    )
    torch.testing.assert_close(alpha, expected)
    torch.testing.assert_close(conv(x, adj_t), plain)


def _without_loops(conv):
    twin = type(conv)(4, 2, 2, add_self_loops=False)
    twin.load_state_dict(conv.state_dict())
    return twin


def test_graph_of_a_matrix_with_duplicate_entries_is_reused_until_a_write():
    adj_t, x = _coo(), torch.randn(3, 4)
    first, _ = read_edges(adj_t, None, x, x)
    assert first.num_edges == 4
    assert read_edges(adj_t, None, x, x)[0] is first
    adj_t._indices()[1, 4] = 1
    assert read_edges(adj_t, None, x, x)[0].edge_index.tolist() == [[1, 0, 2, 1], [0, 1, 1, 2]]
    gc.collect()  # free the tensors in reference cycles of earlier tests before counting
    before = cache.size()
    del adj_t, first
    assert cache.size() == before - 2


@pytest.mark.parametrize(
    "call",
    [
        lambda x, edges: GATConv(4, 2)(x, edges),
        lambda x, edges: GATConv(4, 2)(x[None], edges),
        lambda x, edges: TransformerBlock(4)(x, edges),
        lambda x, edges: TransformerBlock(4).attention_weights(x, edges),
    ],
)
@pytest.mark.parametrize("kind", ["Graph", "sparse"])
def test_edges_for_another_number_of_nodes_raise_error(call, kind):
    edges = Graph(torch.tensor([[0], [1]]), 5) if kind == "Graph" else torch.eye(5).to_sparse()
    message = (
        "x must have as many rows as the edges have nodes, 5 sources and 5 destinations; got 3"
    )
    with pytest.raises(ValueError, match=message):
        call(torch.randn(3, 4), edges)


@pytest.mark.parametrize("layer", [FAConv, TransformerConv])
def test_sparse_matrix_of_caller_is_not_modified(layer):
    """Repeated entries are summed in a copy, and the matrix of the caller remains uncoalesced."""
    x, adj_t = torch.randn(3, 4), _coo()
    conv = layer(4) if layer is FAConv else layer(4, 2, 2)
    args = (x, x, adj_t) if layer is FAConv else (x, adj_t)
    _, (edges, alpha) = conv(*args, return_attention_weights=True)
    assert not adj_t.is_coalesced()
    assert adj_t._nnz() == 5
    assert edges._nnz() == alpha.shape[0]


@pytest.mark.parametrize("layer", [GATConv, GATv2Conv, TransformerConv])
def test_edge_features_of_networkx_and_scipy_graphs_belong_to_their_edges(layer):
    """The caller passes one row of features for each of ``edges()``; in the graph, an undirected
    edge has one row for each direction.
    """
    conv, x = layer(4, 2, edge_dim=3), torch.randn(3, 4)
    stored, attr = networkx.Graph([(0, 1), (1, 2), (2, 2)]), torch.randn(3, 3)
    graph, both = Graph(stored), attr[[0, 0, 1, 1, 2]]
    assert torch.equal(conv(x, stored, attr), conv(x, graph, both))
    with pytest.raises(ValueError, match=r"\(3, d\), a row for each of the networkx .* \(5, 3\)"):
        conv(x, stored, both)
    directed = networkx.DiGraph(stored.edges)
    assert torch.equal(conv(x, directed, attr), conv(x, Graph(directed), attr))
    matrix = scipy.sparse.csr_array(([1.0, 1, 1], ([0, 1, 2], [1, 1, 0])), (3, 3))
    assert torch.equal(conv(x, matrix, attr), conv(x, Graph(matrix), attr))
    with pytest.raises(ValueError, match=r"edge_attr must have shape \(3, d\); got \(2, 3\)"):
        conv(x, matrix, attr[:2])
    with pytest.raises(ValueError, match="x must have as many rows"):
        conv(x[:2], matrix)


@pytest.fixture
def graph_and_features():
    """A graph of three nodes with self-loops, and the features of the other edges."""
    graph = Graph(torch.stack([ROWS, COLS]), 3).with_self_loops()
    return graph, torch.randn(5, 2, dtype=torch.float64)


def _expected(graph, edge_attr):
    destination = graph.edge_index[1, :-3]
    rows = edge_attr if graph.kept_edges is None else edge_attr[graph.kept_edges]
    loops = [rows[destination == node].mean(0).nan_to_num(0.0) for node in range(3)]
    return torch.cat([rows, torch.stack(loops)])


def test_self_loop_features_are_cached_for_a_tensor_but_not_for_its_copy(graph_and_features):
    graph, edge_attr = graph_and_features
    first = with_loop_features(edge_attr, graph, "mean")
    torch.testing.assert_close(first, _expected(graph, edge_attr))
    assert with_loop_features(edge_attr, graph, "mean") is first
    assert with_loop_features(edge_attr.clone(), graph, "mean") is not first


def _double(tensor):
    tensor.numpy()[:] *= 2


@pytest.mark.parametrize("write", [lambda t: t.mul_(2), lambda t: t.data.mul_(2), _double])
@pytest.mark.parametrize("reason", ["", "not built"])
def test_self_loop_features_change_after_a_write_to_edge_features(
    graph_and_features, write, reason, monkeypatch
):
    monkeypatch.setattr(cpu, "unavailable_reason", lambda: reason)
    graph, edge_attr = graph_and_features
    with_loop_features(edge_attr, graph, "mean")
    write(edge_attr)
    actual = with_loop_features(edge_attr, graph, "mean")
    torch.testing.assert_close(actual, _expected(graph, edge_attr))


def test_self_loop_features_under_vmap_equal_those_of_single_calls(graph_and_features, monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", "reference")
    graph, edge_attr = graph_and_features
    every = torch.stack([edge_attr, 2 * edge_attr])
    with torch.inference_mode():
        actual = torch.func.vmap(lambda rows: with_loop_features(rows, graph, "mean"))(every)
    torch.testing.assert_close(actual[1], 2 * _expected(graph, edge_attr))


def test_gradient_of_self_loop_features_equals_the_reference(graph_and_features):
    graph, edge_attr = graph_and_features
    with_loop_features(edge_attr, graph, "mean")
    edge_attr.requires_grad_()
    total = with_loop_features(edge_attr, graph, "mean").square().sum()
    (grad,) = torch.autograd.grad(total, edge_attr)
    (expected,) = torch.autograd.grad(_expected(graph, edge_attr).square().sum(), edge_attr)
    torch.testing.assert_close(grad, expected)
