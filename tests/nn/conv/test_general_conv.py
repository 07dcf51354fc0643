"""GeneralConv compared with PyG's layer."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg

from gattn import convert
from gattn.nn import GeneralConv

DOT = {"attention": True, "attention_type": "dot_product"}
OPTIONS = {
    "sum": {"heads": 2, "in_edge_channels": 3},
    "mean": {"aggr": "mean", "l2_normalize": True},
    "additive": {"heads": 2, "attention": True, "in_edge_channels": 3, "skip_linear": True},
    "additive, both ends": {"attention": True, "directed_msg": False, "bias": False},
    "dot product": {"heads": 2, **DOT},
    "dot product, both ends": {"heads": 2, **DOT, "in_edge_channels": 3, "directed_msg": False},
}


@pytest.fixture(params=OPTIONS)
def pair(request):
    """Return PyG's layer and gattn's layer; PyG draws the map of the destinations only once."""
    torch.manual_seed(0)
    theirs = pyg.GeneralConv(6, 6, **OPTIONS[request.param]).double()
    ours = convert(copy.deepcopy(theirs))
    assert type(ours) is GeneralConv
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.fused == (theirs.aggr == "add")
    return theirs, ours


def _edge_attr(layer, draw, edges):
    return () if layer.in_edge_channels is None else (draw(edges, 3),)


def test_general_conv_matches_pyg_on_unusual_graphs(beside_pyg, pair):
    for case in beside_pyg.graphs():
        x, edges = beside_pyg.draw(case.size[0], 6), case.edge_index
        edge_attr = _edge_attr(pair[1], beside_pyg.draw, edges.shape[1])
        beside_pyg.check(*pair, x, edges, *edge_attr, where=case.name)


def test_unknown_options_or_unused_inputs_of_general_conv_raise_error():
    x, edges = torch.randn(4, 6), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=r"attention_type must be one of .* got 'cosine'"):
        GeneralConv(6, 4, attention=True, attention_type="cosine")
    with pytest.raises(ValueError, match="attention=False and takes no attn_bias"):
        GeneralConv(6, 4)(x, edges, attn_bias=torch.zeros(2))
    with pytest.raises(ValueError, match="without in_edge_channels and takes no edge_attr"):
        GeneralConv(6, 4)(x, edges, torch.randn(2, 3))
