import pytest
import torch

from gattn.nn import FAConv

REVERSE = {"flow": "target_to_source"}


@pytest.mark.parametrize(
    "options", [{}, {"eps": 0.0}, {"add_self_loops": False}, {"normalize": False}, REVERSE], ids=str
)
def test_fa_conv_matches_pyg_on_unusual_graphs(beside_pyg, dtype, options):
    pair = beside_pyg.pair("FAConv", 6, dtype=dtype, **options)
    for case in beside_pyg.graphs():
        x, x_0 = (beside_pyg.draw(case.size[0], 6, dtype=dtype, seed=s) for s in (0, 1))
        weight = None
        if "normalize" in options:
            weight = beside_pyg.draw(case.edge_index.shape[1], dtype=dtype)
        beside_pyg.check(
            *pair, x, x_0, case.edge_index, weight, return_attention_weights=True, where=case.name
        )


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["EdgeIndex", "coo", "csr"])
@pytest.mark.parametrize("options", [{}, {"add_self_loops": False}], ids=str)
def test_fa_conv_matches_pyg_for_every_format_of_edges(beside_pyg, dtype, kind, options):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    pair = beside_pyg.pair("FAConv", -1, first=_first(beside_pyg, dtype), dtype=dtype, **options)
    edges = beside_pyg.kinds[kind](pairs, (5, 5))
    if kind in ("coo", "csr"):  # The values of a sparse adjacency matrix are edge weights.
        edges = edges.to(dtype) * 1.5
    x, x_0 = (beside_pyg.draw(5, 6, dtype=dtype, seed=s) for s in (0, 1))
    beside_pyg.check(*pair, x, x_0, edges, return_attention_weights=True)


def _first(beside_pyg, dtype):
    x = beside_pyg.draw(5, 6, dtype=dtype)
    return x, x, torch.tensor([[0], [1]])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_fa_conv_matches_pyg_for_an_adjacency_that_is_not_normalised(beside_pyg, kind):
    pairs = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
    pair = beside_pyg.pair("FAConv", 6, normalize=False)
    edges = beside_pyg.kinds[kind](pairs, (5, 5)).double() * 1.5
    x = beside_pyg.draw(5, 6)
    beside_pyg.check(*pair, x, x, edges, return_attention_weights=True)


def test_fa_conv_with_a_cache_keeps_the_edges_of_the_first_forward_pass(beside_pyg):
    theirs, ours = beside_pyg.pair("FAConv", 6, cached=True)
    x = beside_pyg.draw(5, 6)
    first, second = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[3, 4], [0, 0]])
    for edges in (first, second):
        expected = theirs(x, x, edges, return_attention_weights=True)
        got = ours(x, x, edges, return_attention_weights=True)
        torch.testing.assert_close(got, expected)
    ours.reset_parameters()
    assert not torch.equal(ours(x, x, second), ours.reset_parameters() or ours(x, x, first))


def test_fa_conv_in_fp16_does_not_overflow_at_a_node_of_high_degree():
    """The hub has a degree of 70,000, which exceeds the range of fp16."""
    pairs = torch.stack([torch.arange(70000) % 8, torch.zeros(70000, dtype=torch.int64)])
    layer, x = FAConv(6, eps=0.0), torch.randn(8, 6)
    expected = layer(x, x, pairs)
    assert expected[0].abs().max() > 0.1
    out = layer.half()(x.half(), x.half(), pairs)
    assert out.dtype == torch.float16
    torch.testing.assert_close(out.float(), expected, rtol=1e-2, atol=1e-2)
    layer.register_message_forward_hook(lambda module, inputs, out: out)
    assert layer(x.half(), x.half(), pairs[:, :50]).dtype == torch.float16


def test_fa_conv_with_a_cache_applies_biases_to_the_cached_edges(beside_pyg):
    x, layer, bias = beside_pyg.draw(5, 6), FAConv(6, cached=True).double(), beside_pyg.draw(3)
    # The second edge is a self-loop, which the layer replaces.
    edges = torch.tensor([[0, 1, 2], [1, 1, 0]])
    expected = layer(x, x, edges, attn_bias=bias)
    torch.testing.assert_close(layer(x, x, edges.clone(), attn_bias=bias), expected)
    loop_first = layer(x, x, edges[:, [1, 0, 2]], attn_bias=bias[[1, 0, 2]])
    torch.testing.assert_close(loop_first, expected)
    for other in (edges[:, [2, 1, 0]], edges[:, :2]):
        with pytest.raises(ValueError, match="attn_bias must belong to the cached edges"):
            layer(x, x, other, attn_bias=bias[: other.shape[1]])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", ["pairs", "csr"])
def test_fa_conv_can_train_with_edges_cached_in_inference_mode(kind, beside_pyg):
    x, layer = torch.randn(3, 6), FAConv(6, cached=True)
    edges = beside_pyg.kinds[kind](torch.tensor([[1, 0, 1], [0, 1, 2]]), (3, 3))
    with torch.inference_mode():
        expected = layer(x, x, edges)
    out = layer(x.requires_grad_(), x, edges)
    out.sum().backward()
    torch.testing.assert_close(out, expected)
    assert not layer._cached_edge_index[1].requires_grad


def test_invalid_edge_weight_or_attn_bias_of_fa_conv_raises_error():
    x, edge_index = torch.randn(4, 6), torch.tensor([[0, 1, 2], [1, 2, 0]])
    with pytest.raises(ValueError, match="must be None with normalize=True"):
        FAConv(6)(x, x, edge_index, torch.ones(3))
    with pytest.raises(ValueError, match="is required with normalize=False"):
        FAConv(6, normalize=False)(x, x, edge_index)
    with pytest.raises(
        TypeError, match="has no softmax: attn_bias must contain numbers; got a mask"
    ):
        FAConv(6)(x, x, edge_index, attn_bias=torch.ones(3) > 0)
