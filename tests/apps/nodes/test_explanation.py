"""Explanation of a node: predictions without each neighbour and each attribute."""

import math

import networkx
import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.runs.explain import explain_node

NETWORK = {"epochs": 8, "width": 8, "heads": 2}


@pytest.fixture(scope="module", params=["stacked", "gat"])
def classifier(request):
    """Classifier of two communities, whose members have an attribute that shows the community."""
    graph = networkx.planted_partition_graph(2, 60, 0.12, 0.06, seed=1)
    draw = np.random.default_rng(0)
    for node, attributes in graph.nodes(data=True):
        del attributes["block"]
        attributes["size"] = draw.normal(0.7 * (node >= 60))
        attributes["kind"] = "right" if node >= 60 else "left"
    graph.add_node(999, size=0.0, kind="left")
    return NodeClassifier(label="kind", model=request.param, **NETWORK).fit(graph)


def test_change_by_a_neighbour_is_the_prediction_minus_that_without_the_neighbour(classifier):
    """The prediction without a neighbour equals the prediction for a graph from which its edges
    were deleted.
    """
    predictor, graph = classifier.predictor_, classifier.graph_
    node = graph.names[3]
    explanation = explain_node(predictor, graph, node, most=3)
    assert len(explanation.neighbours) == 3 < explanation.degree
    assert explanation.prediction == float(predictor.predict(graph)[3].max())
    attention = [one.attention for one in explanation.neighbours]
    edges, weights = predictor.attention(graph)[-1]
    into = (edges[1] == 3) & (edges[0] != 3)
    assert sorted(attention) == sorted(weights[into].double().mean(1).sort().values[-3:].tolist())
    changes = [abs(one.change) for one in explanation.neighbours]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0
    for one in explanation.neighbours:
        assert one.change == explanation.prediction - one.without
    if classifier.model == "gat":
        other = graph.names.index(explanation.neighbours[0].name)
        pairs = graph.edge_index
        between = ((pairs == 3).any(0)) & ((pairs == other).any(0))
        assert int(between.sum()) == 2
        smaller = networkx.Graph()
        smaller.add_nodes_from(
            (name, {"size": graph.table["size"][i]}) for i, name in enumerate(graph.names)
        )
        remaining = pairs[:, ~between].T.tolist()
        smaller.add_edges_from((graph.names[a], graph.names[b]) for a, b in remaining)
        expected = classifier.predict_proba(smaller)[3, explanation.output]
        assert np.isclose(explanation.neighbours[0].without, expected, rtol=1e-5)


def test_explanation_states_the_change_of_the_prediction_without_an_attribute(classifier):
    explanation = explain_node(classifier.predictor_, classifier.graph_, 70, most=0)
    assert explanation.neighbours == ()
    (size,) = explanation.attributes
    assert size.name == "size"
    assert math.isnan(size.attention)
    assert size.change == explanation.prediction - size.without != 0
    assert explanation.isolated != explanation.prediction


def test_explanation_of_a_node_without_edges_lists_no_neighbours(classifier):
    explanation = explain_node(classifier.predictor_, classifier.graph_, "999")
    assert (explanation.degree, explanation.neighbours) == (0, ())
    assert explanation.isolated == explanation.prediction


def test_explained_change_equals_that_of_a_table_without_the_edges_to_the_neighbour():
    """The prediction equals that for a table without the edges to the neighbour."""
    draw = np.random.default_rng(0)
    pairs = np.unique(draw.integers(0, 40, (150, 2)), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    edges = pd.DataFrame(pairs, columns=["source", "target"])
    edges["weight"] = draw.uniform(0.5, 2, len(edges))
    nodes = pd.DataFrame({"id": range(40), "size": draw.normal(size=40)})
    nodes["kind"] = np.where(nodes["size"] + draw.normal(size=40) > 0, "high", "low")
    options = {"label": "kind", "features": ["size"], "edge_weight": "weight", "model": "gat"}
    classifier = NodeClassifier(**options, **NETWORK).fit((edges, nodes))
    node = int(pairs[0, 0])
    explanation = explain_node(classifier.predictor_, classifier.graph_, node)
    other = int(explanation.neighbours[0].name)
    remaining = ~(edges[["source", "target"]].isin([node, other]).all(axis=1))
    assert (~remaining).sum() == 1
    expected = classifier.predict_proba((edges[remaining], nodes))[node, explanation.output]
    assert np.isclose(explanation.neighbours[0].without, expected, rtol=1e-5)
