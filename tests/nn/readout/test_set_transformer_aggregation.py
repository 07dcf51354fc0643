import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn.aggr import utils

from gattn import graphs
from gattn.nn import InducedSetAttentionBlock, MultiheadAttentionBlock, SetTransformerAggregation

SIZES = [3, 1, 5, 2]


def _batch(sizes=SIZES, channels=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    index = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    x = torch.randn(index.numel(), channels, generator=generator, dtype=dtype)
    return x, index


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_seed_points": 3, "heads": 2},
        {"num_seed_points": 2, "heads": 4, "layer_norm": True, "concat": False},
        {"num_seed_points": 2, "num_encoder_blocks": 2, "num_decoder_blocks": 0},
        {"num_seed_points": 2, "num_encoder_blocks": 0, "num_decoder_blocks": 2, "heads": 8},
    ],
)
def test_set_transformer_aggregation_matches_pyg_for_blocks_and_heads(options):
    torch.manual_seed(0)
    theirs = pyg.SetTransformerAggregation(8, **options).double()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ours = SetTransformerAggregation(8, **options).double()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    x, index = _batch()
    x.requires_grad_()
    expected = theirs(x, index, dim_size=4)
    out = ours(x, index, dim_size=4)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)

    direction = torch.randn_like(expected)
    expected_grads = torch.autograd.grad((expected * direction).sum(), [x, *theirs.parameters()])
    grads = torch.autograd.grad((out * direction).sum(), [x, *ours.parameters()])
    torch.testing.assert_close(grads, expected_grads, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_induced_set_attention_block_matches_pyg_on_each_set(layer_norm):
    torch.manual_seed(0)
    theirs = utils.InducedSetAttentionBlock(8, 3, heads=2, layer_norm=layer_norm).double()
    ours = InducedSetAttentionBlock(8, 3, heads=2, layer_norm=layer_norm).double()
    ours.load_state_dict(theirs.state_dict())
    x, index = _batch()
    out = ours(x, graphs.pooling_graph(index))
    for graph in range(4):
        expected = theirs(x[index == graph].unsqueeze(0)).squeeze(0)
        torch.testing.assert_close(out[index == graph], expected, rtol=1e-10, atol=1e-10)


READOUTS = [
    {"num_seed_points": 2, "heads": 2},
    {"num_seed_points": 2, "heads": 2, "layer_norm": True, "num_induced_points": 3},
]


@pytest.mark.parametrize("options", READOUTS)
def test_set_transformer_aggregation_of_a_graph_without_nodes_is_zero(options):
    readout = SetTransformerAggregation(8, **options).double()
    x, index = _batch([2, 0, 3, 0])
    out = readout(x, index, dim_size=4)
    assert torch.equal(out[[1, 3]], torch.zeros(2, 16, dtype=torch.float64))
    torch.testing.assert_close(out[[0, 2]], readout(x, (index > 0).long(), dim_size=2))
    assert torch.equal(readout(x[:0], index[:0], dim_size=2), out.new_zeros(2, 16))


@pytest.mark.parametrize("options", READOUTS)
def test_attention_weights_of_set_transformer_sum_to_one_in_each_graph(options):
    readout = SetTransformerAggregation(8, **options).double()
    x, index = _batch()
    weights = readout.attention_weights(x, index, dim_size=4)
    sums = weights.new_zeros(4, 2, 2).index_add(0, index, weights)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    ptr = torch.tensor([0, *SIZES]).cumsum(0)
    assert torch.equal(readout.attention_weights(x, ptr=ptr), weights)


def test_derivatives_of_set_transformer_aggregation_pass_gradcheck():
    readout = SetTransformerAggregation(4, num_seed_points=2, heads=2, layer_norm=True).double()
    x, index = _batch([2, 3], channels=4)
    torch.autograd.gradcheck(lambda x: readout(x, index, dim_size=2), (x.requires_grad_(),))
    torch.autograd.gradgradcheck(lambda x: readout(x, index, dim_size=2), (x,))


def test_multihead_attention_block_raises_error_if_heads_do_not_divide_channels():
    with pytest.raises(ValueError, match=r"heads must divide channels \(8\); got heads=3"):
        MultiheadAttentionBlock(8, heads=3)


@pytest.mark.parametrize("options", READOUTS)
def test_set_transformer_aggregation_under_autocast_is_near_fp32(options):
    readout = SetTransformerAggregation(8, **options)
    x, index = _batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = readout(x, index, dim_size=4)
    expected = readout(x, index, dim_size=4)
    torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)
