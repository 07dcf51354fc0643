"""Stacked models of nodes: their components, labels of neighbours, weights, saving."""

import csv

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.runs.at_once import predict_at_once
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.scratch import Scratch
from gattn.apps.nodes.stack.components import Components
from gattn.apps.nodes.stack.linear import Linear, Scaler, leave_one_out
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.nodes.stack.propagation import (
    Neighbours,
    label_features,
    propagate,
    propagate_folds,
)
from gattn.apps.nodes.stack.weights import (
    choose_weights,
    cross_fit,
    fit_weights,
    temperature,
)
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


@pytest.mark.parametrize(("rows", "features"), [(12, 20), (40, 5)])
def test_left_out_predictions_are_those_of_fits_without_the_row(rows, features):
    x, y = DRAW.normal(size=(rows, features)), DRAW.normal(size=(rows, 2))
    weight, fitted, left_out, penalty = leave_one_out(x, y)
    whole = Ridge(alpha=penalty, fit_intercept=False).fit(x, y)
    np.testing.assert_allclose(weight, whole.coef_.T, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted, x @ whole.coef_.T, rtol=1e-6, atol=1e-9)
    for row in range(rows):
        others = np.arange(rows) != row
        refit = Ridge(alpha=penalty, fit_intercept=False).fit(x[others], y[others])
        np.testing.assert_allclose(left_out[row], refit.predict(x[[row]])[0], rtol=1e-6, atol=1e-8)


def test_means_over_neighbours_are_those_of_a_loop():
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


def test_propagated_labels_stay_in_their_component():
    edges = torch.tensor([[0, 2], [1, 3]])
    labels = np.array([[1.0, 0.0], [0.0, 1.0]])
    spread = propagate(Neighbours(edges, 5).means, labels, np.array([0, 2]))
    np.testing.assert_allclose(
        spread[:, :2], [[1, 0], [1, 0], [0, 1], [0, 1], [0.5, 0.5]], atol=1e-6
    )
    assert spread[4, 2] == 0


def test_spread_probabilities_are_at_most_1():
    size = 300
    edges = torch.from_numpy(DRAW.integers(size, size=(2, 4000)))
    means = Neighbours(edges, size).means
    train, labels = np.arange(0, size, 3), np.zeros((100, 2))
    labels[:, 0] = 1.0
    spread = propagate(means, labels, train)[:, :2]
    assert spread.min() >= 0
    assert spread.max() <= 1


def test_weights_prefer_the_better_model_and_stay_equal_without_labels():
    y = DRAW.integers(3, size=500)
    good = 0.8 * np.eye(3)[y] + 0.2 / 3
    bad = np.full((500, 3), 1 / 3)
    good_weight, bad_weight = fit_weights([good, bad], y, is_class=True)
    assert good_weight > 3 * bad_weight
    none = fit_weights([good[:0], bad[:0]], y[:0], is_class=True)
    assert none.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("is_class", [True, False])
def test_one_good_model_among_noise_gets_nearly_all_the_weight(is_class):
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


def test_weights_do_not_depend_on_the_sharpness_of_a_model():
    draw = np.random.default_rng(2)
    y = draw.integers(4, size=300)
    good, other = probabilities(y, 3, draw), probabilities(y, 1, draw)
    flat = good**0.5 / (good**0.5).sum(1, keepdims=True)
    weights = fit_weights([good, other], y, is_class=True)
    flat_weights = fit_weights([flat, other], y, is_class=True)
    np.testing.assert_allclose(flat_weights, weights * [2, 1], rtol=0.02)


def test_cross_fitted_predictions_do_not_depend_on_the_label_of_their_fold():
    y = DRAW.normal(size=10)
    models = [DRAW.normal(size=(10, 1)) for _ in range(3)]
    before = cross_fit(models, y, 0, is_class=False)
    changed = y.copy()
    changed[4] += 5
    assert cross_fit(models, changed, 0, is_class=False)[4] == pytest.approx(before[4])


def test_the_temperature_is_larger_for_scores_that_are_right():
    y = np.arange(60) % 3
    assert temperature(np.eye(3)[y], y) > temperature(np.eye(3)[(y + 1) % 3], y)


def test_scaled_blocks_have_rows_of_norm_one_and_zeros_stay_zeros():
    blocks = [5 * np.ones((4, 2)), sp.csr_matrix((4, 3))]
    joined = Scaler.fit(blocks).join(blocks).toarray()
    np.testing.assert_allclose(np.square(joined).sum(1), 1, rtol=1e-6)


def test_numbers_are_predicted_better_than_by_their_mean():
    edges, nodes = class_network(nodes=300)
    kind = nodes.pop("label").str[-1].astype(float)
    nodes["label"] = 1000 + 50 * kind + DRAW.normal(size=300)
    nodes.loc[200:, "label"] = np.nan
    truth = 1000 + 50 * kind[200:]
    model = NodeRegressor(**SMALL).fit((edges, nodes))
    error = np.square(model.predict()[200:] - truth).mean()
    assert error < 0.6 * np.square(truth - truth.mean()).mean()


@pytest.mark.parametrize("count", [1, 2, 12])
def test_features_of_a_node_do_not_depend_on_its_own_label(count):
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


@pytest.mark.parametrize("is_class", [True, False])
def test_a_combination_that_is_clearly_worse_is_replaced_by_its_best_model(is_class, monkeypatch):
    y = DRAW.integers(4, size=400)
    good, bad = (probabilities(y, strength, DRAW) for strength in (4, 0))
    if not is_class:
        good, bad = y[:, None] + 0.1 * DRAW.normal(size=(400, 1)), DRAW.normal(size=(400, 1))
    weights, _ = choose_weights([good, good], y, 0, is_class=is_class)
    assert (weights > 0).all()
    monkeypatch.setattr(
        "gattn.apps.nodes.stack.weights.fit_weights",
        lambda models, y, is_class: np.array([1.0, 4.0]),
    )
    weights, combined = choose_weights([good, bad], y, 0, is_class=is_class)
    assert weights[0] > 0
    assert weights[1] == 0
    scores = (combined.argmax(1) == y) if is_class else combined[:, 0] - good[:, 0]
    assert scores.mean() > 0.8 if is_class else not scores.any()


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_linear_models_with_the_chosen_penalty_equal_those_of_scikit_learn(classes):
    x = DRAW.normal(size=(200, 6))
    score = x @ DRAW.normal(size=(6, max(classes, 2)))
    score += 2 * DRAW.normal(size=score.shape)
    y = score.argmax(1).astype(float) if classes > 1 else score[:, 0]
    train, val, is_class = np.arange(150), np.arange(150, 200), classes > 1
    whole = [sp.csr_matrix(x)]
    model = Linear.fit(whole, y, train, val, classes, 0, is_class=is_class)
    scaled = model.scaler.join(whole)
    if is_class:
        reference = LogisticRegression(C=model.penalty, max_iter=1000, tol=1e-8)
        expected = reference.fit(scaled[train], y[train]).predict_proba(scaled)
        np.testing.assert_allclose(model.predict(whole), expected, atol=0.02)
        one_class = Linear.fit(whole, 0 * y, train, val, 3, 0, is_class=True)
        assert one_class.predict([x[:1]]).tolist() == [[1, 0, 0]]
    else:
        reference = Ridge(alpha=150**0.5 / model.penalty).fit(scaled[train], y[train])
        expected = reference.predict(scaled)
        np.testing.assert_allclose(model.predict(whole)[:, 0], expected, atol=1e-3)
    loaded = Linear.from_state(model.state_dict(), is_class=is_class)
    np.testing.assert_array_equal(loaded.predict(whole), model.predict(whole))


def test_a_perceptron_learns_a_function_that_is_not_linear():
    x = DRAW.normal(size=(4000, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(float)
    model = Perceptron.fit([x], y, np.arange(3000), 2, 0, is_class=True)
    assert (model.predict([x])[3000:].argmax(1) == y[3000:]).mean() > 0.9


def test_a_perceptron_reads_sparse_features_as_dense_ones():
    words = sp.csr_matrix(
        DRAW.random((500, 300)) * (DRAW.random((500, 300)) < 0.02), dtype=np.float32
    )
    numbers = DRAW.normal(size=(500, 2)).astype(np.float32)
    y = (words @ DRAW.normal(size=300) > 0).astype(float)
    model = Perceptron.fit([words, numbers], y, np.arange(400), 2, 0, is_class=True)
    expected = model.state_dict()
    hidden = (torch.from_numpy(numbers) - expected["center"]) / expected["scale"]
    hidden = model.hidden(hidden.clamp(-10, 10))
    hidden = hidden + model.factors.float() * torch.from_numpy(words.toarray()) @ model.table
    logits = model.out(model.norm(hidden).relu())
    predicted = model.predict([words, numbers])
    np.testing.assert_allclose(predicted, logits.softmax(1).detach().numpy(), rtol=1e-4, atol=1e-6)
    loaded = Perceptron.from_state(expected, is_class=True)
    np.testing.assert_array_equal(loaded.predict([words, numbers]), predicted)


@pytest.mark.parametrize("many", [50, 2000])
def test_a_stack_is_the_same_in_two_threads_and_after_loading(tmp_path, many, monkeypatch):
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


def test_another_graph_is_predicted_without_labels_of_neighbours(model):
    edges, nodes = class_network(nodes=240, homophily=0.95, seed=1)
    # The nodes of both networks have the same names.
    with pytest.warns(UserWarning, match="not that of the training"):
        other = model.read((edges, nodes[["id", "x0", "label"]]))
    parts = model.predictor_.component_predictions(other)
    assert set(parts) == {"constant", "columns", "neighbours", "consistent", "gat"}
    guess = model.classes_[model.predictor_.predict(other).argmax(1)]
    majority = nodes["label"].value_counts(normalize=True).max()
    assert (guess == nodes["label"]).mean() > majority + 0.1


def test_a_graph_without_columns_is_stacked(network):
    edges, nodes, truth = network
    guess = NodeClassifier(**SMALL).fit((edges, nodes[["id", "label"]])).predict()
    assert (guess == truth)[nodes["label"].isna()].mean() > 0.6


def test_the_order_of_predicted_nodes_and_edges_does_not_matter(model, network):
    edges, nodes, _ = network
    order = DRAW.permutation(240)
    shuffled = edges.sample(frac=1, random_state=0), nodes.iloc[order]
    np.testing.assert_allclose(
        model.predict_proba(shuffled), model.predict_proba()[order], rtol=1e-4, atol=1e-6
    )


@pytest.mark.filterwarnings("ignore:.*training nodes are not in the network")
@pytest.mark.parametrize("change", ["an edge less", "more nodes", "half", "other names"])
def test_a_changed_network_is_predicted_with_the_labels_of_its_training_nodes(
    model, network, change
):
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


@pytest.mark.parametrize("label", ["label", "number"])
def test_a_training_does_not_depend_on_the_order_of_the_rows(label):
    edges, nodes = class_network(nodes=120, homophily=0.8)
    nodes = nodes.assign(number=nodes["x0"] + DRAW.normal(size=120))
    kind = NodeClassifier if label == "label" else NodeRegressor
    options = {**SMALL, "label": label, "features": ["x0", "x1"]}
    shuffled = edges.sample(frac=1, random_state=1), nodes.sample(frac=1, random_state=2)
    models = [kind(**options).fit(tables) for tables in ((edges, nodes), shuffled)]
    tables, parts = [], []
    for one in models:
        values = one.predict_proba() if label == "label" else one.predict()
        names = one.graph_.names
        tables.append(pd.DataFrame(np.reshape(values, (120, -1)), index=names))
        parts.append({names[i] for i in one.split_.val.tolist()})
    np.testing.assert_allclose(tables[1].loc[tables[0].index], tables[0], rtol=1e-4, atol=1e-5)
    assert parts[0] == parts[1]


def test_sets_of_a_refit_come_from_fits_that_left_the_node_out(monkeypatch):
    parts, fit = [], Components.fit

    def record(x, neighbours, y, train, **options):
        parts.append((train, options["val"]))
        return fit(x, neighbours, y, train, **options)

    monkeypatch.setattr(Components, "fit", record)
    tables = class_network(nodes=200, homophily=0.7)
    after = NodeClassifier(**SMALL).fit(tables).predictor_
    (train, val), *folds, (final, _) = parts
    left_out = [np.setdiff1d(val, some) for some, _ in folds]
    assert np.array_equal(np.sort(np.concatenate(left_out)), np.sort(val))
    assert all(np.isin(train, some).all() for some, _ in folds)
    assert len(final) == len(train) + len(val)
    before = NodeClassifier(**SMALL, refit=False).fit(tables).predictor_
    assert after.weights == before.weights
    for name, part in before.validation_parts.items():
        np.testing.assert_array_equal(after.validation_parts[name], part)


def test_a_validation_part_of_the_data_is_not_fitted_again(monkeypatch):
    counts, fit = [], Components.fit
    monkeypatch.setattr(
        Components, "fit", lambda *args, **options: counts.append(1) or fit(*args, **options)
    )
    edges, nodes = class_network(nodes=200)
    masks = {"train_mask": np.arange(200) < 100, "val_mask": np.arange(200) >= 150}
    NodeClassifier(**SMALL).fit((edges, nodes.assign(**masks)))
    assert len(counts) == 1


def test_models_without_a_weight_are_not_fitted_again():
    edges, nodes = class_network(nodes=400, homophily=0.7)
    model = NodeClassifier(**{**SMALL, "epochs": 1}, refit=False).fit((edges, nodes))
    x = model.predictor_.encoder.features(model.graph_)
    arguments = x, Neighbours.of(model.graph_), model.y_.numpy()
    options = {"val": np.arange(320, 400), "outputs": 3, "seed": 0, "is_class": True, "epochs": 3}
    first, predictions = Components.fit(*arguments, np.arange(310), **options)
    reuse = {"columns", "labels", "consistent"}
    again, others = Components.fit(*arguments, np.arange(400), **options, like=first, reuse=reuse)
    assert again.consistent is first.consistent
    assert again.models["columns"] is first.models["columns"]
    assert again.models["neighbours"] is not first.models["neighbours"]
    for name in ("columns", "consistent"):
        np.testing.assert_array_equal(others[name], predictions[name])
    assert len(again.train) == 400
    assert (others["neighbours"] != predictions["neighbours"]).any()


def _at_once(folder, edges, nodes, **options):
    """Predict without training; return the log and the rows."""
    edges.to_csv(folder / "edges.csv", index=False)
    nodes.to_csv(folder / "nodes.csv", index=False)
    paths, lines = (str(folder / "edges.csv"), str(folder / "nodes.csv")), []
    settings = NodeRunSettings(paths[0], nodes=paths[1], label="label", **options)
    assert predict_at_once(settings, folder / "out.csv", lines.append) == len(nodes)
    with (folder / "out.csv").open(newline="") as file:
        return "\n".join(lines), list(csv.DictReader(file))


def test_prediction_without_training_beats_a_constant_and_says_so(tmp_path, network):
    edges, nodes, truth = network
    text, rows = _at_once(tmp_path, edges, nodes)
    rest = nodes["label"].isna().to_numpy()
    guess = np.array([row["prediction"] for row in rows])
    assert (guess == truth)[rest].mean() > 0.8
    assert "each node predicted without its label: accuracy" in text
    assert "not significantly" not in text
    probability = [float(rows[0][f"probability_kind {kind}"]) for kind in range(3)]
    assert sum(probability) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("split", ["auto", "random"])
def test_prediction_without_training_reports_noise(tmp_path, split):
    edges, nodes = class_network()
    nodes["label"] = np.random.default_rng(0).permutation(nodes["label"])
    text, _ = _at_once(tmp_path, edges, nodes, split=split)
    some = "leave-one-out predictions" if split == "auto" else "predictions of the test part"
    assert f"The {some} are not significantly better than a constant" in text
    assert ("test part" in text) == (split == "random")


def test_prediction_without_training_explains_undefined_metrics(tmp_path):
    edges, nodes = class_network(nodes=60)
    nodes["part"] = ["train", "val", "test"] * 20
    nodes.loc[nodes["part"] == "test", "label"] = "kind 0"
    text, _ = _at_once(tmp_path, edges, nodes, split="column:part")
    assert "roc_auc -, pr_auc -" in text
    assert "nan" not in text
    assert "roc_auc: undefined" in text


def test_prediction_without_training_needs_two_labels(tmp_path):
    edges, nodes = class_network(nodes=10)
    nodes.loc[1:, "label"] = None
    with pytest.raises(GraphError, match="at least"):
        _at_once(tmp_path, edges, nodes)
    assert not (tmp_path / "out.csv").exists()
