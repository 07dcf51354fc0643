import pytest
import torch

from gattn import Graph
from gattn.nn import GATConv, SparseDropout

FILLS = ["mean", "add", "min", "max", "mul", 2.5, torch.tensor([0.1, -0.2, 0.3])]


@pytest.mark.parametrize("fill_value", FILLS, ids=str)
@pytest.mark.parametrize(("width", "dtype"), [(1, torch.float32), (3, torch.float64)])
def test_gat_conv_matches_pyg_for_fill_values_of_self_loops(beside_pyg, dtype, fill_value, width):
    if isinstance(fill_value, torch.Tensor):
        fill_value = fill_value[:width]
    options = {"heads": 2, "edge_dim": width, "fill_value": fill_value}
    pair = beside_pyg.pair("GATConv", 6, 4, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6, dtype=dtype)
        edge_attr = beside_pyg.draw(case.edge_index.shape[1], width, dtype=dtype)
        edge_attr = edge_attr.squeeze(1) if width == 1 else edge_attr
        beside_pyg.check(*pair, x, case.edge_index, edge_attr, where=case.name)


def test_self_loops_are_added_only_to_nodes_that_are_source_and_destination():
    layer = GATConv((3, 2), 4, edge_dim=2).double()
    x = torch.randn(2, 3, dtype=torch.float64), torch.randn(4, 2, dtype=torch.float64)
    edge_index, edge_attr = torch.tensor([[0, 1, 1], [3, 2, 0]]), torch.randn(3, 2).double()
    out, (pairs, alpha) = layer(x, edge_index, edge_attr, return_attention_weights=True)
    assert pairs.tolist() == [[0, 1, 1, 0, 1], [3, 2, 0, 0, 1]]
    # The features of a self-loop are the mean over the node's edges; node 1 has no edge.
    mean = torch.stack([edge_attr[2], torch.zeros(2).double()])
    plain = GATConv((3, 2), 4, edge_dim=2, add_self_loops=False).double()
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(out, plain(x, pairs, torch.cat([edge_attr, mean])))
    torch.testing.assert_close(alpha.sum(), alpha.new_tensor(4.0))


def test_gat_conv_matches_pyg_without_destination_features(beside_pyg, dtype):
    edge_index = torch.tensor([[0, 1, 2, 4], [1, 0, 2, 1]])
    for loops in (False, True):
        pair = beside_pyg.pair("GATConv", (6, 6), 4, dtype=dtype, add_self_loops=loops)
        x = beside_pyg.draw(5, 6, dtype=dtype), None
        beside_pyg.check(*pair, x, edge_index)
        beside_pyg.check(*pair, x, edge_index, size=(5, 3))


def test_gat_conv_matches_pyg_with_shared_or_separate_projections(beside_pyg, dtype):
    edge_index = torch.tensor([[0, 1, 2, 4], [1, 0, 2, 1]])
    pair = beside_pyg.pair("GATConv", 6, 4, heads=2, residual=True, dtype=dtype)
    beside_pyg.check(
        *pair, (beside_pyg.draw(5, 6, dtype=dtype), beside_pyg.draw(3, 6, dtype=dtype)), edge_index
    )
    pair = beside_pyg.pair("GATConv", (6, 6), 4, heads=2, residual=True, dtype=dtype)
    beside_pyg.check(*pair, beside_pyg.draw(5, 6, dtype=dtype), edge_index)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("loops", [False, True])
def test_gat_conv_matches_pyg_for_edge_features_in_a_sparse_adjacency(beside_pyg, layout, loops):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    edge_attr = beside_pyg.draw(6, 3)
    adj_t = torch.sparse_coo_tensor(pairs.flip(0), edge_attr, (5, 5, 3), is_coalesced=True)
    if layout == torch.sparse_csr:
        rows = torch.tensor([0, 2, 4, 5, 5, 6])
        adj_t = torch.sparse_csr_tensor(rows, pairs[0], edge_attr, (5, 5, 3))
    pair = beside_pyg.pair("GATConv", 6, 4, heads=2, edge_dim=3, add_self_loops=loops)
    beside_pyg.check(*pair, beside_pyg.draw(5, 6), adj_t)


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_gat_conv_of_sparse_features_gives_the_same_output_as_pyg_of_dense_features(
    beside_pyg, dtype
):
    case = next(case for case in beside_pyg.graphs() if case.name == "one hub")
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 30, generator=generator) * (torch.rand(40, 30, generator=generator) < 0.1)
    x = x.to(dtype)
    theirs, ours = beside_pyg.pair("GATConv", 30, 4, heads=2, residual=True, dtype=dtype)
    expected, got = theirs(x, case.edge_index), ours(x.to_sparse_csr(), case.edge_index)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
    for layer, out in ((theirs, expected), (ours, got)):
        layer.zero_grad()
        out.square().sum().backward()
    for (name, a), b in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=10 * tolerance, atol=tolerance, msg=name)
    if dtype == torch.float32:
        with torch.autocast("cpu", torch.bfloat16):
            assert ours(x.to_sparse_csr(), case.edge_index).dtype == torch.bfloat16


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_dropout_drops_stored_entries_only():
    dense = torch.eye(50) + torch.eye(50).roll(1, 0)
    drop = SparseDropout(0.5)
    for x in (dense, dense.to_sparse_coo(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        torch.manual_seed(0)
        out = drop(x)
        assert out.layout == x.layout
        values = out.to_dense()
        assert not values[dense == 0].any()
        assert set(values[dense != 0].tolist()) == {0.0, 2.0}
        assert drop.eval()(x) is x
        drop.train()
    with pytest.raises(ValueError, match="p must be a probability"):
        SparseDropout(1.5)


def test_gradients_of_gat_conv_have_the_strides_of_their_parameters():
    layer, edge_index = GATConv(6, 4, heads=2, edge_dim=3), torch.tensor([[0, 1], [1, 2]])
    layer(torch.randn(3, 6), edge_index, torch.randn(2, 3)).sum().backward()
    assert all(p.grad.stride() == p.stride() for p in layer.parameters())


def test_attention_weights_are_in_the_callers_order_of_edges():
    edge_index = torch.tensor([[3, 0, 1, 2, 0, 0], [1, 1, 0, 2, 1, 0]])
    layer = GATConv(4, 3, heads=2)
    _, (pairs, alpha) = layer(torch.randn(4, 4), edge_index, return_attention_weights=True)
    assert pairs.tolist() == [[3, 0, 1, 0, 0, 1, 2, 3], [1, 1, 0, 1, 0, 1, 2, 3]]
    total = torch.zeros(4, 2).index_add(0, pairs[1], alpha)
    torch.testing.assert_close(total, torch.ones(4, 2))
    # Edges 1 and 3 are the same edge, so their weights are equal.
    assert torch.equal(alpha[1], alpha[3])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f, x, e: f(x, e + 3), ValueError, r"source indices must be in \[0, 4\)"),
        (lambda f, x, e: f(x, e - 1), ValueError, r"source indices must be in \[0, 4\)"),
        (lambda f, x, e: f(x, e.float()), TypeError, "must be int32 or int64"),
        (lambda f, x, e: f(x, e[0]), ValueError, r"must have shape \(2, e\)"),
        (lambda f, x, e: f(x[0], e), ValueError, r"x must have shape \(n, d\)"),
        (lambda f, x, e: f(x, e, torch.randn(2, 3)), ValueError, r"shape \(3, d\); got \(2, 3\)"),
        (lambda f, x, e: f(x, e, torch.randn(3, 3, 1)), ValueError, r"shape \(3, d\)"),
        (lambda f, x, e: f(x, e, size=(3, 4)), ValueError, r"size\[0\] must be 4"),
        (lambda f, x, e: f((x, x[:2]), e, size=(4, 4)), ValueError, r"size\[1\] must be 2"),
        (lambda f, x, e: f(x, Graph(e, 5)), ValueError, "5 destinations; got 4 rows for Graph"),
        (lambda f, x, e: f(x, "edges"), TypeError, "edges must be"),
    ],
)
def test_invalid_edges_or_features_of_gat_conv_raise_error(call, error, message):
    layer = GATConv(6, 4, heads=2, edge_dim=3)
    with pytest.raises(error, match=message):
        call(layer, torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 0]]))
