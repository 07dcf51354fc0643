"""The attention network with skip connections: its equation, its training and its choice."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg
from torch import nn

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.fields import FieldInput, whole_graph
from gattn.apps.nodes.network import attention_weights
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack import residual
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.stack.residual import (
    LabelledNetwork,
    LabelledPredictor,
    ResidualNetwork,
    ResidualPredictor,
)
from gattn.apps.nodes.stack.weights import Combination
from gattn.nn import record_attention
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


def test_residual_network_equals_a_network_of_pyg_layers():
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


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_labels_used_as_inputs_are_no_targets_in_training(monkeypatch, share):
    monkeypatch.setattr(residual, "LABEL_INPUTS", share)
    torch.manual_seed(0)
    network, (x, edges) = LabelledNetwork(SETTINGS, FEATURES, OUTPUTS), _graph()
    labels = F.one_hot(torch.arange(NODES) % OUTPUTS, OUTPUTS).float()
    network(FieldInput(x, whole_graph(edges, NODES, 2), labels=labels)).square().sum().backward()
    assert bool(network.out.weight.grad.any()) is (share == 0)
    assert not network.label_table.grad.any()


def test_network_without_node_columns_learns_from_labels_of_neighbours(monkeypatch):
    monkeypatch.setattr(residual, "LABELS_OF_CLASS", 20)
    edges, nodes = class_network(nodes=200, homophily=0.95)
    options = {"label": "label", "epochs": 40, "width": 16, "heads": 2, "refit": False}
    model = NodeClassifier(**options).fit((edges, nodes[["id", "label"]]))
    part = model.split_.val
    right = model.predictor_.validation_parts["gat"].argmax(1) == model.y_[part]
    assert right.double().mean() > 0.8


@pytest.mark.parametrize(
    ("lowest", "weight", "options", "trained"),
    [(9, 1, {}, [10, 30]), (8, 1, {}, [10]), (9, 0, {}, [10]), (9, 1, {"epochs": 10}, [10])],
    ids=["late", "early", "no weight", "epochs given"],
)
def test_network_is_trained_for_three_times_the_epochs_if_its_loss_still_falls(
    monkeypatch, lowest, weight, options, trained
):
    for name, value in (("LABELS_OF_CLASS", 20), ("EPOCHS", 10), ("FEWEST_EPOCHS", 1)):
        monkeypatch.setattr(residual, name, value)
    fit, combine, epochs = LabelledPredictor.fit, Combination.fit, []

    def fit_with_lowest(problem, settings, *arguments):
        """Fit the network, and set its lowest validation loss at an epoch of the test."""
        network = fit(problem, settings, *arguments)
        epochs.append(len(network.history[0].records))
        losses = [float(place != lowest) for place in range(settings.epochs)]
        records = zip(network.history[0].records, losses, strict=True)
        records = tuple(replace(record, validation_loss=loss) for record, loss in records)
        network.history = (replace(network.history[0], records=records),)
        return network

    def combine_with_weight(*arguments, **settings):
        combination = combine(*arguments, **settings)
        return replace(combination, weights=combination.weights | {"gat": weight})

    monkeypatch.setattr(LabelledPredictor, "fit", fit_with_lowest)
    monkeypatch.setattr(Combination, "fit", combine_with_weight)
    options |= {"label": "label", "width": 8, "heads": 2, "refit": False}
    NodeClassifier(**options).fit(class_network(nodes=120))
    assert epochs == trained


def test_residual_network_is_used_if_each_class_has_many_labels(tmp_path, monkeypatch):
    edges, nodes = class_network(nodes=120)
    options = {"label": "label", "epochs": 4, "width": 8, "heads": 2}
    few = NodeClassifier(**options).fit((edges, nodes))
    assert not isinstance(_predictor(few), ResidualPredictor)
    monkeypatch.setattr(residual, "LABELS_OF_CLASS", 20)
    many = NodeClassifier(**options, dropout=0.2).fit((edges, nodes))
    assert isinstance(_predictor(many), ResidualPredictor)
    assert len(_predictor(many).history[0].records) == 4
    assert _predictor(many).network.dropout.p == 0.2
    many.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert isinstance(_predictor(loaded), ResidualPredictor)
    assert np.array_equal(loaded.predict_proba((edges, nodes)), many.predict_proba())


def test_attention_and_embed_return_the_values_that_predict_proba_computes(monkeypatch):
    monkeypatch.setattr(residual, "LABELS_OF_CLASS", 20)
    tables = class_network(nodes=120)
    options = {"label": "label", "epochs": 4, "width": 8, "heads": 2}
    model = NodeClassifier(**options).fit(tables)
    network = _predictor(model).network
    embeddings = []
    with record_attention(network) as records, monkeypatch.context() as patch:
        embed = network.embed
        patch.setattr(network, "embed", lambda x: embeddings.append(embed(x)) or embeddings[-1])
        model.predict_proba(tables)
    for (edges, weights), record in zip(model.attention(tables), records, strict=True):
        assert np.array_equal(edges, record.edge_index)
        assert np.array_equal(weights, record.weights)
    assert np.array_equal(model.embed(tables), embeddings[0])
