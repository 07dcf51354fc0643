"""Stacked models of nodes: their components, labels of neighbours, weights, saving."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.scratch import Scratch
from gattn.apps.nodes.stack.components import Components
from gattn.apps.nodes.stack.linear import Linear, Targets
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.nodes.stack.propagation import (
    Neighbours,
    label_features,
    propagate,
    propagate_folds,
    walks,
)
from gattn.apps.nodes.stack.weights import fit_weights, listwise_weights, temperature
from tests.apps.nodes.networks import class_network, probabilities

DRAW = np.random.default_rng(0)
SMALL = {"label": "label", "epochs": 5, "width": 8, "heads": 2}


@pytest.fixture(scope="module")
def network():
    """Return the tables of a network with unlabelled nodes, and all labels."""
    edges, table = class_network(nodes=240, homophily=0.95)
    truth, table = table["label"].to_numpy(), table[["id", "x0", "label"]].copy()
    table.loc[np.arange(240) % 3 == 0, "label"] = None
    return edges, table, truth


@pytest.fixture(scope="module")
def model(network):
    """Return a stack that was trained on the network."""
    return NodeClassifier(**SMALL).fit(network[:2])


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order_of_tests() -> None:
    DRAW.bit_generator.state = np.random.default_rng(0).bit_generator.state


def _neighbours(nodes=30, edges=60):
    return Neighbours(torch.from_numpy(DRAW.integers(nodes, size=(2, edges))), nodes)


def test_neighbour_means_equal_a_loop_over_nodes():
    edges = torch.tensor([[0, 0, 1, 4], [1, 2, 2, 0]])
    both = Neighbours(edges, 5)
    x = DRAW.normal(size=(5, 2)).astype(np.float32)
    adjacent = {0: [1, 2, 4], 1: [0, 2], 2: [0, 1], 3: [], 4: [0]}
    for node, others in adjacent.items():
        expected = x[others].mean(0) if others else np.zeros(2)
        np.testing.assert_allclose((both.means @ x)[node], expected, rtol=1e-5)
    into, out = both.along
    np.testing.assert_allclose((into @ x)[2], x[:2].mean(0), rtol=1e-5)
    np.testing.assert_allclose((out @ x)[0], x[1:3].mean(0), rtol=1e-5)
    assert not Neighbours(torch.cat([edges, edges.flip(0)], 1), 5).along
    alone = Neighbours(torch.zeros(2, 0, dtype=torch.int64), 3)
    assert (alone.means @ x[:3]).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("is_class", [True, False])
def test_stack_gives_90_percent_of_the_weight_to_the_only_predictive_model(is_class):
    for seed in range(5):
        draw = np.random.default_rng(seed)
        if is_class:
            y = draw.integers(4, size=200)
            models = [probabilities(y, strength, draw) for strength in (0, 0, 3, 0, 0, 0)]
            models += [np.full((200, 4), 0.25)]
        else:
            y = draw.normal(size=200)
            noise = draw.normal(size=(7, 200, 1))
            models = [y[:, None] + 0.3 * e if k == 2 else e for k, e in enumerate(noise)]
        weights = fit_weights(models, y, is_class=is_class)
        assert weights.argmax() == 2
        assert np.delete(weights, 2).sum() < 0.1 * weights.sum()
    empty = [each[:0] for each in models[:2]]
    assert fit_weights(empty, y[:0], is_class=is_class).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("rows_of_sum", [0.0, 4.0])
def test_listwise_weights_equal_the_minimum_of_the_penalised_loss_on_a_grid(rows_of_sum):
    scores = np.random.default_rng(0).normal(-1, 1, size=(10, 3, 2))
    scores[:, 0] = 0
    prior = np.array([0.7, 0.3])
    grid = np.stack(np.meshgrid(*2 * [np.arange(0, 3, 0.01)]), -1).reshape(-1, 2)
    loss = np.log(np.exp(scores @ grid.T).sum(1)).sum(0)
    loss += 2 * np.square(grid - prior).sum(1) + 0.5 * rows_of_sum * (grid.sum(1) - 1) ** 2
    weights = listwise_weights(scores, prior, rows_of_sum)
    np.testing.assert_allclose(weights, grid[loss.argmin()], atol=0.006)


@pytest.mark.parametrize(("nodes", "factor"), [(4, 1), (4000, 8)])
def test_temperature_fitted_to_four_nodes_is_one_and_to_4000_nodes_is_eight(nodes, factor):
    scores = np.log([[0.6, 0.4]] * nodes)
    assert temperature(scores, np.zeros(nodes)) == factor


@pytest.mark.parametrize("count", [1, 2, 12])
def test_label_features_of_a_training_node_do_not_depend_on_its_label(count):
    graph, train = _neighbours(), DRAW.permutation(30)[:count]
    labels = np.eye(3, dtype=np.float32)[DRAW.integers(3, size=count)]
    guess = DRAW.dirichlet(np.ones(3), 30).astype(np.float32)

    def features(some):
        spread = propagate(graph.means, some, train)
        folds = propagate_folds(graph.means, some, train, 0, spread)
        # If there is only one label, its mean is propagated to all nodes.
        around = label_features(graph, some, train, guess, Scratch())
        return np.hstack([*around, folds[:, : 3 * (count > 1)]])

    before = features(labels)
    for row in range(count):
        changed = labels.copy()
        changed[row] = np.roll(changed[row], 1)
        after = features(changed)
        np.testing.assert_allclose(after[train[row]], before[train[row]], atol=1e-6)
        assert (after != before).any()


def test_walk_features_equal_the_squared_normalised_adjacency_with_a_zero_diagonal():
    means, train = _neighbours().means, np.array([5, 0, 17])
    adjacent = (means.toarray() > 0) + np.eye(30)
    root = np.diag(adjacent.sum(1) ** -0.5)
    expected = np.linalg.matrix_power(root @ adjacent @ root, 2)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(walks(means, train).toarray(), expected[:, train], atol=1e-6)


def test_random_walk_component_is_fitted_again_for_other_training_nodes():
    graph, x = _neighbours(), torch.from_numpy(DRAW.normal(size=(30, 2)))
    to = Targets(np.arange(30) % 2.0, np.arange(20), np.arange(25, 30), 2, True)
    first, _ = Components.fit(x, graph, to, epochs=0)
    more = {"like": first, "reuse": first.models.keys(), "epochs": 0}
    model, predicted = Components.fit(x, graph, replace(to, train=np.arange(25)), **more)
    again = model.predict(x, graph, with_labels=True)["walks"]
    np.testing.assert_array_equal(again, predicted["walks"])
    less = model.with_train(np.where(np.arange(25) == 3, -1, np.arange(25)))
    weight = np.delete(model.models["walks"].weight, 3, 0)
    np.testing.assert_array_equal(less.models["walks"].weight, weight)
    assert less.predict(x, graph, with_labels=True)["walks"].shape == (30, 2)


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_predictions_of_the_linear_component_equal_those_of_scikit_learn(classes):
    x = DRAW.normal(size=(200, 6))
    score = x @ DRAW.normal(size=(6, max(classes, 2)))
    score += 2 * DRAW.normal(size=score.shape)
    y = score.argmax(1).astype(float) if classes > 1 else score[:, 0]
    train, val, is_class = np.arange(150), np.arange(150, 200), classes > 1
    whole = [sp.csr_matrix(x)]
    to = Targets(y, train, val, classes, is_class)
    model = Linear.fit(whole, to)
    scaled = model.scaler.join(whole)
    if is_class:
        reference = LogisticRegression(C=model.penalty, max_iter=1000, tol=1e-8)
        expected = reference.fit(scaled[train], y[train]).predict_proba(scaled)
        np.testing.assert_allclose(model.predict(whole), expected, atol=0.02)
        one_class = Linear.fit(whole, replace(to, y=0 * y, outputs=3))
        assert one_class.predict([x[:1]]).tolist() == [[1, 0, 0]]
    else:
        reference = Ridge(alpha=150**0.5 / model.penalty).fit(scaled[train], y[train])
        expected = reference.predict(scaled)
        np.testing.assert_allclose(model.predict(whole)[:, 0], expected, atol=1e-3)
    loaded = Linear.from_state(model.state_dict(), is_class=is_class)
    np.testing.assert_array_equal(loaded.predict(whole), model.predict(whole))


def test_perceptron_component_learns_a_nonlinear_function():
    x = DRAW.normal(size=(4000, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(float)
    model = Perceptron.fit([x], Targets(y, np.arange(3000), np.arange(0), 2, True))
    assert (model.predict([x])[3000:].argmax(1) == y[3000:]).mean() > 0.9


@pytest.mark.parametrize("many", [50, 2000])
def test_stack_predictions_are_equal_for_two_threads_and_after_loading(tmp_path, many, monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.components.MANY", many)
    tables = class_network()
    before = torch.get_num_threads()
    try:
        models = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            models.append(NodeClassifier(**SMALL).fit(tables))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    predicted = models[0].predict_proba()
    np.testing.assert_array_equal(models[1].predict_proba(), predicted)
    models[0].save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.safetensors"]
    loaded = NodeClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(tables), predicted)
    assert loaded.predictor_.weights == models[0].predictor_.weights
    assert not loaded.history_


def test_stack_predicts_another_graph_without_labels_of_neighbours(model):
    edges, nodes = class_network(nodes=240, homophily=0.95, seed=1)
    # The nodes of both networks have the same names.
    with pytest.warns(UserWarning, match="not that of the training"):
        other = model.read((edges, nodes[["id", "x0", "label"]]))
    parts = model.predictor_.component_predictions(other)
    assert set(parts) == {"constant", "columns", "neighbours", "consistent", "gat"}
    guess = model.classes_[model.predictor_.predict(other).argmax(1)]
    majority = nodes["label"].value_counts(normalize=True).max()
    assert (guess == nodes["label"]).mean() > majority + 0.1


def test_stack_predictions_do_not_depend_on_the_order_of_nodes_and_edges(model, network):
    edges, nodes, _ = network
    order = DRAW.permutation(240)
    shuffled = edges.sample(frac=1, random_state=0), nodes.iloc[order]
    again = model.predict_proba(shuffled)
    np.testing.assert_allclose(again, model.predict_proba()[order], rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*training nodes are not in the network")
@pytest.mark.parametrize("change", ["an edge less", "more nodes", "half", "other names"])
def test_changed_graph_is_predicted_with_labels_of_its_training_nodes(model, network, change):
    edges, nodes, truth = network
    more = pd.concat([nodes, pd.DataFrame({"id": ["m0", "m1"], "x0": [0.1, 1.2]})])
    links = pd.DataFrame({"source": ["m0", "m1"], "target": ["n3", "n4"]})
    names = {f"n{i}": f"other{i}" for i in range(20)}
    half = edges.isin([f"n{i}" for i in range(120)]).all(axis=1)
    changed = {
        "an edge less": (edges.iloc[1:], nodes),
        "more nodes": (pd.concat([edges, links]), more),
        "half": (edges[half], nodes.iloc[:120]),
        "other names": (edges.replace(names), nodes.replace({"id": names})),
    }[change]
    rest = nodes["label"].isna().to_numpy().nonzero()[0]
    before = (model.predict() == truth)[rest].mean()
    assert before > 0.8
    assert "labels" in model.predictor_.component_predictions(model.read(changed))
    rest = rest[rest < len(changed[1])]
    assert (model.predict(changed)[rest] == truth[rest]).mean() > before - 0.1
    assert model.predict_set(changed).any(axis=1).mean() > 0.95


def test_stack_training_does_not_depend_on_the_order_of_rows():
    edges, nodes = class_network(nodes=120, homophily=0.8)
    shuffled = edges.sample(frac=1, random_state=1), nodes.sample(frac=1, random_state=2)
    tables, parts = [], []
    for rows in ((edges, nodes), shuffled):
        one = NodeClassifier(**SMALL, features=["x0", "x1"]).fit(rows)
        names = one.graph_.names
        tables.append(pd.DataFrame(one.predict_proba(), index=names))
        parts.append({names[i] for i in one.split_.val.tolist()})
    np.testing.assert_allclose(tables[1].loc[tables[0].index], tables[0], rtol=1e-4, atol=1e-5)
    assert parts[0] == parts[1]


def test_refitted_stack_calibrates_sets_by_leave_out_predictions(monkeypatch):
    parts, fit = [], Components.fit

    def record(x, neighbours, to, **options):
        result = fit(x, neighbours, to, **options)
        parts.append((to.train, to.val, result[1]))
        return result

    monkeypatch.setattr(Components, "fit", record)
    tables = class_network(nodes=200, homophily=0.7)
    after = NodeClassifier(**SMALL).fit(tables).predictor_
    (train, val, _), *folds, (final, *_) = parts
    left_out = [np.setdiff1d(val, some) for some, *_ in folds]
    assert np.array_equal(np.sort(np.concatenate(left_out)), np.sort(val))
    for nodes, (some, _, predictions) in zip(left_out, folds):
        assert np.isin(train, some).all()
        for name, part in predictions.items():
            reported = after.validation_parts[name][np.searchsorted(val, nodes)]
            np.testing.assert_array_equal(reported, part[nodes])
    assert len(final) == len(train) + len(val)
    before = NodeClassifier(**SMALL, refit=False).fit(tables).predictor_
    assert after.weights == before.weights
    assert (after.is_refit, before.is_refit) == (True, False)


def test_stack_is_not_refitted_if_the_data_have_a_validation_mask(monkeypatch):
    fit = Mock(wraps=Components.fit)
    monkeypatch.setattr(Components, "fit", fit)
    edges, nodes = class_network(nodes=200)
    masks = {"train_mask": np.arange(200) < 100, "val_mask": np.arange(200) >= 150}
    NodeClassifier(**SMALL).fit((edges, nodes.assign(**masks)))
    fit.assert_called_once()


@pytest.mark.filterwarnings("ignore:The network is not that of the training")
def test_stack_predicts_networks_with_one_or_both_directions_of_each_edge_or_no_edge():
    edges, nodes = class_network(nodes=60)
    opposite = edges.rename(columns={"source": "target", "target": "source"})
    both = pd.concat([edges, opposite])
    for training in (edges, both):
        model = NodeClassifier(label="label", epochs=2).fit((training, nodes))
        expected = model.predict_proba((training, nodes))
        for other in (edges, both):
            # Both networks have the same undirected edges, but other blocks of directions.
            assert np.isfinite(model.predict_proba((other, nodes))).all()
        assert np.array_equal(model.predict_proba((training, nodes)), expected)
        assert model.predict_proba((edges.iloc[:0], nodes)).shape == expected.shape


def test_weights_fitted_to_a_single_node_are_equal():
    predictions = [np.array([[0.5]]), np.array([[0.6]])]
    weights = fit_weights(predictions, np.zeros(1), is_class=False)
    np.testing.assert_allclose(weights, [0.5, 0.5], atol=0.05)
