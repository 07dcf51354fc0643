"""Reading graphs from networkx, Data, tables and files; bad graphs are rejected."""

import networkx
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.reading import read_graph

EDGES = pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1, 2, 3]})
NODES = pd.DataFrame({"id": ["a", "b", "c", "d"], "age": [1.0, 2.0, None, 4.0]})


def _pairs(graph):
    """Return the edges as pairs of node names."""
    return {(graph.names[i], graph.names[j]) for i, j in graph.edge_index.T.tolist()}


def test_read_graph_builds_a_graph_from_tables_of_edges_and_nodes():
    graph = read_graph((EDGES, NODES))
    assert graph.names == ["a", "b", "c", "d"]
    assert _pairs(graph) == {(a, b) for one in ("ab", "bc", "ca") for a, b in (one, one[::-1])}
    assert list(graph.table.columns) == ["age"]
    assert any("1 node without an edge" in note for note in graph.notes)


def test_read_graph_keeps_directions_of_a_directed_table():
    assert _pairs(read_graph(EDGES, directed=True)) == {("a", "b"), ("b", "c"), ("c", "a")}


def test_equal_names_as_text_and_as_number_are_one_node():
    edges = pd.DataFrame({"source": [1, 2], "target": [2.0, None]})
    nodes = pd.DataFrame({"id": ["1", " 2"]})
    graph = read_graph((edges, nodes))
    assert _pairs(graph) == {("1", "2"), ("2", "1")}
    assert len(graph.left_out) == 1


def test_read_graph_of_networkx_keeps_attributes_and_notes_its_direction():
    source = networkx.DiGraph([("a", "b"), ("b", "b")])
    source.add_node("c", age=3, x=[1.0, 2.0])
    for name in "ab":
        source.nodes[name].update(age=1, x=[0.0, 0.0])
    graph = read_graph(source)
    assert _pairs(graph) == {("a", "b"), ("b", "a")}
    assert list(graph.table.columns) == ["age", "x.0", "x.1"]
    assert graph.table["x.1"].tolist() == [0.0, 0.0, 2.0]
    notes = " ".join(graph.notes)
    assert "messages are sent in both directions" in notes
    assert "1 self-loop removed" in notes
    assert _pairs(read_graph(source, directed=True)) == {("a", "b")}


def test_read_graph_of_pyg_data_removes_repeated_edges_and_keeps_attributes():
    pairs = torch.tensor([[0, 1, 1], [1, 2, 2]])
    data = Data(x=torch.eye(3), edge_index=pairs, y=torch.tensor([0, 1, 0]))
    graph = read_graph(data)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert torch.equal(graph.x, torch.eye(3))
    assert graph.table["y"].tolist() == [0, 1, 0]
    assert any("1 edge repeated" in note for note in graph.notes)


@pytest.mark.parametrize("ending", ["graphml", "gml", "gexf"])
def test_read_graph_file_reads_graphml_gml_and_gexf(tmp_path, ending):
    source = networkx.Graph([("a", "b")])
    networkx.set_node_attributes(source, {"a": 1.5, "b": 2.5}, "age")
    path = tmp_path / f"graph.{ending}"
    getattr(networkx, f"write_{ending}")(source, path)
    graph = read_graph_file(path)
    assert graph.column("age").tolist() == [1.5, 2.5]
    assert graph.edge_index.shape == (2, 2)


def test_gml_labels_are_node_names_only_if_all_labels_differ(tmp_path):
    path = tmp_path / "graph.gml"
    node = 'node [ id {} label "{}" kind "é" ]'
    for labels, names in (("ab", ["a", "b"]), ("aa", [0, 1])):
        nodes = " ".join(node.format(i, label) for i, label in enumerate(labels))
        path.write_text(f"graph [ {nodes} edge [ source 0 target 1 ] ]", "utf-8")
        graph = read_graph_file(path)
        assert graph.names == names
        assert graph.table["kind"].tolist() == ["é", "é"]
    path.write_text("graph [ node [ id 3 ] node [ id 5 ] edge [ source 3 target 5 ] ]")
    assert read_graph_file(path).names == [3, 5]


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv"])
def test_read_graph_file_reads_csv_tsv_and_parquet_tables(tmp_path, ending):
    paths = [tmp_path / f"{name}.{ending}" for name in ("edges", "nodes")]
    for path, table in zip(paths, (EDGES, NODES)):
        if ending == "parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False, sep={"csv": ";", "tsv": "\t"}[ending])
    graph = read_graph_file(*paths)
    assert graph.names == ["a", "b", "c", "d"]
    assert pd.to_numeric(graph.table["age"]).isna().tolist() == [False, False, True, False]


def test_edges_to_unknown_nodes_are_left_out_with_a_note(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n\na,zz\n")
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    graph = read_graph_file(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    (row,) = graph.left_out
    assert (row.line, row.text, row.reason) == (4, "a - zz", "there is no node 'zz'")
    assert any(note.startswith("1 edge left out") for note in graph.notes)


@pytest.mark.parametrize(("name", "noted"), [("1.2346E+17", 1), ("1E+11", 1), ("E+11", 0)])
def test_node_names_that_a_spreadsheet_has_rounded_give_a_note(tmp_path, name, noted):
    (tmp_path / "edges.csv").write_text(f"source,target\n{name},b\nb,c\n")
    notes = read_graph_file(tmp_path / "edges.csv").notes
    assert len([note for note in notes if f"such as {name!r}, are numbers" in note]) == noted


@pytest.mark.parametrize(
    ("name", "text", "nodes", "message"),
    [
        ("e.csv", "", None, "is empty; expected a graph"),
        ("e.csv", "source,target\n", None, "it has no edges"),
        ("e.csv", "source,target\na,b\nc\n", None, "line 3: 1 cell but the header has 2"),
        ("e.csv", "a,b\n1,2\n", "id\n1\n1\n", "table of nodes, must differ; lines 2, 3"),
        ("e.csv", "a,b\n1,2\n", "id,x\n1,2\n,2\n", "column 'id' is empty in line 3"),
        ("e.edges", "a\n", None, "line 1 must have two node names"),
        ("e.graphml", "<graphml>", None, "cannot be read as graphml"),
        ("e.csv", "a,b\nb,c\na,c\n", None, "begin with a header.* 'a' and 'b' are nodes"),
        ("e.csv", "a,b\nb,c\nc,d\n", None, "begin with a header.*, and 'b' is a node"),
        ("e.doc", "a b\n", None, "e.doc: its name must end in .graphml"),
    ],
)  # fmt: skip
def test_invalid_graph_file_raises_error_with_its_reason(tmp_path, name, text, nodes, message):
    path, table = tmp_path / name, None
    path.write_text(text)
    if nodes is not None:
        table = tmp_path / "nodes.csv"
        table.write_text(nodes)
    with pytest.raises(ValueError, match=message):
        read_graph_file(path, table)


def test_list_of_pairs_missing_file_or_unknown_column_raises_error():
    with pytest.raises(TypeError, match="got list"):
        read_graph([(0, 1)])
    with pytest.raises(FileNotFoundError, match="and it is not the name of a data set: cora"):
        read_graph_file("nowhere.csv")
    with pytest.raises(GraphError, match="no attribute 'kind'; they have 'age'"):
        read_graph((EDGES, NODES)).column("kind")


@pytest.mark.parametrize("edge", [(7, 0), (0, 7), (-1, 0)])
def test_edge_of_pyg_data_out_of_range_raises_error(edge):
    pairs = torch.tensor([[0, edge[0]], [1, edge[1]]])
    with pytest.raises(GraphError, match=f"edge 1 is {edge[0]} -> {edge[1]}"):
        read_graph(Data(edge_index=pairs, num_nodes=6))


@pytest.mark.parametrize("pairs", [torch.tensor([[0, 1, 2], [1, 2, 0], [2, 0, 1]]).t()[:, :2],
                                   torch.tensor([[0.0, 1.5], [1.0, 2.0]])])  # fmt: skip
def test_edge_index_of_pyg_data_of_wrong_shape_or_dtype_raises_error(pairs):
    with pytest.raises(GraphError, match=r"edge_index must be \[2, m\] whole numbers; got \("):
        read_graph(Data(edge_index=pairs, num_nodes=6))
    data = HeteroData(a={"num_nodes": 6, "y": torch.zeros(6)}, a__to__a={"edge_index": pairs})
    with pytest.raises(GraphError, match="edge_index of relation"):
        read_graph(data)
