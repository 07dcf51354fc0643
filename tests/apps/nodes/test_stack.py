"""Stacked models of nodes: closed forms, labels of neighbours, weights, saving."""

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
from gattn.apps.nodes.stack.linear import Scaler, fit_linear, leave_one_out
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.stack.propagation import Neighbours, label_features, propagate
from gattn.apps.nodes.stack.weights import cross_fit, fit_weights, pool, temperature
from tests.apps.nodes.networks import class_network, probabilities

DRAW = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order_of_tests() -> None:
    DRAW.bit_generator.state = np.random.default_rng(0).bit_generator.state


EPOCHS = 5


def _stack(model):
    assert isinstance(model.predictor_, StackedPredictor)
    return model.predictor_


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


def test_left_out_predictions_of_sparse_rows_equal_those_of_dense_rows():
    x = DRAW.normal(size=(15, 6)) * (DRAW.random((15, 6)) < 0.5)
    for a, b in zip(leave_one_out(x, x[:, :2]), leave_one_out(sp.csr_matrix(x), x[:, :2])):
        np.testing.assert_allclose(a, b, atol=1e-9)


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


@pytest.mark.parametrize("count", [1, 2, 12])
def test_features_of_a_node_do_not_depend_on_its_own_label(count):
    graph, train = _neighbours(), DRAW.permutation(30)[:count]
    labels = np.eye(3, dtype=np.float32)[DRAW.integers(3, size=count)]
    guess = DRAW.dirichlet(np.ones(3), 30)
    before = np.hstack(label_features(graph, labels, train, guess, 0))
    for row in range(count):
        changed = labels.copy()
        changed[row] = np.roll(changed[row], 1)
        after = np.hstack(label_features(graph, changed, train, guess, 0))
        # If there is only one label, the last four columns contain the mean of all labels, which is
        # this label.
        columns = slice(None) if count > 1 else slice(-4)
        np.testing.assert_allclose(
            after[train[row], columns], before[train[row], columns], atol=1e-6
        )


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


def test_the_stack_is_no_worse_than_its_best_model_on_the_rows_that_chose_it():
    y = DRAW.integers(4, size=800)
    models = [DRAW.dirichlet(np.ones(4), 800) + s * np.eye(4)[y] for s in (0.2, 1.0, 0.5)]
    models = [p / p.sum(1, keepdims=True) for p in models]
    weights = fit_weights(models, y, is_class=True)

    def loss(p):
        return -np.log(p[np.arange(800), y]).mean()

    assert loss(pool(models, weights, is_class=True)) <= min(map(loss, models)) + 0.02
    numbers = DRAW.normal(size=300)
    parts = [(numbers + s * DRAW.normal(size=300))[:, None] for s in (0.3, 1.0, 3.0)]
    weights = fit_weights(parts, numbers, is_class=False)
    assert weights.sum() == pytest.approx(1)
    error = np.square(pool(parts, weights, is_class=False)[:, 0] - numbers).mean()
    assert error <= np.square(parts[0][:, 0] - numbers).mean() + 1e-2


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


@pytest.mark.parametrize("is_class", [True, False])
def test_equally_good_models_share_the_weight(is_class):
    draw = np.random.default_rng(1)
    y = draw.integers(4, size=150).astype(float)
    if is_class:
        models = [probabilities(y.astype(int), 2, draw) for _ in range(4)]
    else:
        models = [y[:, None] + draw.normal(size=(150, 1)) for _ in range(4)]
    weights = fit_weights(models, y, is_class=is_class)
    assert weights.min() > 0.4 * weights.mean()
    same = fit_weights([models[0]] * 3, y, is_class=is_class)
    np.testing.assert_allclose(same, same[0], rtol=1e-3)


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


def test_linear_models_equal_those_of_scikit_learn():
    x = sp.csr_matrix(DRAW.normal(size=(90, 4)))
    y = (x.toarray() @ [1, -1, 0.5, 0] > 0).astype(float)
    train, val = np.arange(60), np.arange(60, 90)
    model = fit_linear(x, y, train, val, 2, is_class=True)
    reference = LogisticRegression(C=model.penalty, max_iter=1000, tol=1e-8).fit(x[train], y[train])
    np.testing.assert_allclose(model.predict(x), reference.predict_proba(x), atol=0.02)
    one_class = fit_linear(x, np.zeros(90), train, val, 3, is_class=True)
    assert one_class.predict(x[:1]).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_linear_models_with_the_chosen_penalty_equal_those_of_scikit_learn(classes):
    x = DRAW.normal(size=(200, 6))
    score = x @ DRAW.normal(size=(6, max(classes, 2)))
    score += 2 * DRAW.normal(size=score.shape)
    y = score.argmax(1).astype(float) if classes > 1 else score[:, 0]
    train, val, is_class = np.arange(150), np.arange(150, 200), classes > 1
    whole = sp.csr_matrix(x)
    model = fit_linear(whole, y, train, val, classes, is_class=is_class)
    if is_class:
        reference = LogisticRegression(C=model.penalty, max_iter=1000, tol=1e-8)
        expected = reference.fit(x[train], y[train]).predict_proba(x)
        np.testing.assert_allclose(model.predict(whole), expected, atol=0.02)
    else:
        reference = Ridge(alpha=150**0.5 / model.penalty).fit(x[train], y[train])
        np.testing.assert_allclose(model.predict(whole)[:, 0], reference.predict(x), atol=1e-3)


def test_scaled_blocks_have_rows_of_norm_one_and_zeros_stay_zeros():
    blocks = [5 * np.ones((4, 2)), sp.csr_matrix((4, 3))]
    joined = Scaler.fit(blocks).join(blocks).toarray()
    np.testing.assert_allclose(np.square(joined).sum(1), 1, rtol=1e-6)


def test_a_perceptron_learns_a_function_that_is_not_linear():
    x = DRAW.normal(size=(4000, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(float)
    model = Perceptron.fit([], [x], y, np.arange(3000), 2, 0, is_class=True)
    assert (model.predict([], [x])[3000:].argmax(1) == y[3000:]).mean() > 0.9


def test_a_perceptron_reads_sparse_features_as_dense_ones():
    words = sp.csr_matrix(
        DRAW.random((500, 300)) * (DRAW.random((500, 300)) < 0.02), dtype=np.float32
    )
    numbers = DRAW.normal(size=(500, 2)).astype(np.float32)
    y = (words @ DRAW.normal(size=300) > 0).astype(float)
    model = Perceptron.fit([words], [numbers], y, np.arange(400), 2, 0, is_class=True)
    expected = model.state_dict()
    x = torch.from_numpy(numbers)
    hidden = ((x - expected["center"]) / expected["scale"]).clamp(-10, 10)
    hidden = (
        model.hidden(hidden)
        + model.factors.float() * torch.from_numpy(words.toarray()) @ model.table
    )
    logits = model.out(model.norm(hidden).relu())
    predicted = model.predict([words], [numbers])
    np.testing.assert_allclose(predicted, logits.softmax(1).detach().numpy(), rtol=1e-4, atol=1e-6)
    loaded = Perceptron.from_state(expected, is_class=True)
    np.testing.assert_array_equal(loaded.predict([words], [numbers]), predicted)


@pytest.mark.parametrize("many", [50, 2000])
def test_a_stack_is_the_same_in_one_thread_and_in_two(many, monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.components.MANY", many)
    edges, nodes = class_network()
    before = torch.get_num_threads()
    try:
        predictions = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            model = NodeClassifier(label="label", epochs=EPOCHS).fit((edges, nodes))
            predictions.append(model.predict_proba())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*predictions)


@pytest.mark.parametrize("many", [50, 2000])
def test_a_saved_stack_predicts_the_same_without_pickle(tmp_path, many, monkeypatch):
    monkeypatch.setattr("gattn.apps.nodes.stack.components.MANY", many)
    edges, nodes = class_network()
    model = NodeClassifier(label="label", epochs=EPOCHS).fit((edges, nodes))
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.safetensors"]
    loaded = NodeClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba((edges, nodes)), model.predict_proba())
    assert _stack(loaded).weights == _stack(model).weights
    assert not loaded.history_


def test_another_graph_is_predicted_without_labels_of_neighbours():
    edges, nodes = class_network()
    model = NodeClassifier(label="label", epochs=EPOCHS).fit((edges, nodes))
    other_edges, other_nodes = class_network(seed=1)
    # The nodes of both networks have the same names.
    with pytest.warns(UserWarning, match="not that of the training"):
        other = model.read((other_edges, other_nodes))
    parts = _stack(model).component_predictions(other)
    assert set(parts) == {"constant", "columns", "neighbours", "consistent", "gat"}
    guess = model.classes_[_stack(model).predict(other).argmax(1)]
    accuracy = (guess == other_nodes["label"]).mean()
    majority = other_nodes["label"].value_counts(normalize=True).max()
    assert accuracy > majority + 0.1


def test_numbers_are_predicted_better_than_by_their_mean():
    edges, nodes = class_network(nodes=300)
    kind = nodes.pop("label").str[-1].astype(float)
    nodes["label"] = 1000 + 50 * kind + DRAW.normal(size=300)
    nodes.loc[200:, "label"] = np.nan
    truth = 1000 + 50 * kind[200:]
    model = NodeRegressor(label="label", epochs=EPOCHS).fit((edges, nodes))
    error = np.square(model.predict()[200:] - truth).mean()
    assert error < 0.6 * np.square(truth - truth.mean()).mean()


@pytest.mark.parametrize("columns", [["id", "label"], ["id", "x0", "x1", "x2", "label"]])
def test_a_graph_without_columns_is_stacked(columns):
    edges, nodes = class_network(nodes=200)
    nodes = nodes[columns].copy()
    truth = nodes["label"].copy()
    nodes.loc[100:, "label"] = None
    guess = NodeClassifier(label="label", epochs=EPOCHS).fit((edges, nodes)).predict()
    assert (guess == truth)[100:].mean() > 0.6


def test_prediction_without_training_beats_propagated_labels_and_says_so(tmp_path):
    edges, nodes = class_network(nodes=300)
    truth = nodes["label"].copy()
    nodes.loc[150:, "label"] = None
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    settings = NodeRunSettings(
        str(tmp_path / "edges.csv"), nodes=str(tmp_path / "nodes.csv"), label="label"
    )
    lines = []
    assert predict_at_once(settings, tmp_path / "out.csv", lines.append) == 300
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    guess = [row["prediction"] for row in rows[150:]]
    assert np.mean(guess == truth[150:].to_numpy()) > 0.8
    assert any(line.startswith("each node predicted without its label: accuracy") for line in lines)
    probability = [float(rows[0][f"probability_kind {kind}"]) for kind in range(3)]
    assert sum(probability) == pytest.approx(1, abs=1e-4)


def _log_at_once(folder, edges, nodes, **options):
    edges.to_csv(folder / "edges.csv", index=False)
    nodes.to_csv(folder / "nodes.csv", index=False)
    paths = str(folder / "edges.csv"), str(folder / "nodes.csv")
    settings = NodeRunSettings(paths[0], nodes=paths[1], label="label", **options)
    lines = []
    predict_at_once(settings, folder / "out.csv", lines.append)
    return "\n".join(lines)


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize("split", ["auto", "random"])
def test_prediction_without_training_reports_noise(tmp_path, shuffled, split):
    edges, nodes = class_network()
    if shuffled:
        nodes["label"] = np.random.default_rng(0).permutation(nodes["label"])
    text = _log_at_once(tmp_path, edges, nodes, split=split)
    some = "leave-one-out predictions" if split == "auto" else "predictions of the test part"
    note = f"The {some} are not significantly better than a constant (the most frequent class)"
    assert (note in text) == shuffled
    assert ("not significantly" in text) == shuffled
    if split == "auto":
        assert "test part" not in text


def test_prediction_without_training_is_no_noise_if_its_order_is_better(tmp_path):
    draw = np.random.default_rng(1)
    ages = draw.normal(size=200)
    kinds = np.where(draw.random(200) < 1 / (1 + np.exp(-0.55 * ages)), "north", "south")
    nodes = pd.DataFrame({"id": range(200), "age": ages, "label": kinds})
    edges = pd.DataFrame(draw.integers(200, size=(546, 2)), columns=["source", "target"])
    text = _log_at_once(tmp_path, edges, nodes)
    assert "not significantly" not in text


def test_prediction_without_training_explains_undefined_metrics(tmp_path):
    edges, nodes = class_network(nodes=60)
    nodes["part"] = ["train", "val", "test"] * 20
    nodes.loc[nodes["part"] == "test", "label"] = "kind 0"
    text = _log_at_once(tmp_path, edges, nodes, split="column:part")
    assert "roc_auc -, pr_auc -" in text
    assert "nan" not in text
    assert "roc_auc: undefined" in text


def test_prediction_without_training_needs_two_labels(tmp_path):
    edges, nodes = class_network(nodes=10)
    nodes.loc[1:, "label"] = None
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    settings = NodeRunSettings(
        str(tmp_path / "edges.csv"), nodes=str(tmp_path / "nodes.csv"), label="label"
    )
    with pytest.raises(GraphError, match="at least"):
        predict_at_once(settings, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("label", ["kind", "size"])
def test_the_order_of_nodes_and_edges_does_not_matter(label):
    """The predictions for a shuffled table of the training network equal the predictions for the
    original table, node by node.
    """
    draw = np.random.default_rng(0)
    pairs = pd.DataFrame(draw.integers(0, 80, (300, 2)), columns=["source", "target"])
    nodes = pd.DataFrame({"id": [f"n{i}" for i in range(80)], "size": draw.normal(size=80)})
    pairs = "n" + pairs.astype(str)
    nodes["kind"] = np.where(nodes["size"] + draw.normal(size=80) > 0, "high", "low")
    nodes["other"] = draw.normal(size=80)
    estimator = NodeClassifier if label == "kind" else NodeRegressor
    model = estimator(label=label, features=["other"], epochs=5, width=8, heads=2)
    model.fit((pairs, nodes))
    assert set(model.predictor_.weights) > set(model.predictor_.other_weights)
    order = draw.permutation(80)
    shuffled = pairs.sample(frac=1, random_state=0), nodes.iloc[order]
    predict = model.predict_proba if label == "kind" else model.predict
    np.testing.assert_allclose(predict(shuffled), predict()[order], rtol=1e-4, atol=1e-6)
    missing = pairs.iloc[20:], nodes
    assert not (model.predictor_.training_places(model.read(missing)) < 0).any()


def _unlabelled_network(nodes=240):
    edges, table = class_network(nodes=nodes, homophily=0.95)
    truth, table = table["label"].to_numpy(), table[["id", "x0", "label"]].copy()
    table.loc[np.arange(nodes) % 3 == 0, "label"] = None
    return edges, table, truth


def _changes(edges, nodes):
    """Return networks that differ from a network by an edge, by nodes, and by names of nodes."""
    more = pd.concat([nodes, pd.DataFrame({"id": ["m0", "m1"], "x0": [0.1, 1.2]})])
    links = pd.DataFrame({"source": ["m0", "m1"], "target": ["n3", "n4"]})
    names = {f"n{i}": f"other{i}" for i in range(20)}
    return {
        "one edge less": (edges.iloc[1:], nodes),
        "two nodes more": (pd.concat([edges, links]), more),
        "half of the nodes": (
            edges[edges.isin([f"n{i}" for i in range(120)]).all(axis=1)], nodes.iloc[:120]
        ),
        "other names of 20 nodes": (edges.replace(names), nodes.replace({"id": names})),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*training nodes are not in the network")
@pytest.mark.parametrize("change", ["one edge less", "two nodes more", "half of the nodes",
                                    "other names of 20 nodes"])  # fmt: skip
def test_a_changed_network_is_predicted_with_the_labels_of_its_training_nodes(change):
    edges, nodes, truth = _unlabelled_network()
    model = NodeClassifier(label="label", epochs=EPOCHS, width=8, heads=2).fit((edges, nodes))
    rest = nodes["label"].isna().to_numpy().nonzero()[0]
    before = (model.predict() == truth)[rest].mean()
    assert before > 0.8
    changed = _changes(edges, nodes)[change]
    parts = model.predictor_.component_predictions(model.read(changed))
    assert "labels" in parts
    rest = rest[rest < len(changed[1])]
    assert (model.predict(changed)[rest] == truth[rest]).mean() > before - 0.1
    assert model.predict_set(changed).any(axis=1).mean() > 0.95
