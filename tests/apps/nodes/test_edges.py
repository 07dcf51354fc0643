"""Columns of edges: features, weights, types, times, doubled edges, and bad tables."""

import json

import msgspec
import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edges import EdgeColumns, EdgeEncoder, read_edge_columns
from gattn.apps.nodes.fields import FieldInput, edge_terms, whole_graph
from gattn.apps.nodes.files import GraphReading, read_graph_file
from gattn.apps.nodes.network import AttentionNetwork
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack.propagation import Neighbours
from tests.apps.nodes.networks import attributed_network

DOUBLED = "a,b,1,x\na,b,1,x\na,b,3,y\nb,c,2,x\n"


def _graph(rows=DOUBLED, header="source,target,w,kind", **options):
    lines = [line.split(",") for line in rows.split()]
    edges = pd.DataFrame(lines, columns=header.split(","))
    names = sorted({*edges["source"], *edges["target"]})
    nodes = options.pop("nodes", None)
    nodes = pd.DataFrame({"id": names}) if nodes is None else nodes
    return read_graph((edges, nodes), **options)


def _pairs(graph):
    return [(graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist()]


def _network(nodes=90, seed=0):
    def day(node: int, place: int) -> str:
        return f"20{10 + place:02d}-03-{1 + node % 28:02d}"

    return attributed_network(nodes, seed, near=2, strong=5, weak=0.5, day=day)


def _write(folder, edges, nodes):
    edges.to_csv(folder / "edges.csv", index=False)
    nodes.to_csv(folder / "nodes.csv", index=False)
    return str(folder / "edges.csv"), str(folder / "nodes.csv")


def test_repeated_edges_are_counted_once_unless_their_columns_differ():
    graph, encoder, notes = read_edge_columns(_graph(directed=True), EdgeColumns())
    assert _pairs(graph) == [("a", "b"), ("a", "b"), ("b", "c")]
    assert encoder is not None
    assert [(column.name, column.kind) for column in encoder.columns] == [
        ("w", "number"), ("kind", "category"),
    ]  # fmt: skip
    assert "Columns of the edges that are used: 'w' (numbers), 'kind' (categories)." in notes
    original = graph.without_edge_inputs()
    assert original.edge_inputs is None
    assert _pairs(original) == [("a", "b"), ("b", "c")]
    assert "1 edge repeated with the same columns: each is used once." in notes
    assert "1 further edge between the same nodes with other columns: all are used." in notes
    unread, encoder, notes = read_edge_columns(_graph(directed=True), EdgeColumns(features=()))
    assert _pairs(unread) == [("a", "b"), ("b", "c")]
    assert encoder is None
    assert notes[0] == "Not used: the columns 'w', 'kind' of the edges."
    assert notes[1:] == ["2 edges repeated: each is used once."]


def test_features_of_an_undirected_edge_apply_to_both_directions():
    graph, encoder, _ = read_edge_columns(_graph(), EdgeColumns(features=("w",)))
    assert encoder is not None
    inputs = graph.edge_inputs
    assert inputs is not None
    assert inputs.features is not None
    by_edge = {}
    for pair, (weight, sign) in zip(_pairs(graph), inputs.features.tolist()):
        by_edge.setdefault(pair, []).append((round(weight, 4), sign))
    standard = ((np.array([1, 1, 3, 2]) - 1.75) / np.std([1, 1, 3, 2])).round(4)
    assert sorted(by_edge["a", "b"]) == sorted([(standard[0], 1.0), (standard[2], 1.0)])
    assert sorted(by_edge["b", "a"]) == sorted([(standard[0], -1.0), (standard[2], -1.0)])
    assert by_edge["c", "b"] == [(standard[3], -1.0)]


def test_neighbour_means_are_weighted_and_computed_for_each_edge_type():
    graph, *_ = read_edge_columns(
        _graph("a,b,1,x\nc,b,3,x\nd,b,4,y\n"), EdgeColumns(weight="w", type="kind")
    )
    both = Neighbours.of(graph)
    x = np.array([[1.0], [0.0], [2.0], [3.0]])
    np.testing.assert_allclose((both.means @ x)[1], (1 + 6 + 12) / 8, rtol=1e-6)
    into, out = both.along
    np.testing.assert_allclose((into @ x)[:, 0], [0, 19 / 8, 0, 0], rtol=1e-6)
    np.testing.assert_allclose((out @ x)[:, 0], 0, atol=1e-6)
    assert [one.shape for one in both.typed] == [(4, 4)] * 4
    means = np.hstack([one @ x for one in both.typed])
    np.testing.assert_allclose(means[1], [7 / 4, 0, 3, 0], rtol=1e-6)
    np.testing.assert_allclose(means[2], [0, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
def test_attention_network_ignores_an_edge_of_weight_zero(model):
    def output(rows):
        columns = EdgeColumns(features=("kind",), weight="w")
        graph, encoder, _ = read_edge_columns(_graph(rows), columns)
        assert encoder is not None
        assert graph.edge_inputs is not None
        encoder = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(encoder))), EdgeEncoder)
        torch.manual_seed(0)
        network = AttentionNetwork(NodeSettings(model=model, width=8, heads=2), 3, 2, encoder.width)
        field = whole_graph(graph.edge_index, 4, 2)
        x = torch.eye(4)[:, :3]
        return network.eval()(FieldInput(x, field, edge_terms(graph.edge_terms, field)))

    rows = "a,b,2,x\nb,c,2,y\nc,d,2,x\n"
    with_zero = output(rows + "d,a,0,y\n")
    torch.testing.assert_close(with_zero, output(rows), atol=1e-6, rtol=1e-5)


def test_prediction_of_a_node_does_not_depend_on_newer_nodes_and_edges():
    edges, nodes = _network(80)
    fitted = NodeClassifier(
        model="gatv2", label="label", time="year", edge_type="kind", epochs=4, width=8, heads=2
    ).fit((edges, nodes))
    old = nodes["year"] < 2008
    late = nodes.assign(x0=np.where(old, nodes["x0"], 100.0))
    late.loc[~old, "label"] = "kind 0"
    before = fitted.predict_proba((edges, nodes))[np.asarray(old)]
    after = fitted.predict_proba((edges, late))[np.asarray(old)]
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ("a,b,1,x\nb,c,-2,x\n", {"weight": "w"}, "must not be negative; got '-2' at edge 'b'"),
        ("a,b,1,x\nb,c,,x\n", {"weight": "w"}, "must be given for every edge; got an empty cell"),
        ("a,b,1,x\nb,c,lots,x\n", {"weight": "w"}, "must be numbers; got 'lots' at edge 'b' - 'c'"),
        ("a,b,0,x\nb,c,0,x\n", {"weight": "w"}, "must not all be 0"),
        ("a,b,1,x\nb,c,1e300,x\n", {"weight": "w"}, r"must be at most 1e\+30; got '1e300' at"),
        ("a,b,1,x\nb,c,1e-90,x\n", {"weight": "w"}, "must be 0 or at least 1e-30; got '1e-90' at"),
        (DOUBLED, {"weight": "source"}, "column 'source' of the edges contains the names of nodes"),
        (DOUBLED, {"weight": "w", "type": "w"}, "edge_weight and edge_type must be different"),
        (DOUBLED, {"features": ("v",)}, "the edges have no column 'v'; they have 'w', 'kind'"),
        (DOUBLED, {"features": ("w", "w")}, "must be named once; got 'w' twice"),
        (DOUBLED, {"time": "v"}, "neither the nodes nor the edges have a column 'v' of times"),
        (DOUBLED, {"time": "kind"}, "must hold times, either numbers or dates .* got 'x' at edge"),
        ("a,b,2001-13-01,x\nb,c,2001-12-01,x\n", {"time": "w"}, "got '2001-13-01' at edge 'a'"),
    ],
)  # fmt: skip
def test_invalid_column_of_edges_raises_error_with_its_reason(rows, columns, message):
    with pytest.raises(GraphError, match=message):
        read_edge_columns(_graph(rows), EdgeColumns(**columns))


def test_constant_zero_or_date_column_of_edges_gives_a_note():
    for rows, columns, message in (
        ("a,b,2,x\nb,c,2,y\n", {"weight": "w"}, "is constant: the weights have no effect"),
        ("a,b,2,x\nb,c,1,x\n", {"type": "kind"}, "has no effect: all edges are of type 'x'"),
        ("a,b,0,x\nb,c,1,y\n", {"weight": "w"}, "edges of weight 0 are removed (1)"),
        ("a,b,2020-01-01,x\nb,c,2020-01-02,y\n", {}, "Column 'w' of the edges is read as dates"),
    ):
        *_, notes = read_edge_columns(_graph(rows), EdgeColumns(**columns))
        assert any(message in note for note in notes), notes


def test_note_counts_new_edge_categories_and_a_missing_edge_column_raises_error():
    _, encoder, _ = read_edge_columns(_graph(), EdgeColumns(type="kind", weight="w"))
    assert encoder is not None
    other = _graph("a,b,1,z\nb,c,2,x\n")
    (note,) = encoder.unknown(other)
    assert "Column 'kind' of the edges has values that did not occur in training" in note
    assert "'z': 1 of 2 edges have no feature" in note
    assert encoder.attach(other).edge_inputs.features.shape[1] == encoder.width
    (note,) = encoder.unknown(_graph("a,b,1,\nb,c,2,x\n"))
    assert "Column 'kind' of the edges is empty for 1 of 2 edges, but was not empty" in note
    with pytest.raises(GraphError, match=r"weights of edges \(column 'w'\) must not all be 0"):
        encoder.attach(_graph("a,b,0,x\nb,c,0,x\n"))
    for missing in ("w", "kind"):
        rest = "kind" if missing == "w" else "w"
        with pytest.raises(GraphError, match=f"no column '{missing}', which the model reads"):
            encoder.attach(_graph("a,b,1\nb,c,2\n", f"source,target,{rest}"))


def test_edge_columns_are_read_from_networkx_graphml_and_pyg_data(tmp_path):
    graph = networkx.Graph()
    graph.add_edge("a", "b", since=2001, kind="x")
    graph.add_edge("b", "c", since=2003, kind="y")
    graph.add_edge("a", "c", since=2003, kind="y")
    networkx.write_graphml(graph, tmp_path / "graph.graphml")
    for read in (read_graph(graph), read_graph_file(tmp_path / "graph.graphml")):
        attached, encoder, _ = read_edge_columns(read, EdgeColumns())
        assert encoder is not None
        assert encoder.names == ["since", "kind"]
        assert not encoder.has_direction
        assert attached.edge_index.shape[1] == 6
    data = Data(
        edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3,
        edge_attr=torch.tensor([[1.0, 0.0], [2.0, 5.0]]), edge_weight=torch.tensor([1.0, 2.0]),
    )  # fmt: skip
    _, encoder, _ = read_edge_columns(read_graph(data), EdgeColumns(weight="edge_weight"))
    assert encoder is not None
    assert encoder.names == ["edge_weight", "edge_attr.0", "edge_attr.1"]
    bad = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.ones(3, 2))
    with pytest.raises(GraphError, match="edge_attr must have a row for each of 2 edges"):
        read_graph(bad)


OPTIONS = {"edge_weight": "strength", "edge_type": "kind"}
SMALL = NodeSettings(epochs=3, width=8, heads=2)


def test_predict_graph_gives_the_training_predictions_or_an_error_without_an_edge_column(tmp_path):
    edges, nodes = _network()
    data, table = _write(tmp_path, edges, nodes)
    run, reading = tmp_path / "run", GraphReading(nodes=table)
    settings = NodeRunSettings(data, nodes=table, label="label", model=SMALL, **OPTIONS)
    train_run(settings, run)
    assert "Columns of the edges that are used" in (run / "report.html").read_text("utf-8")
    assert predict_graph(run, data, tmp_path / "out.csv", reading=reading) == len(nodes)
    paths = tmp_path / "out.csv", run / "predictions.csv"
    name = "probability_kind 0"
    predicted, trained = (pd.read_csv(path).set_index("node")[name] for path in paths)
    np.testing.assert_allclose(predicted, trained, atol=1e-5)
    edges.drop(columns="kind").to_csv(data, index=False)
    with pytest.raises(GraphError, match="no column 'kind', which the model reads; they have 'str"):
        predict_graph(run, data, tmp_path / "none.csv", reading=reading)


def test_model_trained_on_both_directions_of_edges_predicts_from_one_direction():
    edges, nodes = _network()
    opposite = edges.rename(columns={"source": "target", "target": "source"})
    both = pd.concat([edges, opposite], ignore_index=True)
    model = NodeClassifier(label="label", epochs=2, width=8, heads=2, **OPTIONS).fit((both, nodes))
    encoder = model.predictor_.encoder.edges
    assert encoder is not None
    assert not encoder.has_direction
    # The arcs of a table without opposite edges are read in both directions, as in training.
    assert np.isfinite(model.predict_proba((edges, nodes))).all()
    directed = NodeClassifier(label="label", epochs=2, width=8, heads=2, **OPTIONS)
    directed.fit((edges, nodes))
    assert np.isfinite(directed.predict_proba((both, nodes))).all()
