"""The node estimators: fitting, saving and loading, and errors for bad input."""

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from gattn.apps.fitting.conformal import LabelSetCalibrator
from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.run.model_io import RunError

SMALL = {"width": 8, "heads": 2, "dropout": 0.2, "learning_rate": 0.02, "epochs": 60}


def _two_groups(nodes=60, seed=0):
    """Return a graph of two groups with few edges between them and different attributes."""
    graph = networkx.planted_partition_graph(2, nodes // 2, 0.3, 0.02, seed=seed)
    draw = np.random.default_rng(seed)
    for node, attributes in graph.nodes(data=True):
        attributes.pop("block", None)
        group = node >= nodes // 2
        attributes["label"] = ("left", "right")[group]
        attributes["size"] = float(group + draw.normal(0, 0.8))
        attributes["kind"] = "xy"[int(draw.random() < 0.5)]
    graph.graph.pop("partition", None)
    return graph


@pytest.fixture(scope="module")
def fitted():
    return NodeClassifier(**SMALL).fit(_two_groups())


def test_groups_are_found(fitted):
    proba = fitted.predict_proba()
    assert proba.shape == (60, 2)
    assert np.allclose(proba.sum(1), 1)
    truth = np.array(["left"] * 30 + ["right"] * 30)
    assert fitted.score(fitted.graph_, truth) > 0.9
    assert (fitted.classes_[proba.argmax(1)] == fitted.predict()).all()
    assert fitted.predict_set(coverage=0.8).shape == (60, 2)


@pytest.mark.filterwarnings("ignore:The network is not that of the training")
def test_another_graph_is_predicted_too(fitted):
    other = _two_groups(40, seed=5)
    with pytest.warns(UserWarning, match="not that of the training"):
        score = fitted.score(other)
    assert score > 0.85
    with pytest.warns(UserWarning, match="not that of the training"):
        vectors = fitted.embed(other)
    assert vectors.shape == (40, 8)


@pytest.mark.filterwarnings("ignore:The network is not that of the training")
def test_what_has_no_feature_is_warned_of(fitted):
    other = _two_groups(40, seed=5)
    other.nodes[3]["kind"], other.nodes[4]["size"] = "z", None
    with (
        pytest.warns(
            UserWarning,
            match="'kind' has values that did not occur in training, for example 'z': 1 of 40",
        ),
        pytest.warns(UserWarning, match="'size' is empty for 1 of 40 nodes, but was not empty"),
        pytest.warns(UserWarning, match="not that of the training"),
    ):
        assert np.isfinite(fitted.predict_proba(other)).all()


def test_labels_that_are_missing_are_predicted():
    graph = _two_groups()
    for node in range(0, 60, 2):
        graph.nodes[node]["label"] = None
    model = NodeClassifier(**SMALL).fit(graph)
    assert len(model.split_.train) + len(model.split_.val) == 30
    even = model.predict()[::2]
    assert (even == np.array(["left"] * 15 + ["right"] * 15)).mean() > 0.85


@pytest.mark.parametrize("model", ["gatv2", "transformer", "gps"])
def test_other_models_learn_too(model):
    classifier = NodeClassifier(model=model, **{**SMALL, "epochs": 25}).fit(_two_groups())
    assert (
        classifier.score(classifier.graph_, [(n >= 30 and "right") or "left" for n in range(60)])
        > 0.8
    )
    for edges, weights in classifier.attention():
        into = np.zeros((60, weights.shape[1]))
        np.add.at(into, edges[1], weights)
        assert np.allclose(into[np.unique(edges[1])], 1, atol=1e-5)


def test_masks_of_data_are_the_parts():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(30) % 3
    x = torch.eye(3)[y] + 0.3 * torch.randn(30, 3, generator=generator)
    mask = torch.zeros(30, dtype=torch.bool)
    train, val, test = mask.clone(), mask.clone(), mask.clone()
    train[:9], val[9:18], test[18:] = True, True, True
    pairs = torch.stack([torch.arange(30), (torch.arange(30) + 3) % 30])
    data = Data(x=x, edge_index=pairs, y=y, train_mask=train, val_mask=val, test_mask=test)
    model = NodeClassifier(**SMALL).fit(data)
    assert model.split_.train.tolist() == list(range(9))
    truth = model.predict()[18:] == y[18:].numpy()
    assert model.score() == pytest.approx(truth.mean())
    assert truth.mean() > 0.8


def test_numbers_have_intervals():
    graph = networkx.path_graph(50)
    y = np.linspace(5, 25, 50)
    networkx.set_node_attributes(graph, dict(enumerate((y + 1).tolist())), "hint")
    model = NodeRegressor(**{**SMALL, "epochs": 200}).fit(graph, y)
    assert model.score(graph, y) > 0.8
    low, high = model.predict_interval(coverage=0.8)
    assert ((low <= y) & (y <= high)).mean() > 0.6


def test_what_is_saved_predicts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    assert (again.predict_proba(fitted.graph_) == fitted.predict_proba()).all()
    assert again.classes_.tolist() == ["left", "right"]
    assert again.get_params() == fitted.get_params()
    with pytest.raises(GraphError, match="a loaded estimator does not contain a graph"):
        again.predict()
    with pytest.raises(RunError, match="contains a NodeClassifier, not a NodeRegressor"):
        NodeRegressor.load(tmp_path / "model")


def test_it_is_an_estimator(fitted):
    copy = clone(fitted).set_params(epochs=3, label="label")
    assert copy.get_params()["epochs"] == 3
    assert not hasattr(copy, "predictor_")
    assert len(copy.fit(_two_groups()).history_[0].records) == 3


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor])
def test_nothing_before_fit(kind):
    model = kind()
    for ask in (model.predict, model.embed, model.attention, model.score):
        with pytest.raises(NotFittedError):
            ask()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 4, "at least two classes; there is one: 'a'"),
        ([None] * 4, "there is none"),
        (["a", "b"], "y must have 4 labels, one for each node; got 2"),
        ({"z": "a"}, "y has a label for 'z', which is not a node"),
        (None, "labels are required: y, or the name of an attribute .* among 'age'"),
        (["a", None, None, "b"], "the validation part has no node with a label"),
    ],
)
def test_labels_that_cannot_be_learnt_say_why(labels, message):
    edges = pd.DataFrame({"source": ["a", "b"], "target": ["c", "d"]})
    nodes = pd.DataFrame({"id": list("abcd"), "age": range(4)})
    with pytest.raises(GraphError, match=message):
        NodeClassifier(epochs=1).fit((edges, nodes), labels)


@pytest.mark.filterwarnings("ignore:The network is not that of the training")
def test_other_bad_input_says_why(fitted):
    graph = _two_groups()
    with pytest.raises(GraphError, match="no attribute 'nothing'"):
        NodeClassifier(features=["nothing"]).fit(graph)
    with pytest.raises(GraphError, match="listed once; got 'size'"):
        NodeClassifier(features=["size", "kind", "size"]).fit(graph)
    with pytest.raises(GraphError, match="'label' cannot be a feature"):
        NodeClassifier(features=["label"]).fit(graph)
    with pytest.raises(ValueError, match="must be different columns; got 'size' for both"):
        NodeRegressor(label="size", time="size").fit(graph)
    with pytest.raises(ValueError, match="heads"):
        NodeClassifier(width=9).fit(graph)
    with (
        pytest.warns(UserWarning, match="not that of the training"),
        pytest.raises(GraphError, match=r"no attribute 'size', which the model reads; .*--nodes"),
    ):
        fitted.predict(networkx.path_graph(3))
    with pytest.raises(
        GraphError, match=r"no attribute 'label'; they have no attributes \(.* --nodes"
    ):
        NodeClassifier(label="label").fit(pd.DataFrame({"a": [0, 1], "b": [1, 2]}))
    with pytest.raises(TypeError, match="which networkx and pandas read from files; got str"):
        NodeClassifier().fit("graph.graphml")
    with pytest.raises(GraphError, match=r"labels \('label'\) must be numbers; got 'left'"):
        NodeRegressor().fit(graph)
    with pytest.raises(GraphError, match="NodeRegressor"):
        NodeClassifier().fit(graph, np.linspace(0, 1, 60))


def test_every_set_of_classes_contains_the_prediction():
    model = NodeClassifier()
    model.calibrator_ = LabelSetCalibrator((((0.0,) * 20,) * 3,))
    probability = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    expected = torch.tensor([[1, 0, 0], [0, 0, 1], [0, 1, 0]]).bool()
    assert torch.equal(model.sets(probability, 0.9), expected)
