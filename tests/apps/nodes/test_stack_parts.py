"""Parts of a stacked model: trees, choice of weights, and the final fit."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.stack.components import Components
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.stack.propagation import Neighbours
from gattn.apps.nodes.stack.trees import Trees
from gattn.apps.nodes.stack.weights import choose_weights
from tests.apps.nodes.networks import class_network, probabilities

DRAW = np.random.default_rng(0)
EPOCHS = 5


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order_of_tests() -> None:
    DRAW.bit_generator.state = np.random.default_rng(0).bit_generator.state


def _stack(model):
    assert isinstance(model.predictor_, StackedPredictor)
    return model.predictor_


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_trees_predict_like_the_model_of_scikit_learn(classes, monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.trees.ROUNDS", 8)
    x = DRAW.normal(size=(400, 4)).astype(np.float32)
    score = x[:, :1] * x[:, 1:2] + 0.3 * DRAW.normal(size=(400, 1))
    y = np.digitize(score[:, 0], [-0.3, 0.3][: classes - 1]).astype(float)
    y = y if classes > 1 else score[:, 0]
    train, is_class = np.arange(300), classes > 1
    trees = Trees.fit(x, y, train, classes, 0, is_class=is_class)
    kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    options = {"max_iter": 8, "learning_rate": 0.08, "l2_regularization": 1.0}
    options |= {"max_bins": 31, "max_leaf_nodes": 15} if classes > 2 else {"max_leaf_nodes": 31}
    with threadpool_limits(1, "openmp"):
        model = kind(**options, random_state=0, early_stopping=True).fit(x[train], y[train])
    expected = model.predict_proba(x) if is_class else model.predict(x)[:, None]
    np.testing.assert_allclose(trees.predict(x), expected, rtol=1e-6, atol=1e-9)
    restored = Trees.from_arrays(trees.arrays(), classes)
    np.testing.assert_array_equal(restored.predict(x), trees.predict(x))


def test_trees_predict_the_only_class_and_no_absent_class(monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.trees.ROUNDS", 8)
    x = DRAW.normal(size=(320, 2)).astype(np.float32)
    one = Trees.fit(x, np.ones(320), np.arange(320), 3, 0, is_class=True)
    assert one.predict(x[:2]).tolist() == [[0, 1, 0]] * 2
    y = np.where(x[:, 0] > 0, 2.0, 0.0)
    two = Trees.fit(x, y, np.arange(320), 3, 0, is_class=True).predict(x)
    assert (two.argmax(1) == y).all()
    assert (two[:, 1] == 0).all()


@pytest.mark.parametrize("is_class", [True, False])
def test_a_combination_that_is_clearly_worse_is_replaced_by_its_best_model(is_class, monkeypatch):
    y = DRAW.integers(4, size=400)
    good, bad = (probabilities(y, strength, DRAW) for strength in (4, 0))
    if not is_class:
        good, bad = y[:, None] + 0.1 * DRAW.normal(size=(400, 1)), DRAW.normal(size=(400, 1))
    monkeypatch.setattr(
        "gattn.apps.nodes.stack.weights.fit_weights",
        lambda models, y, is_class: np.array([1.0, 4.0]),
    )
    weights, combined = choose_weights([good, bad], y, 0, is_class=is_class)
    assert weights[0] > 0
    assert weights[1] == 0
    scores = (combined.argmax(1) == y) if is_class else combined[:, 0] - good[:, 0]
    assert scores.mean() > 0.8 if is_class else not scores.any()


def test_a_combination_is_kept_if_it_is_as_good_as_its_best_model():
    y = DRAW.integers(4, size=400)
    models = [probabilities(y, 2, DRAW) for _ in range(2)]
    weights, _ = choose_weights(models, y, 0, is_class=True)
    assert (weights > 0).all()


def test_sets_of_a_refit_come_from_fits_that_left_the_node_out(monkeypatch):
    parts, fit = [], Components.fit

    def record(x, neighbours, y, train, val, *rest, **options):
        parts.append((train, val))
        return fit(x, neighbours, y, train, val, *rest, **options)

    monkeypatch.setattr(Components, "fit", record)
    edges, nodes = class_network(nodes=200, homophily=0.7)
    NodeClassifier(label="label", epochs=EPOCHS, width=8, heads=2).fit((edges, nodes))
    (train, val), *folds, (final, _) = parts
    left_out = [np.setdiff1d(val, some) for some, _ in folds]
    assert np.array_equal(np.sort(np.concatenate(left_out)), np.sort(val))
    assert all(np.isin(train, some).all() for some, _ in folds)
    assert len(final) == len(train) + len(val)


def test_a_drawn_validation_part_is_fitted_too_and_does_not_change_the_weights():
    edges, nodes = class_network(nodes=400, homophily=0.7)
    options = {"label": "label", "epochs": EPOCHS, "width": 8, "heads": 2}
    models = [NodeClassifier(**options, refit=refit).fit((edges, nodes)) for refit in (False, True)]
    before, after = map(_stack, models)
    assert after.weights == before.weights
    for name, part in before.validation_parts.items():
        np.testing.assert_array_equal(after.validation_parts[name], part)
    both = torch.cat([models[1].split_.train, models[1].split_.val])
    assert len(before._training.names) < len(after._training.names) == len(both)
    masks = {name: [False] * 400 for name in ("train_mask", "val_mask")}
    masks["train_mask"][:200], masks["val_mask"][200:300] = [True] * 200, [True] * 100
    masked = NodeClassifier(**options).fit((edges, nodes.assign(**masks)))
    assert len(_stack(masked)._training.names) == 200


def _fit_components(train, **options):
    edges, nodes = class_network(nodes=400, homophily=0.7)
    model = NodeClassifier(label="label", epochs=1, width=8, heads=2, refit=False)
    y = model.fit((edges, nodes)).y_.numpy()
    graph = model.graph_
    x, val = model.predictor_.encoder.features(graph), np.arange(320, 400)
    arguments = x, Neighbours.of(graph), y, train, val, len(model.classes_), 0
    return Components.fit(*arguments, is_class=True, epochs=3, **options)


def test_models_without_a_weight_are_not_fitted_again(monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.trees.ROUNDS", 3)
    monkeypatch.setattr("gattn.apps.nodes.stack.components.HOPELESS", np.inf)
    first, predictions = _fit_components(np.arange(310))
    assert first.trees is not None
    reuse = {name: predictions[name] for name in ("columns", "labels", "trees", "consistent")}
    again, others = _fit_components(np.arange(400), like=first, reuse=reuse)
    assert again.trees is first.trees
    assert again.consistent is first.consistent
    assert again.linear["columns"] is first.linear["columns"]
    assert again.linear["neighbours"] is not first.linear["neighbours"]
    for name in ("columns", "trees", "consistent"):
        np.testing.assert_array_equal(others[name], predictions[name])
    assert len(again.train) == 400
    assert (others["neighbours"] != predictions["neighbours"]).any()


def test_trees_are_not_fitted_if_they_could_not_help(monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.trees.ROUNDS", 3)
    for multiple, errors, is_fitted in ((np.inf, -1, True), (0, -1, False), (np.inf, 1, False)):
        monkeypatch.setattr("gattn.apps.nodes.stack.components.HOPELESS", multiple)
        monkeypatch.setattr("gattn.apps.nodes.stack.components.FEW_ERRORS", errors)
        components, predictions = _fit_components(np.arange(310))
        assert (components.trees is not None) == ("trees" in predictions) == is_fitted


def test_the_network_of_a_large_graph_is_stopped_if_it_is_far_behind(monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.residual.MAX_PRODUCTS", 1.0)
    edges, nodes = class_network(nodes=200)
    monkeypatch.setattr("gattn.apps.nodes.stack.predictor.MAX_PRODUCTS", 1.0)
    monkeypatch.setattr("gattn.apps.nodes.stack.predictor.HOPELESS", 0.0)
    model = NodeClassifier(label="label", epochs=50, width=8, heads=2).fit((edges, nodes))
    assert len(model.history_[0].records) == 8  # 0.4 of the 20 epochs on a large graph
    assert _stack(model).stopped
    monkeypatch.setattr("gattn.apps.nodes.stack.predictor.HOPELESS", 1e9)
    model = NodeClassifier(label="label", epochs=50, width=8, heads=2).fit((edges, nodes))
    assert len(model.history_[0].records) == 20
    assert not _stack(model).stopped


@pytest.mark.parametrize("label", ["label", "number"])
def test_a_training_does_not_depend_on_the_order_of_the_rows(label):
    edges, nodes = class_network(nodes=120, homophily=0.8)
    nodes = nodes.assign(number=nodes["x0"] + DRAW.normal(size=120))
    kind = NodeClassifier if label == "label" else NodeRegressor
    features = ["x0", "x1"]
    shuffled = edges.sample(frac=1, random_state=1), nodes.sample(frac=1, random_state=2)
    models = [
        kind(label=label, features=features, epochs=EPOCHS, width=8, heads=2).fit(tables)
        for tables in ((edges, nodes), shuffled)
    ]
    tables = [
        pd.DataFrame(np.reshape(_values(model), (120, -1)), index=model.graph_.names)
        for model in models
    ]
    np.testing.assert_allclose(tables[1].loc[tables[0].index], tables[0], rtol=1e-4, atol=1e-5)
    parts = [{model.graph_.names[i] for i in model.split_.val.tolist()} for model in models]
    assert parts[0] == parts[1]


def _values(model):
    return model.predict_proba() if isinstance(model, NodeClassifier) else model.predict()
