import pytest
import torch
import torch.nn.functional as F

from gattn import graphs
from gattn.functional import linear_attention

INDEX = torch.tensor([0, 2, 0, 0, 2, 3])
"""Graph of each node, unsorted; graphs 1 and 4 are empty."""


def _draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _inputs():
    return _draw(6, 2, 3), _draw(6, 2, 3, seed=1), _draw(6, 2, 4, seed=2)


def _written_out(query, key, value, phi):
    out = torch.zeros_like(value)
    for i in range(6):
        rows = INDEX[i] == INDEX
        score = torch.einsum("hc,jhc->jh", phi(query[i]), phi(key[rows]))
        out[i] = torch.einsum("jh,jhd->hd", score, value[rows]) / score.sum(0)[:, None]
    return out


@pytest.mark.parametrize(
    ("feature_map", "phi"),
    [("elu", lambda x: F.elu(x) + 1), ("relu", lambda x: x.relu() + 0), ("identity", lambda x: x)],
)
def test_linear_attention_equals_its_equation_for_each_feature_map(feature_map, phi):
    query, key, value = _inputs()
    if feature_map != "elu":
        query, key = query.abs() + 0.1, key.abs() + 0.1
    segments = graphs.pooling_graph(INDEX, 1, 5)
    out = linear_attention(query, key, value, segments, feature_map=feature_map)
    torch.testing.assert_close(out, _written_out(query, key, value, phi))


def test_linear_cross_attention_reads_only_keys_in_the_graph_of_its_query():
    key, value, query = _draw(6, 2, 3), _draw(6, 2, 4, seed=1), _draw(3, 2, 3, seed=2)
    segments = graphs.pooling_graph(INDEX, 1, 5)
    queries = graphs.pooling_graph(torch.tensor([2, 1, 0]), 1, 5)
    out = linear_attention(query, key, value, segments, query_segments=queries)
    assert out[1].eq(0).all()  # The graph of query 1 has no keys.
    rows = INDEX == 2
    phi = [torch.nn.functional.elu(x) + 1 for x in (query[0], key[rows])]
    score = torch.einsum("hc,jhc->jh", *phi)
    expected = torch.einsum("jh,jhd->hd", score / score.sum(0), value[rows])
    torch.testing.assert_close(out[0], expected)


def test_derivatives_of_linear_attention_pass_gradcheck():
    inputs = tuple(x.requires_grad_() for x in _inputs())
    segments = graphs.pooling_graph(INDEX, 1, 5)
    assert torch.autograd.gradcheck(lambda *x: linear_attention(*x, segments), inputs)
    few = tuple(x.detach()[:3, :1, :2].clone().requires_grad_() for x in inputs)
    segments = graphs.pooling_graph(torch.tensor([1, 0, 1]))
    assert torch.autograd.gradgradcheck(lambda *x: linear_attention(*x, segments), few)


def test_linear_attention_of_zero_scores_is_zero():
    query, key, value = _inputs()
    out = linear_attention(
        -query.abs(), key, value, graphs.pooling_graph(INDEX, 1, 5), feature_map="relu"
    )
    assert torch.equal(out, torch.zeros_like(value))


def test_linear_attention_does_not_depend_on_other_graphs_of_the_batch():
    query, key, value = _inputs()
    segments = graphs.pooling_graph(INDEX, 1, 5)
    expected = linear_attention(query, key, value, segments)
    key[0] = torch.nan
    out = linear_attention(query, key, value, segments)
    assert out[INDEX == 0].isnan().all()
    assert torch.equal(out[INDEX != 0], expected[INDEX != 0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_linear_attention_accumulates_sums_of_16_bit_inputs_in_fp32(dtype):
    query, key, value = _draw(4096, 1, 2), _draw(4096, 1, 2, seed=1), _draw(4096, 1, 2, seed=2)
    segments = graphs.pooling_graph(torch.zeros(4096, dtype=torch.long))
    low = [x.to(dtype) for x in (query, key, value + 1)]
    out = linear_attention(*low, segments)
    assert out.dtype == dtype
    expected = linear_attention(*(x.double() for x in low), segments)
    torch.testing.assert_close(out.double(), expected, rtol=2 * torch.finfo(dtype).eps, atol=0)


def test_saved_memory_of_linear_attention_is_linear_in_the_nodes():
    """No tensor of size n h c c_v is saved for the backward pass."""
    saved = 0

    def pack(tensor):
        nonlocal saved
        saved = max(saved, tensor.numel())
        return tensor

    query, key, value = (_draw(50, 2, 8, seed=seed).requires_grad_() for seed in range(3))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        linear_attention(query, key, value, graphs.pooling_graph(torch.arange(50) % 2))
    assert saved <= 50 * 2 * 8


def test_invalid_feature_map_segments_or_shapes_of_linear_attention_raise_error():
    query, key, value = _inputs()
    segments = graphs.pooling_graph(INDEX, 1, 5)
    with pytest.raises(ValueError, match=r"feature_map must be one of .*; got 'tanh'"):
        linear_attention(query, key, value, segments, feature_map="tanh")
    with pytest.raises(ValueError, match=r"segments must have one edge per node"):
        linear_attention(query, key, value, graphs.complete([6]))
    with pytest.raises(ValueError, match=r"query_segments must have 5 graphs"):
        linear_attention(query, key, value, segments, query_segments=graphs.pooling_graph(INDEX))
    with pytest.raises(ValueError, match=r"key must have shape \(6, 2, 3\)"):
        linear_attention(query, key[:, :, :2], value, segments)
