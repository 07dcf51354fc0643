"""PyG's own tools on gattn's layers: explanations, heterogeneous models, hooks, summaries."""

import copy

import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer
from torch_geometric.nn import to_hetero

import gattn.nn
from tests.layers import BY_NAME

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2, 5], [1, 2, 3, 4, 5, 0, 2]])
NODES = ["paper", "author"]
RELATIONS = [("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "by", "author")]
CONVS = ["GATConv", "GATv2Conv", "TransformerConv", "AGNNConv", "SuperGATConv"]


class _Model(torch.nn.Module):
    def __init__(self, package, name):
        super().__init__()
        self.conv = BY_NAME[name].make(6, package=package)
        self.lin = pyg.Linear(-1, 3)

    def forward(self, x, edge_index):
        return self.lin(self.conv(x, edge_index).relu())


def _two_models(name):
    """Return the same model with PyG's layer and with ours."""
    models = [_Model(package, name).eval() for package in (pyg, gattn.nn)]
    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    for model in models:
        torch.manual_seed(1)
        model(x, EDGES)
    models[1].load_state_dict(models[0].state_dict())
    return *models, x


def _explain(model, algorithm, x):
    torch.manual_seed(0)
    return Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type=None if isinstance(algorithm, AttentionExplainer) else "attributes",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification", "task_level": "node", "return_type": "raw",
        },
    )(x, EDGES, index=2)  # fmt: skip


@pytest.mark.parametrize("name", CONVS)
def test_gnn_explainer_gives_equal_masks_for_gattn_and_pyg_layers(name):
    theirs, ours, x = _two_models(name)
    expected, got = (_explain(m, GNNExplainer(epochs=5), x) for m in (theirs, ours))
    assert got.edge_mask.any()
    torch.testing.assert_close(got.edge_mask, expected.edge_mask, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.node_mask, expected.node_mask, rtol=1e-4, atol=1e-5)
    assert ours.conv.fused  # after the explanation, the layer uses its fused kernel again


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_attention_explainer_gives_equal_masks_for_gattn_and_pyg_layers(name):
    theirs, ours, x = _two_models(name)
    expected, got = (_explain(m, AttentionExplainer(), x) for m in (theirs, ours))
    assert got.edge_mask.any()
    torch.testing.assert_close(got.edge_mask, expected.edge_mask)
    assert ours.conv.fused


class _Hetero(torch.nn.Module):
    def __init__(self, package, name):
        super().__init__()
        options = {"add_self_loops": False} if name.startswith("GAT") else {}
        cls = getattr(package, name)
        self.conv1 = cls((-1, -1), 4, heads=2, **options)
        self.conv2 = cls((-1, -1), 3, **options)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_to_hetero_gives_equal_outputs_for_gattn_and_pyg_layers(name):
    x = {"paper": torch.randn(6, 5), "author": torch.randn(6, 3)}
    edges = {key: EDGES.flip(0) if key[1] == "by" else EDGES for key in RELATIONS}
    outputs, states = [], []
    for package in (pyg, gattn.nn):
        torch.manual_seed(0)
        model = to_hetero(_Hetero(package, name), (NODES, RELATIONS), aggr="sum")
        outputs.append(model(x, edges))
        states.append(model.state_dict())
    assert list(states[0]) == list(states[1])
    for key in outputs[0]:
        torch.testing.assert_close(outputs[1][key], outputs[0][key], rtol=1e-5, atol=1e-5)


def test_copy_of_a_layer_in_explain_mode_stays_in_explain_mode():
    _, ours, _ = _two_models("GATConv")
    ours.conv.explain = True
    assert not copy.deepcopy(ours).conv.fused
