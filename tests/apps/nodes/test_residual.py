"""The attention network with skip connections: its equation, its training and its choice."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batches
from gattn.apps.fitting.losses import squared_error
from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.fields import FieldInput, receptive_field, whole_graph
from gattn.apps.nodes.network import attention_weights
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack import residual
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.stack.residual import ResidualNetwork, ResidualPredictor
from tests.apps.nodes.networks import class_network

NODES, FEATURES, OUTPUTS = 14, 5, 3
SETTINGS = NodeSettings(width=8, heads=2, layers=2)


def _network():
    torch.manual_seed(0)
    network = ResidualNetwork(SETTINGS, FEATURES, OUTPUTS).eval()
    for norm in network.norms:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return network


def _graph():
    generator = torch.Generator().manual_seed(0)
    x = F.dropout(torch.randn(NODES, FEATURES, generator=generator), 0.5)
    return x, torch.randint(NODES, (2, 40), generator=generator)


def _predictor(model):
    assert isinstance(model.predictor_, StackedPredictor)
    return model.predictor_.network


def test_outputs_are_those_of_layers_of_pyg():
    network, (x, edges) = _network(), _graph()
    hidden = network.norms[0](x @ network.table + network.bias).relu()
    for layer, skip, norm in zip(network.layers, network.skips, network.norms[1:]):
        other = pyg.GATConv(8, 4, 2, add_self_loops=False)
        other.load_state_dict(layer.state_dict())
        hidden = norm(other(hidden, edges) + skip(hidden)).relu()
    inputs = FieldInput(x, whole_graph(edges, NODES, 2))
    torch.testing.assert_close(network.embed(inputs), hidden, atol=1e-5, rtol=1e-4)
    expected = network.out(hidden)
    torch.testing.assert_close(network(inputs), expected, atol=1e-5, rtol=1e-4)
    for pairs, weights in attention_weights(network, inputs):
        sums = torch.zeros(NODES, 2).index_add_(0, pairs[1], weights)
        reached = torch.zeros(NODES, dtype=torch.bool)
        reached[edges[1]] = True
        torch.testing.assert_close(sums[reached], torch.ones(int(reached.sum()), 2))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_receptive_field_has_the_outputs_and_gradients_of_the_whole_graph(sparse):
    network, (x, edges) = _network(), _graph()
    seeds = torch.tensor([9, 2])
    part = receptive_field(edges, NODES, seeds, 2)
    some = x[part.nodes].to_sparse_csr() if sparse else x[part.nodes]
    weights = list(network.parameters())
    outputs = (
        network(FieldInput(some, part)),
        network(FieldInput(x, whole_graph(edges, NODES, 2)))[seeds],
    )
    torch.testing.assert_close(*outputs, atol=1e-5, rtol=1e-4)
    gradients = (torch.autograd.grad(output.square().sum(), weights) for output in outputs)
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


def test_one_cycle_training_equals_that_of_torch():
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
    ours, theirs = nn.Linear(3, 1), nn.Linear(3, 1)
    theirs.load_state_dict(ours.state_dict())
    settings = FullBatchSettings(30, 100, 0.1, 0.01, seed=0, schedule="one-cycle")
    part = FullBatch(x, y)
    (history,) = fit_full_batches([ours], squared_error, part, part, settings)
    assert history.chosen == 29
    optimizer = torch.optim.AdamW(theirs.parameters(), 0.1, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.1, total_steps=30, pct_start=0.1, base_momentum=0.85, max_momentum=0.95
    )
    for record in history.records:
        assert record.learning_rate == pytest.approx(schedule.get_last_lr()[0])
        optimizer.zero_grad()
        F.mse_loss(theirs(x), y).backward()
        optimizer.step()
        schedule.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def test_the_network_is_used_with_many_labels_of_each_class(tmp_path, monkeypatch):
    edges, nodes = class_network(nodes=120)
    options = {"label": "label", "epochs": 8, "width": 8, "heads": 2}
    few = NodeClassifier(**options).fit((edges, nodes))
    assert not isinstance(_predictor(few), ResidualPredictor)
    monkeypatch.setattr(residual, "LABELS_OF_CLASS", 20)
    many = NodeClassifier(**options).fit((edges, nodes))
    assert isinstance(_predictor(many), ResidualPredictor)
    assert len(_predictor(many).history[0].records) == 8
    assert _predictor(many).settings.dropout == residual.DEFAULTS["dropout"]
    changed = NodeClassifier(**options, dropout=0.2).fit((edges, nodes))
    assert _predictor(changed).settings.dropout == 0.2
    assert _predictor(changed).network.dropout.p == 0.2
    again = NodeClassifier(**options, threads=2).fit((edges, nodes))
    assert np.array_equal(many.predict_proba(), again.predict_proba())
    many.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert isinstance(_predictor(loaded), ResidualPredictor)
    assert np.array_equal(loaded.predict_proba((edges, nodes)), many.predict_proba())
    monkeypatch.setattr(residual, "MAX_PRODUCTS", 1.0)
    large = NodeClassifier(**options).fit((edges, nodes))
    assert not isinstance(_predictor(large), ResidualPredictor)


def test_the_network_is_not_used_for_numbers(monkeypatch):
    edges, nodes = class_network(nodes=60)
    nodes["label"] = nodes["x0"] * 2
    monkeypatch.setattr(residual, "LABELS_OF_CLASS", 1)
    model = NodeRegressor(label="label", features=["x1"], epochs=4).fit((edges, nodes))
    assert not isinstance(_predictor(model), ResidualPredictor)
