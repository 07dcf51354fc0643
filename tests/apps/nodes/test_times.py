"""Times of nodes and edges: splits, times of prediction, and messages from the past."""

import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.edges import read_edge_columns
from gattn.apps.nodes.files import GraphReading
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack.propagation import Neighbours
from gattn.apps.nodes.times import node_times, prediction_times, time_cutoffs, time_split


def _graph(rows, header="source,target,w,kind", nodes=None):
    lines = [line.split(",") for line in rows.split()]
    edges = pd.DataFrame(lines, columns=header.split(","))
    names = sorted({*edges["source"], *edges["target"]})
    return read_graph((edges, pd.DataFrame({"id": names}) if nodes is None else nodes))


def _pairs(graph):
    names = graph.names
    return [(names[a], names[b]) for a, b in graph.edge_index.T.tolist()]


def test_messages_never_come_from_the_future():
    nodes = pd.DataFrame({"id": list("abcd"), "year": ["2001", "2002", "2002", "2000"]})
    graph, encoder, notes = read_edge_columns(
        _graph("a,b,1,x\nb,c,3,x\nd,b,4,y\n", nodes=nodes), EdgeColumns(time="year")
    )
    assert set(_pairs(graph)) == {("a", "b"), ("b", "c"), ("c", "b"), ("d", "b")}
    assert any("4 of 6 directions of edges" in note for note in notes)
    means = Neighbours.of(graph).means.toarray()
    assert means[0].sum() == means[3].sum() == 0
    assert encoder is not None
    assert encoder.has_edge_times is False
    # The prediction of a node does not depend on an edge of a later year.
    rows = "a,b,2001\nb,c,2003\nd,b,2001\n"
    later = _graph(rows, "source,target,year", nodes=nodes)
    later, encoder, _ = read_edge_columns(later, EdgeColumns(time="year"))
    assert set(_pairs(later)) == {("a", "b"), ("d", "b")}
    assert encoder is not None
    assert encoder.has_edge_times


def test_with_times_of_edges_a_node_is_predicted_at_the_end_of_its_part():
    """For the prediction of a node, its edges and the edges of its sources are left out if they are
    newer than the end of the node's part.
    """
    rows = "a,b,1\nb,a,2\na,c,3\nc,d,4\na,b,5\nd,e,6\nb,d,6\n"
    graph = _graph(rows, "source,target,day")
    y = torch.zeros(5)
    split, _ = time_split(y, node_times(graph, "day"), (0.6, 0.2, 0.2), "day")
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 1, 2], [3], [4]]
    cutoffs = time_cutoffs(graph, split, "day")
    assert cutoffs == (3.0, 4.0)
    assert prediction_times(graph, "day", cutoffs).tolist() == [3, 3, 3, 4, 6]
    attached, encoder, notes = read_edge_columns(graph, EdgeColumns(time="day", cutoffs=cutoffs))
    pairs = {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("c", "d"), ("d", "e")}
    assert set(_pairs(attached)) == pairs
    assert any("8 of 14 directions of edges" in note for note in notes)
    at = prediction_times(graph, "day", cutoffs)
    source, destination = attached.edge_index.numpy()
    assert (at[source] <= at[destination]).all()
    assert encoder is not None
    assert type(encoder).from_state(encoder.state()) == encoder
    # Without a split by time, all nodes are predicted with all edges.
    random = split.__class__(split.train, split.val, split.test, "random")
    assert time_cutoffs(graph, random, "day") == ()
    attached, _, _ = read_edge_columns(graph, EdgeColumns(time="day"))
    assert attached.edge_index.shape[1] == 2 * 7


def test_with_times_of_nodes_there_are_no_cutoffs():
    nodes = pd.DataFrame({"id": list("abc"), "day": [1, 2, 3]})
    graph = _graph("a,b,1,x\nb,c,2,x\n", nodes=nodes)
    split, _ = time_split(torch.zeros(3), node_times(graph, "day"), (0.4, 0.3, 0.3), "day")
    assert time_cutoffs(graph, split, "day") == ()
    assert prediction_times(graph, "day", ()).tolist() == [1, 2, 3]


def _interactions(nodes=120, edges=600):
    """Return interactions whose partners are mostly of the same class, and nodes in order."""
    draw = np.random.default_rng(0)
    label = draw.integers(2, size=nodes)
    rows = []
    for day in range(edges):
        seen = 2 + (nodes - 2) * (day + 1) // edges
        a = int(draw.integers(seen))
        others = np.flatnonzero(label[:seen] == label[a])
        others = others[others != a]
        b = int(draw.choice(others)) if len(others) and draw.random() < 0.9 else (a + 1) % seen
        rows.append((f"n{a}", f"n{b}", day))
    table = pd.DataFrame({"id": [f"n{i}" for i in range(nodes)], "x": draw.normal(size=nodes)})
    table["label"] = [f"kind {kind}" for kind in label]
    return pd.DataFrame(rows, columns=["source", "target", "day"]), table


def test_edges_after_the_end_of_a_part_do_not_change_its_predictions():
    edges, nodes = _interactions()
    model = NodeClassifier(model="gatv2", label="label", time="day", epochs=3, width=8, heads=2)
    model.fit((edges, nodes))
    assert model.graph_.edge_index.shape[1] > 1.5 * len(edges)
    encoder = model.predictor_.encoder.edges
    assert encoder is not None
    end = encoder.cutoffs[0]
    first = (
        pd.concat(
            [edges.rename(columns={end: "id"})[["id", "day"]] for end in ("source", "target")]
        )
        .groupby("id")["day"]
        .min()
    )
    old = nodes["id"].map(first).to_numpy() <= end
    assert 0.5 < old.mean() < 0.9
    late = edges.assign(target=edges["target"].where(edges["day"] <= end, "n0"))
    before, after = (model.predict_proba((table, nodes)) for table in (edges, late))
    np.testing.assert_allclose(after[old], before[old], rtol=1e-5, atol=1e-7)
    assert not np.allclose(after[~old], before[~old], atol=1e-4)


def test_a_run_on_interactions_predicts_its_network_as_in_training(tmp_path):
    edges, nodes = _interactions()
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    table = str(tmp_path / "nodes.csv")
    model = NodeSettings(epochs=3, width=8, heads=2)
    settings = NodeRunSettings(
        str(tmp_path / "edges.csv"), nodes=table, label="label", time="day", model=model
    )
    metrics = train_run(settings, tmp_path / "run")
    assert metrics["test"]["accuracy"] > 0.6
    reading = GraphReading(nodes=table)
    predict_graph(tmp_path / "run", settings.data, tmp_path / "out.csv", reading=reading)
    first, second = (
        pd.read_csv(path).set_index("node")["probability_kind 0"]
        for path in (tmp_path / "run" / "predictions.csv", tmp_path / "out.csv")
    )
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_a_split_by_time_keeps_equal_times_together():
    y = torch.zeros(10)
    y[9] = torch.nan
    times = np.array([3, 3, 3, 3, 3, 4, 4, 5, 6, 7.0])
    split, (note,) = time_split(y, times, (0.6, 0.2, 0.2), "year")
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [
        [0, 1, 2, 3, 4], [5, 6], [7, 8],
    ]  # fmt: skip
    assert "Split by column 'year': 5 oldest nodes" in note
    two, _ = time_split(y, times, (0.8, 0.2, 0.0), "year")
    assert (len(two.train), len(two.val), len(two.test)) == (7, 2, 0)
    with pytest.raises(GraphError, match=r"needs 3 different times of labelled nodes; .* has 2"):
        time_split(y, times % 2, (0.6, 0.2, 0.2), "year")


def test_a_node_has_the_time_of_its_first_edge():
    rows = "a,b,2020-01-03\nb,c,2020-01-02\n"
    graph = _graph(rows, "source,target,day", nodes=pd.DataFrame({"id": list("abcd")}))
    times = node_times(graph, "day")
    assert (times - times[1]).tolist()[:3] == [1, 0, 0]
    assert np.isnan(times[3])
    with pytest.raises(GraphError, match="neither the nodes nor the edges have a column 'when'"):
        node_times(graph, "when")
