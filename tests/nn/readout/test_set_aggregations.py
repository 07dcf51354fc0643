"""GraphMultisetTransformer, Set2Set and SoftmaxAggregation compared with PyG's aggregations."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.utils import softmax

from gattn import nn
from gattn.nn import GraphMultisetTransformer, Set2Set, SoftmaxAggregation

MADE = {
    "GraphMultisetTransformer": [
        {"channels": 6, "k": 3, "heads": 2},
        {"channels": 6, "k": 1, "num_encoder_blocks": 2, "layer_norm": True},
    ],
    "Set2Set": [
        {"in_channels": 6, "processing_steps": 3},
        {"in_channels": 6, "processing_steps": 2, "num_layers": 2},
    ],
    "SoftmaxAggregation": [
        {},
        {"t": 0.3, "learn": True, "channels": 6},
        {"t": 2.0, "semi_grad": True},
    ],
}
CASES = [(name, options) for name, variants in MADE.items() for options in variants]


def _pair(name, options):
    """Return PyG's aggregation and ours, with the same parameters."""
    torch.manual_seed(0)
    theirs, ours = (getattr(package, name)(**options).double().eval() for package in (pyg, nn))
    assert repr(theirs) == repr(ours)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_set_aggregations_match_pyg_for_index_and_ptr(beside_pyg, name, options):
    theirs, ours = _pair(name, options)
    x, index = beside_pyg.draw(7, 6), torch.tensor([0, 0, 0, 1, 2, 2, 2])
    beside_pyg.check(theirs, ours, x, index)
    torch.testing.assert_close(ours(x, ptr=torch.tensor([0, 3, 4, 7])), ours(x, index))
    order = torch.tensor([3, 6, 0, 4, 1, 5, 2])
    torch.testing.assert_close(ours(x[order], index[order]), ours(x, index))


@pytest.mark.parametrize("name", ["Set2Set", "SoftmaxAggregation"])
def test_set_aggregation_of_a_graph_without_nodes_matches_pyg(beside_pyg, name):
    x, index = beside_pyg.draw(4, 6), torch.tensor([0, 0, 2, 2])
    beside_pyg.check(*_pair(name, MADE[name][0]), x, index, dim_size=4)


def test_graph_multiset_transformer_of_a_graph_without_nodes_is_zero():
    readout = GraphMultisetTransformer(6, 2, layer_norm=True)
    out = readout(torch.randn(4, 6), torch.tensor([0, 0, 2, 2]), dim_size=4)
    assert (out[[1, 3]] == 0).all()
    assert (out[[0, 2]] != 0).any(1).all()


def test_attention_weights_of_set_aggregations_sum_to_one_in_each_graph():
    x, index = torch.randn(7, 6), torch.tensor([0, 2, 0, 1, 2, 2, 0])
    for readout in (
        GraphMultisetTransformer(6, 3, heads=2), Set2Set(6, 3), SoftmaxAggregation(t=0.5),
    ):  # fmt: skip
        weights = readout.attention_weights(x, index)
        sums = weights.new_zeros(3, *weights.shape[1:]).index_add(0, index, weights)
        torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize(
    ("shape", "dim"), [((7,), 0), ((7,), -1), ((2, 7, 3), -2), ((7, 3, 2), 0), ((3, 7), 1)], ids=str
)
def test_softmax_aggregation_along_each_dimension_matches_pyg(beside_pyg, shape, dim):
    theirs, ours = _pair("SoftmaxAggregation", {"t": 0.5})
    x, index = beside_pyg.draw(*shape), torch.tensor([0, 0, 0, 1, 2, 2, 2])
    torch.testing.assert_close(ours(x, index, dim=dim), theirs(x, index, dim=dim))
    weights = ours.attention_weights(x, index, dim=dim)
    torch.testing.assert_close(weights, softmax(0.5 * x, index, dim=dim))


@pytest.mark.parametrize("options", [{}, {"t": 2}, {"t": 0.5}, {"learn": True}], ids=str)
def test_softmax_aggregation_of_integers_matches_pyg(options):
    x, index = torch.tensor([[1, 5], [2, 3], [4, 0]]), torch.tensor([0, 0, 1])
    theirs, ours = (package.SoftmaxAggregation(**options) for package in (pyg, nn))
    torch.testing.assert_close(ours(x, index), theirs(x, index))


@pytest.mark.parametrize(
    "option", [{"batch_first": True}, {"bidirectional": True}, {"proj_size": 2}]
)
def test_unsupported_lstm_options_of_set2set_raise_error(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must be left out"):
        Set2Set(6, 3, **option)


def test_invalid_shapes_or_options_of_softmax_aggregation_raise_error():
    with pytest.raises(ValueError, match=r"x must have a dimension -2; got shape \(3,\)"):
        SoftmaxAggregation()(torch.randn(3), torch.zeros(3).long())
    with pytest.raises(
        ValueError, match=r"x must have shape \(n, 6\) .* got \(5, 2, 3\) with dim 0"
    ):
        SoftmaxAggregation(learn=True, channels=6)(torch.randn(5, 2, 3), dim=0)
    with pytest.raises(ValueError, match="Cannot enable 'semi_grad'"):
        SoftmaxAggregation(learn=True, semi_grad=True)
    with pytest.raises(ValueError, match="Cannot set 'channels'"):
        SoftmaxAggregation(channels=6)
    with pytest.raises(ValueError, match="x must have 4 features"):
        SoftmaxAggregation(learn=True, channels=4)(torch.randn(3, 6), torch.zeros(3).long())
