"""Times of nodes and edges: splits, times of prediction, and messages from the past."""

import msgspec
import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edges import EdgeColumns, EdgeEncoder, read_edge_columns
from gattn.apps.nodes.reading import read_graph
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


def test_messages_from_later_nodes_and_along_later_edges_are_omitted():
    nodes = pd.DataFrame({"id": list("abcd"), "year": ["2001", "2002", "2002", "2000"]})
    graph, encoder, notes = read_edge_columns(
        _graph("a,b,1,x\nb,c,3,x\nd,b,4,y\n", nodes=nodes), EdgeColumns(time="year")
    )
    assert set(_pairs(graph)) == {("a", "b"), ("b", "c"), ("c", "b"), ("d", "b")}
    assert any("4 of 6 directions of edges" in note for note in notes)
    both = _graph("a,b,1,x\nb,a,1,x\n", nodes=nodes)
    assert "1 of 2 directions" in str(read_edge_columns(both, EdgeColumns(time="year"))[2])
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


def test_nodes_are_predicted_at_the_last_time_of_their_split_if_edges_have_times():
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
    assert msgspec.convert(msgspec.to_builtins(encoder), EdgeEncoder) == encoder
    # Without a split by time, all nodes are predicted with all edges.
    random = split.__class__(split.train, split.val, split.test, "random")
    assert time_cutoffs(graph, random, "day") == ()
    attached, _, _ = read_edge_columns(graph, EdgeColumns(time="day"))
    assert attached.edge_index.shape[1] == 2 * 7


def test_time_split_puts_nodes_of_equal_time_into_one_set():
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


def test_time_of_a_node_is_that_of_its_first_edge_if_nodes_have_no_times():
    rows = "a,b,2020-01-03\nb,c,2020-01-02\n"
    graph = _graph(rows, "source,target,day", nodes=pd.DataFrame({"id": list("abcd")}))
    times = node_times(graph, "day")
    assert (times - times[1]).tolist()[:3] == [1, 0, 0]
    assert np.isnan(times[3])
    with pytest.raises(GraphError, match="neither the nodes nor the edges have a column 'when'"):
        node_times(graph, "when")
