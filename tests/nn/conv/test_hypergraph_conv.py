"""HypergraphConv compared with PyG's layer."""

import pytest
import torch

from gattn import Graph
from gattn.nn import HypergraphConv, record_attention

PAIRS = torch.tensor([[0, 1, 2, 2, 3, 4, 0], [0, 0, 0, 1, 1, 3, 3]])  # hyperedge 2 has no nodes


BY_EDGE = {"use_attention": True, "heads": 2, "attention_mode": "edge", "concat": False}


@pytest.mark.parametrize("path", ["fused", "edge by edge"])
@pytest.mark.parametrize("options", [{}, {"use_attention": True, "heads": 2}, BY_EDGE])
def test_hypergraph_conv_matches_pyg_with_and_without_attention(beside_pyg, options, path):
    theirs, ours = beside_pyg.pair("HypergraphConv", 6, 4, **options)
    if path != "fused":
        ours.register_message_forward_hook(lambda layer, inputs, out: None)
    x, weight, attr = (beside_pyg.draw(*shape) for shape in ((6, 6), (4,), (4, 6)))
    attention = {"hyperedge_attr": attr} if options else {}
    beside_pyg.check(theirs, ours, x, PAIRS, **attention)
    beside_pyg.check(theirs, ours, x, PAIRS, hyperedge_weight=weight.abs(), **attention)
    beside_pyg.check(theirs, ours, x, PAIRS[:, :0], num_edges=4, **attention)


def test_hypergraph_conv_gives_equal_outputs_for_graph_and_hyperedge_index():
    torch.manual_seed(0)
    layer, x, attr = HypergraphConv(6, 4, True, heads=2), torch.randn(6, 6), torch.randn(4, 6)
    graph = Graph(PAIRS, (6, 4))
    torch.testing.assert_close(
        layer(x, graph, hyperedge_attr=attr), layer(x, PAIRS, hyperedge_attr=attr)
    )
    with record_attention(layer) as recorded:
        layer(x, graph, hyperedge_attr=attr)
    sums = torch.zeros(4, 2).index_add(0, PAIRS[1], recorded[0].weights)
    torch.testing.assert_close(sums, torch.tensor([1.0, 1, 0, 1]).view(4, 1).expand(4, 2))


@pytest.mark.parametrize(
    ("options", "inputs", "message"),
    [
        ({"attention_mode": "both"}, {}, "attention_mode must be one of"),
        ({"flow": "target_to_source"}, {}, "flow must be 'source_to_target'; got"),
        ({"use_attention": True}, {}, "needs hyperedge_attr"),
        ({}, {"hyperedge_weight": torch.ones(3), "num_edges": 4}, "must have 4 rows"),
    ],
    ids=["mode", "flow", "no features", "rows"],
)
def test_invalid_options_or_inputs_of_hypergraph_conv_raise_error(options, inputs, message):
    with pytest.raises(ValueError, match=message):
        HypergraphConv(6, 4, **options)(torch.randn(6, 6), PAIRS, **inputs)


def test_hypergraph_conv_in_fp16_does_not_overflow_in_a_hyperedge_of_700_nodes():
    pairs = torch.stack([torch.arange(700), torch.zeros(700, dtype=torch.long)])
    layer = HypergraphConv(2, 2).half()
    layer.lin.weight.data.copy_(torch.eye(2))
    out = layer(torch.full((700, 2), 200.0).half(), pairs)
    torch.testing.assert_close(out.float(), torch.full((700, 2), 200.0), rtol=1e-2, atol=0)


def test_hypergraph_conv_matches_pyg_for_hyperedges_without_nodes(beside_pyg):
    theirs, ours = beside_pyg.pair("HypergraphConv", 6, 4, use_attention=True, heads=2)
    x, attr = beside_pyg.draw(6, 6), beside_pyg.draw(4, 6)
    beside_pyg.check(theirs, ours, x, PAIRS, hyperedge_attr=attr, num_edges=7)
    with pytest.raises(ValueError, match="hyperedge_attr must have 7 rows"):
        ours(x, PAIRS, hyperedge_attr=attr[:2], num_edges=7)
