import pytest
import torch
from torch_geometric.nn import SAGEConv, SimpleConv, aggr
from torch_geometric.nn.resolver import aggregation_resolver

from gattn.nn import LearnedQueryReadout
from gattn.nn.attention import learned_query

SIZES = [3, 1, 0, 5, 2, 0]
"""Sizes of the graphs of a batch; two graphs are empty, one of them at the end."""


def _batch(channels=6, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    index = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    x = torch.randn(index.numel(), channels, generator=generator, dtype=dtype)
    return x, index


def _readout(**options):
    torch.manual_seed(1)
    options = {"num_queries": 3, "heads": 2, **options}
    return LearnedQueryReadout(6, 8, **options).double()


def _written_out(readout, x, index, size):
    """Compute O = W_v X softmax((W_k X)^T Q) for every graph and head by loops."""
    k, h, c = readout.num_queries, readout.heads, readout.out_channels // readout.heads
    key = readout.lin_key(x).view(-1, h, c)
    value = readout.lin_value(x).view(-1, h, c)
    query = readout.query.view(k, h, c)
    out = x.new_zeros(size, k, h * c)
    for g in range(size):
        rows = index == g
        if rows.any():
            weights = torch.einsum("jhc,qhc->jqh", key[rows], query / c**0.5).softmax(0)
            summed = torch.einsum("jqh,jhc->qhc", weights, value[rows])
            out[g] = readout.lin_out(summed.flatten(1))
    return out


@pytest.mark.parametrize(("num_queries", "heads"), [(1, 1), (3, 2), (2, 4), (5, 1)])
def test_learned_query_readout_matches_its_equation(num_queries, heads):
    readout = _readout(num_queries=num_queries, heads=heads, concat=False)
    x, index = _batch()
    expected = _written_out(readout, x, index, len(SIZES))
    torch.testing.assert_close(readout(x, index, dim_size=len(SIZES)), expected)


@pytest.mark.parametrize("options", [{}, {"ff_channels": 16, "layer_norm": True}])
def test_learned_query_readout_of_a_graph_without_nodes_is_zero(options):
    readout = _readout(**options)
    torch.nn.init.ones_(readout.lin_out.bias)
    x, index = _batch()
    out = readout(x, index, dim_size=6)
    assert torch.equal(out[[2, 5]], torch.zeros(2, 24, dtype=torch.float64))
    assert (out[[0, 1, 3, 4]] != 0).any(dim=1).all()
    assert readout(x[:0], index[:0], dim_size=2).equal(out.new_zeros(2, 24))
    assert readout(x[:0], index[:0], dim_size=0).shape == (0, 24)
    assert readout(x[:0], index[:0]).shape == (0, 24)


def test_learned_query_readout_with_feed_forward_and_norm_matches_its_equation():
    readout = _readout(ff_channels=16, layer_norm=True, concat=False)
    x, index = _batch()
    attended = readout.norm(_written_out(readout, x, index, 6)[[0, 1, 3, 4]])
    ff = readout.feed_forward
    expected = ff.norm(attended + ff.lin2(ff.lin1(attended).relu()))
    torch.testing.assert_close(readout(x, index, dim_size=6)[[0, 1, 3, 4]], expected)


def test_attention_weights_sum_to_one_and_give_the_output_of_the_readout():
    readout = _readout(concat=False)
    x, index = _batch()
    weights = readout.attention_weights(x, index, dim_size=6)
    assert weights.shape == (x.shape[0], 3, 2)
    sums = weights.new_zeros(6, 3, 2).index_add(0, index, weights)
    torch.testing.assert_close(sums[[0, 1, 3, 4]], torch.ones_like(sums[:4]))
    value = readout.lin_value(x).view(-1, 1, 2, 4)
    summed = x.new_zeros(6, 3, 2, 4).index_add(0, index, weights.unsqueeze(-1) * value)
    rebuilt = readout.lin_out(summed.flatten(2))
    torch.testing.assert_close(readout(x, index, dim_size=6)[[0, 3]], rebuilt[[0, 3]])


@pytest.mark.parametrize("heads", [1, 2])
def test_learned_query_readout_gives_the_same_output_if_it_projects_before_or_after_the_sum(
    heads, monkeypatch
):
    readout = _readout(num_queries=2, heads=heads, dropout=0.5)
    x, index = _batch()
    monkeypatch.setattr(learned_query, "MIN_CHANNELS_PER_SCORE", 0)
    torch.manual_seed(0)
    summed_first = readout(x, index, dim_size=6)
    monkeypatch.setattr(learned_query, "MIN_CHANNELS_PER_SCORE", 100)
    torch.manual_seed(0)
    torch.testing.assert_close(readout(x, index, dim_size=6), summed_first)


@pytest.mark.parametrize("few", [0, 100])
def test_gradients_of_learned_query_readout_pass_gradcheck(few, monkeypatch):
    monkeypatch.setattr(learned_query, "MIN_CHANNELS_PER_SCORE", few)
    readout = _readout(num_queries=2, ff_channels=5, layer_norm=True)
    x, index = _batch()
    names = [name for name, _ in readout.named_parameters()]

    def call(x, *parameters):
        values = dict(zip(names, parameters))
        return torch.func.functional_call(readout, values, (x, index), {"dim_size": 6})

    inputs = [x.requires_grad_(), *(p.detach().requires_grad_() for p in readout.parameters())]
    assert torch.autograd.gradcheck(call, inputs)


def test_pyg_layers_accept_learned_query_readout_as_aggregation():
    readout = LearnedQueryReadout(6, 4, num_queries=2)
    assert aggregation_resolver(readout) is readout
    x = torch.randn(4, 6)
    edge_index = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 1, 0, 2]])
    layer = SimpleConv(aggr=readout)
    expected = readout(x[edge_index[0]], edge_index[1], dim_size=4)
    torch.testing.assert_close(layer(x, edge_index), expected)
    assert SAGEConv(6, 5, aggr=LearnedQueryReadout(6, 6))(x, edge_index).shape == (4, 5)
    assert expected[3].eq(0).all()  # node 3 has no incoming edge
    both = aggr.MultiAggregation(["sum", readout], mode="cat")
    index = torch.tensor([0, 1, 1, 0])
    torch.testing.assert_close(both(x, index)[:, 6:], readout(x, index, dim_size=2))


def test_invalid_heads_index_ptr_or_shape_of_learned_query_readout_raises_error():
    x, index = _batch()
    readout = _readout()
    with pytest.raises(ValueError, match=r"heads must divide out_channels \(8\); got heads=3"):
        _readout(heads=3)
    with pytest.raises(ValueError, match=r"index must be in \[0, 3\); got 0 to 4"):
        readout(x, index, dim_size=3)
    with pytest.raises(ValueError, match=r"index must be in \[0, 6\); got -1 to 4"):
        readout(x, index.where(index != 1, -1), dim_size=6)
    with pytest.raises(ValueError, match=r"index must have shape \(11,\); got \(4,\)"):
        readout(x, index[:4], dim_size=6)
    with pytest.raises(TypeError, match=r"int32 or int64; got torch.float32"):
        readout(x, index.float(), dim_size=6)
    with pytest.raises(ValueError, match=r"ptr must rise from 0 to 11"):
        readout(x, ptr=torch.tensor([0, 5, 3, 11]))
    with pytest.raises(ValueError, match=r"x must have shape \(n, d\)"):
        readout(x.unsqueeze(0), index, dim_size=6)
