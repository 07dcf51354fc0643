"""HEATConv beside PyG's."""

import pytest
import torch

from gattn.nn import HEATConv

SIZES = {"edge_type_emb_dim": 5, "edge_dim": 3, "edge_attr_emb_dim": 2}


def _types(case):
    generator = torch.Generator().manual_seed(case.edge_index.shape[1])
    nodes = torch.randint(2, (case.size[0],), generator=generator)
    return nodes, torch.randint(3, (case.edge_index.shape[1],), generator=generator)


@pytest.mark.parametrize(
    "options", [{"heads": 2}, {"heads": 2, "concat": False}, {"root_weight": False, "bias": False}],
    ids=["heads", "averaged", "no root"],
)  # fmt: skip
def test_on_awkward_graphs(beside_pyg, options):
    pair = beside_pyg.pair("HEATConv", 6, 4, 2, 3, **SIZES, **options)
    for case in beside_pyg.graphs():
        x, edge_attr = beside_pyg.draw(case.size[0], 6), beside_pyg.draw(len(_types(case)[1]), 3)
        beside_pyg.check(*pair, x, case.edge_index, *_types(case), edge_attr, where=case.name)


def test_a_weight_and_a_bias_for_each_edge():
    torch.manual_seed(0)
    layer, x = HEATConv(6, 4, 2, 3, **SIZES, heads=2).double(), torch.randn(4, 6).double()
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 1, 1]])
    kinds, edge_kinds = torch.tensor([0, 1, 1, 0]), torch.tensor([0, 2, 1, 1])
    args = x, edge_index, kinds, edge_kinds, torch.randn(4, 3).double()
    terms = {"edge_weight": torch.rand(4).double(), "score_bias": torch.randn(4, 2).double()}
    fused = layer(*args, **terms)
    assert not torch.allclose(fused, layer(*args))
    layer.register_message_forward_hook(lambda layer, inputs, out: None)
    torch.testing.assert_close(layer(*args, **terms), fused)


def test_errors():
    layer, x = HEATConv(6, 4, 2, 3, **SIZES), torch.randn(4, 6)
    edge_index, kinds = torch.tensor([[0, 1], [1, 2]]), torch.zeros(4, dtype=torch.long)
    with pytest.raises(ValueError, match=r"edge_type must have shape \(2,\); got \(4,\)"):
        layer(x, edge_index, kinds, kinds, torch.randn(2, 3))
    with pytest.raises(ValueError, match="needs edge_attr"):
        layer(x, edge_index, kinds, kinds[:2])
    with pytest.raises(ValueError, match="edge_attr must have 3 features"):
        layer(x, edge_index, kinds, kinds[:2], torch.randn(2, 2))
