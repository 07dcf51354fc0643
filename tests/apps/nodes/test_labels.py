"""Choice of the attribute that holds the labels, and their encoding as numbers."""

import warnings
from dataclasses import replace

import networkx
import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edge_ends import named_ends
from gattn.apps.nodes.labels import encode_classes, encode_numbers, find_classes, read_labels
from gattn.apps.nodes.reading import graph_of_ends, read_graph
from gattn.apps.nodes.values import CellRules, SourceTable
from tests.apps.cli.commands import runner
from tests.pictures import leave_blank

SMALL = {"model": "gat", "width": 4, "heads": 2, "epochs": 2}


def _graph(**columns):
    """Return a cycle of named nodes with these attributes."""
    nodes = len(next(iter(columns.values()), "abcd"))
    names = [str(node) for node in range(nodes)]
    edges = pd.DataFrame({"source": names, "target": names[1:] + names[:1]})
    return edges, pd.DataFrame({"id": names, **columns})


def test_attribute_y_or_label_is_the_label_by_default_with_a_note():
    for name in ("y", "label"):
        values, notes = read_labels(read_graph(_graph(**{name: list("abab"), "age": range(4)})))
        assert values.tolist() == list("abab")
        assert notes == [f"The labels are attribute {name!r}."]
    assert read_labels(read_graph(_graph(kind=list("abab"))), "kind")[1] == []


def test_missing_label_setting_raises_error_if_the_attribute_is_ambiguous():
    for columns, message in (
        ({"x": range(4), "y": range(4)}, "because 'y' next to 'x' may be a coordinate"),
        ({"y": range(4), "label": list("abab")}, "because the nodes have both 'y' and 'label'"),
        ({"age": range(4)}, "labels are required: .* among 'age'"),
        ({}, "labels are required: .* among none"),
    ):
        with pytest.raises(GraphError, match=message):
            read_labels(read_graph(_graph(**columns)))


def test_attribute_that_may_contain_the_labels_is_no_feature_by_default():
    graph = _graph(label=list("ab") * 10, age=range(20))
    kinds = ["left", "right"] * 10
    model = NodeClassifier(**SMALL).fit(graph, kinds)
    assert [column.name for column in model.predictor_.encoder.columns] == ["age"]
    assert "Attribute 'label' may contain the labels: it is not used as a feature." in model.notes_
    classifier = NodeClassifier(features=["label"], **SMALL).fit(graph, kinds)
    assert [column.name for column in classifier.predictor_.encoder.columns] == ["label"]


def test_labels_match_nodes_with_numeric_names_by_text_or_number():
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


@pytest.mark.parametrize("label", [np.inf, -1e300])
def test_label_that_is_infinite_in_float32_raises_error(label):
    with pytest.raises(GraphError, match=r"must be finite in float32; one is (inf|-1e)"):
        encode_numbers(pd.Series([1.0, label]))


def test_classes_are_sorted_and_missing_labels_are_encoded_as_nan():
    for labels, classes, encoded in (
        ([True, None, False], [False, True], [1, np.nan, 0]),
        ([1.0, np.nan, 0.0], [0, 1], [1, np.nan, 0]),
        (["b ", " ", "a"], ["a", "b"], [1, np.nan, 0]),
        ([1, "a", 1], ["1", "a"], [0, 1, 0]),
        (pd.Categorical(["b", None, "a"]), ["a", "b"], [1, np.nan, 0]),
        (pd.array([True, None, False], dtype="boolean"), [False, True], [1, np.nan, 0]),
    ):
        values = pd.Series(labels)
        result = find_classes(values)
        assert result.tolist() == classes
        assert [type(kind) for kind in result.tolist()] == [type(kind) for kind in classes]
        numbers = encode_classes(values, result)
        assert torch.equal(numbers.nan_to_num(-1), torch.tensor(encoded).double().nan_to_num(-1))


def test_one_negative_class_gives_a_note_on_missing_labels():
    for labels, has_note in (
        (["-1", "0", "1"], True),
        ([-999.0, 2.0, 3.0], True),
        (["-1", "a", "b"], True),
        ([-1.0, 0.5, 1.5], True),
        ([-1, 1, 1], False),  # if -1 meant a missing label, only one class would remain
        ([-2, -1, 3], False),
        ([0, 1, 2], False),
        (["-a", "b", "c"], False),
    ):
        for graph, y in ((_graph(y=labels * 10), None), (_graph(age=range(30)), labels * 10)):
            values, notes = read_labels(read_graph(graph), y=y, classes=True)
            assert values.tolist() == labels * 10
            expected = (
                f"is {labels[0]} for 10 nodes. If it stands for a missing label, use --missing"
            )
            assert any(expected in note for note in notes) == has_note


@pytest.mark.parametrize("cells", [["-1", "0", "1"], [-1, 0, 1], [-1.0, 0.0, 1.0]])
def test_option_missing_declares_a_number_as_a_missing_label(cells):
    edges, nodes = map(SourceTable, _graph(y=cells * 4))
    graph = graph_of_ends(named_ends(edges), replace(nodes, cells=CellRules(["-1"])))
    values, notes = read_labels(graph, classes=True)
    assert int(values.isna().sum()) == 4
    assert encode_classes(values, find_classes(values)).isnan().sum() == 4
    assert find_classes(values).tolist() == cells[1:]
    assert "Column 'y': 4 cells with '-1' are missing." in graph.notes
    assert not any("for a missing label" in note for note in notes)


def test_classes_of_nodes_that_differ_only_in_case_give_a_note():
    graph = read_graph(_graph(kind=["Yes", "yes", "no", "yes"]))
    _, notes = read_labels(graph, "kind", classes=True)
    assert notes == ["Of the labels, the classes 'Yes' and 'yes' differ only in case."]
    assert read_labels(graph, "kind", classes=False)[1] == []


def test_label_with_few_numbers_and_a_column_that_copies_the_label_give_notes(
    tmp_path, monkeypatch, capsys
):
    kinds = [2.0 * (node % 10) for node in range(40)]
    edges, nodes = _graph(kind=kinds, copy=[f"k{kind}" for kind in kinds], age=range(40))
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    leave_blank(monkeypatch)
    gattn = runner(monkeypatch, capsys, "nodes", "train", tmp_path / "edges.csv", "--nodes")
    options = ["--label", "kind", "--epochs", 2, "--width", 4, "--heads", 2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code, output = gattn(tmp_path / "nodes.csv", *options, "--out", tmp_path / "run")
    assert code == 0, output
    assert "Attribute 'copy' contains label 'kind' in another writing." in output
    assert "Attribute 'age'" not in output
    assert "Label 'kind' has 10 different numbers, which are read as classes; --task" in output
    assert not [one for one in caught if "unique classes" in str(one.message)]
