"""HEATConv compared with PyG's layer."""

import networkx
import pytest
import torch

from gattn.nn import HEATConv
from gattn.nn.conv import heat_conv

SIZES = {"edge_type_emb_dim": 5, "edge_dim": 3, "edge_attr_emb_dim": 2}


def _types(case):
    generator = torch.Generator().manual_seed(case.edge_index.shape[1])
    nodes = torch.randint(2, (case.size[0],), generator=generator)
    return nodes, torch.randint(3, (case.edge_index.shape[1],), generator=generator)


@pytest.fixture(params=[0, heat_conv.MAX_FORMED], ids=["large", "small"], autouse=True)
def order(request, monkeypatch):
    """Whether the graphs of a test are large, so that the values of edges are not formed."""
    monkeypatch.setattr(heat_conv, "MAX_FORMED", request.param)


@pytest.mark.parametrize(
    "options", [{"heads": 2}, {"heads": 2, "concat": False}, {"root_weight": False, "bias": False}],
    ids=["heads", "averaged", "no root"],
)  # fmt: skip
def test_heat_conv_matches_pyg_on_unusual_graphs(beside_pyg, options):
    pair = beside_pyg.pair("HEATConv", 6, 4, 2, 3, **SIZES, **options)
    for case in beside_pyg.graphs():
        x, edge_attr = beside_pyg.draw(case.size[0], 6), beside_pyg.draw(len(_types(case)[1]), 3)
        beside_pyg.check(*pair, x, case.edge_index, *_types(case), edge_attr, where=case.name)


def test_heat_conv_with_edge_weight_and_bias_is_unchanged_by_a_message_hook():
    torch.manual_seed(0)
    layer, x = HEATConv(6, 4, 2, 3, **SIZES, heads=2).double(), torch.randn(4, 6).double()
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 1, 1]])
    kinds, edge_kinds = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2, 1, 1])
    args = x, edge_index, kinds, edge_kinds, torch.randn(4, 3).double()
    terms = {"edge_weight": torch.rand(4).double(), "attn_bias": torch.randn(4, 2).double()}
    fused = layer(*args, **terms)
    assert not torch.allclose(fused, layer(*args))
    layer.register_message_forward_hook(lambda layer, inputs, out: None)
    torch.testing.assert_close(layer(*args, **terms), fused)


def test_heat_conv_accepts_a_module_as_embedding_of_edge_types():
    layer, x, kinds = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6), torch.tensor([0, 1, 1, 0])
    args = x, torch.tensor([[0, 1, 2], [1, 2, 1]]), kinds, kinds[:3], torch.randn(3, 3)
    expected = layer(*args)
    layer.edge_type_emb = torch.nn.Sequential(layer.edge_type_emb)
    torch.testing.assert_close(layer(*args), expected)


def test_heat_conv_raises_error_for_missing_features_or_wrong_shapes_of_edge_inputs():
    layer, x = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6)
    edge_index, kinds = torch.tensor([[0, 1], [1, 2]]), torch.zeros(4, dtype=torch.long)
    with pytest.raises(ValueError, match=r"edge_type must have shape \(2,\); got \(4,\)"):
        layer(x, edge_index, kinds, kinds, torch.randn(2, 3))
    with pytest.raises(ValueError, match="needs edge_attr"):
        layer(x, edge_index, kinds, kinds[:2])
    with pytest.raises(ValueError, match="edge_attr must have 3 features"):
        layer(x, edge_index, kinds, kinds[:2], torch.randn(2, 2))


TYPES = {
    "node above": ("node_type", [0, 1, 5, 1], ValueError, r"node_type must be in \[0, 2\)"),
    "node below": ("node_type", [0, 1, -1, 1], ValueError, "got -1 to 1"),
    "nodes short": ("node_type", [0, 1, 1], ValueError, r"node_type must have shape \(4,\)"),
    "nodes in columns": ("node_type", [[0], [1], [1], [0]], ValueError, r"got \(4, 1\)"),
    "nodes as floats": ("node_type", [0.0, 1, 1, 0], TypeError, "node_type must contain integers"),
    "edge above": ("edge_type", [0, 3], ValueError, r"edge_type must be in \[0, 3\); got 0 to 3"),
    "edge below": ("edge_type", [0, -1], ValueError, r"edge_type must be in \[0, 3\)"),
    "edges in columns": ("edge_type", [[0], [1]], ValueError, r"shape \(2,\); got \(2, 1\)"),
    "edges as floats": ("edge_type", [0.0, 1], TypeError, "edge_type must contain integers"),
}


@pytest.mark.parametrize("case", TYPES)
def test_heat_conv_raises_error_for_invalid_node_or_edge_types(case):
    name, values, error, message = TYPES[case]
    layer, x, edge_index = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6), torch.eye(2).long()
    types = {"node_type": torch.tensor([0, 1, 1, 0]), "edge_type": torch.tensor([0, 2])}
    with pytest.raises(error, match=message):
        layer(x, edge_index, **{**types, name: torch.tensor(values)}, edge_attr=torch.ones(2, 3))
    with pytest.raises(TypeError, match=f"{name} must be a tensor; got list"):
        layer(x, edge_index, **{**types, name: values}, edge_attr=torch.ones(2, 3))


def test_compiled_heat_conv_raises_error_if_types_are_out_of_range():
    layer, x, edge_index = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6), torch.eye(2).long()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    kinds, edge_kinds = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2])
    edge_attr = torch.ones(2, 3)
    torch.testing.assert_close(compiled(x, edge_index, kinds, edge_kinds, edge_attr),
                               layer(x, edge_index, kinds, edge_kinds, edge_attr))  # fmt: skip
    with pytest.raises(RuntimeError, match=r"node_type must be in \[0, 2\)"):
        compiled(x, edge_index, kinds - 1, edge_kinds, edge_attr)
    with pytest.raises(RuntimeError, match=r"edge_type must be in \[0, 3\)"):
        compiled(x, edge_index, kinds, edge_kinds + 1, edge_attr)


def test_heat_conv_raises_error_after_node_types_change_in_place_to_an_invalid_type():
    layer, x, edge_index = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6), torch.eye(2).long()
    kinds = torch.zeros(4, dtype=torch.int32)
    rest = torch.zeros(2, dtype=torch.int32), torch.ones(2, 3)
    layer(x, edge_index, kinds, *rest)
    kinds[2] = 7
    with pytest.raises(ValueError, match=r"node_type must be in \[0, 2\); got 0 to 7"):
        layer(x, edge_index, kinds, *rest)


def test_heat_conv_applies_types_and_features_of_an_undirected_edge_to_both_directions():
    torch.manual_seed(0)
    layer, x, kinds = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6), torch.tensor([0, 1, 1, 0])
    network, pairs = networkx.Graph([(0, 1), (2, 3)]), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    edge_kinds, edge_attr = torch.tensor([2, 1]), torch.randn(2, 3)
    both = [rows.repeat_interleave(2, 0) for rows in (edge_kinds, edge_attr)]
    got = layer(x, network, kinds, edge_kinds, edge_attr)
    torch.testing.assert_close(got, layer(x, pairs, kinds, *both))
