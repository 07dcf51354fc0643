"""The node estimators: fitting, saving and loading, and errors for bad input."""

import networkx
import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.run.model_io import RunError, read_model

SMALL = {"width": 8, "heads": 2, "dropout": 0.2, "learning_rate": 0.04, "epochs": 30}


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


def test_node_classifier_exceeds_90_percent_accuracy_on_two_communities(fitted):
    proba = fitted.predict_proba()
    assert proba.shape == (60, 2)
    assert np.allclose(proba.sum(1), 1)
    assert fitted.score(fitted.graph_, np.array(["left"] * 30 + ["right"] * 30)) > 0.9
    assert (fitted.classes_[proba.argmax(1)] == fitted.predict()).all()
    assert fitted.predict_set(coverage=0.8).shape == (60, 2)


@pytest.mark.parametrize("model", ["gatv2", "transformer"])
def test_node_classifier_of_each_attention_layer_learns_two_communities(model):
    classifier = NodeClassifier(model=model, **{**SMALL, "epochs": 25}).fit(_two_groups())
    assert classifier.score(classifier.graph_, ["left"] * 30 + ["right"] * 30) > 0.8
    for edges, weights in classifier.attention():
        into = np.zeros((60, weights.shape[1]))
        np.add.at(into, edges[1], weights)
        assert np.allclose(into[np.unique(edges[1])], 1, atol=1e-5)


def test_loaded_node_classifier_gives_the_same_predictions_as_the_saved_classifier(
    fitted, tmp_path
):
    fitted.save(tmp_path / "model")
    again = NodeClassifier.load(tmp_path / "model")
    assert (again.predict_proba(fitted.graph_) == fitted.predict_proba()).all()
    assert again.classes_.tolist() == ["left", "right"]
    assert again.get_params() == fitted.get_params()
    with pytest.raises(GraphError, match="a loaded estimator does not contain a graph"):
        again.predict()
    with pytest.raises(RunError, match="contains a NodeClassifier, not a NodeRegressor"):
        NodeRegressor.load(tmp_path / "model")
    tensors, card = read_model(tmp_path / "model")
    with pytest.raises(RunError, match=r"this version of gattn reads: KeyError.*train it again"):
        NodeClassifier.from_state(tmp_path, tensors, {**card, "predictor": {}})


def test_fit_of_node_estimators_to_invalid_labels_raises_error():
    for labels, message in (
        (["a"] * 4, "at least two classes; there is one: 'a'"),
        ([None] * 4, "there is none"),
        (["a", "b"], "y must have 4 labels, one for each node; got 2"),
        ({"z": "a"}, "y has a label for 'z', which is not a node"),
        (None, "labels are required: y, or the name of an attribute .* among 'age'"),
        (["a", None, None, "b"], "the validation part has no node with a label"),
    ):
        edges = pd.DataFrame({"source": ["a", "b"], "target": ["c", "d"]})
        nodes = pd.DataFrame({"id": list("abcd"), "age": range(4)})
        with pytest.raises(GraphError, match=message):
            NodeClassifier(epochs=1).fit((edges, nodes), labels)
    with pytest.raises(GraphError, match=r"labels \('age'\) must be at least two different"):
        NodeRegressor(label="age", epochs=1).fit((edges, nodes.assign(age=1)))


@pytest.mark.filterwarnings("ignore:The network is not that of the training")
def test_invalid_graph_attributes_or_labels_of_a_node_estimator_raise_error(fitted):
    graph = _two_groups()
    with pytest.raises(GraphError, match="no attribute 'nothing'"):
        NodeClassifier(features=["nothing"]).fit(graph)
    with pytest.raises(GraphError, match="'label' cannot be a feature"):
        NodeClassifier(features=["label"]).fit(graph)
    with pytest.raises(ValueError, match="must be different columns; got 'size' for both"):
        NodeRegressor(label="size", time="size").fit(graph)
    with (
        pytest.warns(UserWarning, match="not that of the training"),
        pytest.raises(GraphError, match=r"no attribute 'size', which the model reads; .*--nodes"),
    ):
        fitted.predict(networkx.path_graph(3))
    with pytest.raises(GraphError, match=r"no attribute 'label'; they have no attributes"):
        NodeClassifier(label="label").fit(pd.DataFrame({"a": [0, 1], "b": [1, 2]}))
    with pytest.raises(TypeError, match="which networkx and pandas read from files; got str"):
        NodeClassifier().fit("graph.graphml")
    with pytest.raises(GraphError, match="NodeRegressor"):
        NodeClassifier().fit(graph, np.linspace(0, 1, 60))
