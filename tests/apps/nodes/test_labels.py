"""Choice of the attribute that holds the labels, and their encoding as numbers."""

import networkx
import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.labels import encode_classes, encode_numbers, find_classes, read_labels
from gattn.apps.nodes.reading import read_graph

SMALL = {"model": "gat", "width": 4, "heads": 2, "epochs": 2}


def _graph(**columns):
    """Return a cycle of named nodes with these attributes."""
    nodes = len(next(iter(columns.values()), "abcd"))
    names = [str(node) for node in range(nodes)]
    edges = pd.DataFrame({"source": names, "target": names[1:] + names[:1]})
    return edges, pd.DataFrame({"id": names, **columns})


def test_a_usual_attribute_is_the_label_and_that_is_said():
    for name in ("y", "label"):
        values, notes = read_labels(read_graph(_graph(**{name: list("abab"), "age": range(4)})))
        assert values.tolist() == list("abab")
        assert notes == [f"The labels are attribute {name!r}."]
    assert read_labels(read_graph(_graph(kind=list("abab"))), "kind")[1] == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": range(4), "y": range(4)}, "because 'y' next to 'x' may be a coordinate"),
        ({"y": range(4), "label": list("abab")}, "because the nodes have both 'y' and 'label'"),
        ({"age": range(4)}, "labels are required: .* among 'age'"),
        ({}, "labels are required: .* among none"),
    ],
)
def test_an_attribute_that_may_be_something_else_is_not_taken(columns, message):
    with pytest.raises(GraphError, match=message):
        read_labels(read_graph(_graph(**columns)))


def test_coordinates_are_features_where_the_label_is_named():
    columns = {"x": range(20), "y": np.sin(range(20)), "label": list("ab") * 10}
    model = NodeClassifier(label="label", **SMALL).fit(_graph(**columns))
    assert [column.name for column in model.predictor_.encoder.columns] == ["x", "y"]


def test_an_attribute_that_may_hold_given_labels_is_no_feature():
    graph = _graph(label=list("ab") * 10, age=range(20))
    kinds = ["left", "right"] * 10
    model = NodeClassifier(**SMALL).fit(graph, kinds)
    assert [column.name for column in model.predictor_.encoder.columns] == ["age"]
    assert "Attribute 'label' may contain the labels: it is not used as a feature." in model.notes_
    classifier = NodeClassifier(features=["label"], **SMALL).fit(graph, kinds)
    assert [column.name for column in classifier.predictor_.encoder.columns] == ["label"]


def test_names_of_tables_may_be_given_as_numbers():
    graph = read_graph(_graph())
    values, _ = read_labels(graph, y={0.0: "a", "2": "b"})
    assert values.tolist() == ["a", None, "b", None]
    with pytest.raises(GraphError, match="y has two labels for '1'"):
        read_labels(graph, y={1: "a", "1": "b"})
    with pytest.raises(GraphError, match="y has a label for 9, which is not a node"):
        read_labels(graph, y={9: "a"})
    # Networkx numbers the nodes, so their names are integers.
    named = read_graph(networkx.path_graph(3))
    assert read_labels(named, y={2: "a"})[0].tolist() == [None, None, "a"]


@pytest.mark.parametrize(
    ("labels", "classes", "encoded"),
    [
        ([True, None, False], [False, True], [1, np.nan, 0]),
        ([1.0, np.nan, 0.0], [0, 1], [1, np.nan, 0]),
        (["b ", " ", "a"], ["a", "b"], [1, np.nan, 0]),
        ([1, "a", 1], ["1", "a"], [0, 1, 0]),
        (pd.Categorical(["b", None, "a"]), ["a", "b"], [1, np.nan, 0]),
        (pd.array([True, None, False], dtype="boolean"), [False, True], [1, np.nan, 0]),
    ],
)
def test_classes_are_sorted_and_missing_ones_are_nan(labels, classes, encoded):
    values = pd.Series(labels)
    result = find_classes(values)
    assert result.tolist() == classes
    assert [type(kind) for kind in result.tolist()] == [type(kind) for kind in classes]
    numbers = encode_classes(values, result)
    assert torch.equal(numbers.nan_to_num(-1), torch.tensor(encoded).double().nan_to_num(-1))


def test_labels_that_do_not_fit_are_named_with_their_attribute():
    with pytest.raises(GraphError, match=r"labels \('age'\) must be classes; 30 of 30 nodes"):
        find_classes(pd.Series(np.linspace(0, 1, 30), name="age"))
    with pytest.raises(GraphError, match=r"labels \('kind'\) must be among \['a', 'b'\]; got 'c'"):
        encode_classes(pd.Series(["c"], name="kind"), np.array(["a", "b"]))
    with pytest.raises(GraphError, match=r"labels \('age'\) must be numbers; got 'old'"):
        encode_numbers(pd.Series(["1", "old"], name="age"))
    with pytest.raises(GraphError, match="labels must be finite"):
        encode_numbers(pd.Series([1.0, np.inf]))


def test_labels_may_be_a_tensor():
    values, _ = read_labels(read_graph(_graph()), y=torch.tensor([1, 0, 1, 1]))
    assert encode_classes(values, find_classes(values)).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("labels", "has_note"),
    [
        (["-1", "0", "1"], True),
        ([-999.0, 2.0, 3.0], True),
        (["-1", "a", "b"], True),
        ([-1.0, 0.5, 1.5], True),
        ([-1, 1, 1], False),  # if -1 meant a missing label, only one class would remain
        ([-2, -1, 3], False),
        ([0, 1, 2], False),
        (["-a", "b", "c"], False),
    ],
)
def test_a_single_negative_label_gets_a_note(labels, has_note):
    for graph, y in ((_graph(y=labels * 10), None), (_graph(age=range(30)), labels * 10)):
        values, notes = read_labels(read_graph(graph), y=y, classes=True)
        assert values.tolist() == labels * 10
        expected = f"is {labels[0]} for 10 nodes. If it stands for a missing label, use --missing"
        assert any(expected in note for note in notes) == has_note


def test_negative_labels_of_networkx_are_said_and_those_of_tensors_are_none():
    graph = networkx.path_graph(9)
    networkx.set_node_attributes(graph, {node: node % 3 - 1 for node in graph}, "y")
    _, notes = read_labels(read_graph(graph), classes=True)
    assert notes[-1].startswith("Label 'y' is -1 for 3 nodes.")
    values, notes = read_labels(read_graph(graph), y=torch.arange(9) % 3 - 1, classes=True)
    assert values.isna().sum() == 3
    assert notes == ["y is -1 for 3 of 9 nodes: they have no label."]


@pytest.mark.parametrize("cells", [["-1", "0", "1"], [-1, 0, 1], [-1.0, 0.0, 1.0]])
def test_a_number_may_be_named_as_missing(cells):
    graph = read_graph(_graph(y=cells * 4)).with_gaps(["-1"])
    values, notes = read_labels(graph, classes=True)
    assert int(values.isna().sum()) == 4
    assert encode_classes(values, find_classes(values)).isnan().sum() == 4
    assert find_classes(values).tolist() == cells[1:]
    assert "Column 'y': 4 cells with '-1' are missing." in graph.notes
    assert not any("for a missing label" in note for note in notes)
