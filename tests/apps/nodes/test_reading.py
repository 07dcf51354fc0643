"""Reading graphs from networkx, Data, tables and files; bad graphs are rejected."""

import networkx
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.splits import masked_split

EDGES = pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1, 2, 3]})
NODES = pd.DataFrame({"id": ["a", "b", "c", "d"], "age": [1.0, 2.0, None, 4.0]})


def _pairs(graph):
    """Return the edges as pairs of node names."""
    return {(graph.names[i], graph.names[j]) for i, j in graph.edge_index.T.tolist()}


def test_tables_of_edges_and_nodes_become_a_graph():
    graph = read_graph((EDGES, NODES))
    assert graph.names == ["a", "b", "c", "d"]
    assert _pairs(graph) == {(a, b) for one in ("ab", "bc", "ca") for a, b in (one, one[::-1])}
    assert list(graph.table.columns) == ["age"]
    assert any("1 node without an edge" in note for note in graph.notes)


def test_directed_tables_keep_their_directions():
    assert _pairs(read_graph(EDGES, directed=True)) == {("a", "b"), ("b", "c"), ("c", "a")}


def test_names_are_the_same_as_text_and_as_number():
    edges = pd.DataFrame({"source": [1, 2], "target": [2.0, None]})
    nodes = pd.DataFrame({"id": ["1", " 2"]})
    graph = read_graph((edges, nodes))
    assert _pairs(graph) == {("1", "2"), ("2", "1")}
    assert len(graph.left_out) == 1


def test_networkx_keeps_attributes_and_says_that_it_was_directed():
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


def test_data_is_taken_as_it_is():
    pairs = torch.tensor([[0, 1, 1], [1, 2, 2]])
    data = Data(x=torch.eye(3), edge_index=pairs, y=torch.tensor([0, 1, 0]))
    graph = read_graph(data)
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert torch.equal(graph.x, torch.eye(3))
    assert graph.table["y"].tolist() == [0, 1, 0]
    assert any("1 edge repeated" in note for note in graph.notes)


@pytest.mark.parametrize("ending", ["graphml", "gml", "gexf"])
def test_marked_up_files(tmp_path, ending):
    source = networkx.Graph([("a", "b")])
    networkx.set_node_attributes(source, {"a": 1.5, "b": 2.5}, "age")
    path = tmp_path / f"graph.{ending}"
    getattr(networkx, f"write_{ending}")(source, path)
    graph = read_graph_file(path)
    assert graph.column("age").tolist() == [1.5, 2.5]
    assert graph.edge_index.shape == (2, 2)


def test_gml_is_named_by_labels_where_they_differ(tmp_path):
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


def test_what_gexf_says_of_every_node_is_no_attribute(tmp_path):
    source = networkx.Graph([("a", "b")])
    for node in source:  # Gephi writes the position of each node in the drawing
        source.nodes[node]["viz"] = {"position": {"x": 1.0, "y": 2.0, "z": 0.0}}
    networkx.write_gexf(source, tmp_path / "graph.gexf")
    graph = read_graph_file(tmp_path / "graph.gexf")
    assert graph.table.columns.empty
    assert "Attribute 'viz' contains dictionaries: it is not used." in graph.notes


def test_a_table_without_edges_has_the_nodes_of_its_table(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n")
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    graph = read_graph_file(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    assert (len(graph), graph.edge_index.shape) == (2, (2, 0))
    assert any("2 nodes without an edge" in note for note in graph.notes)


def test_the_index_of_a_table_may_name_its_nodes():
    graph = read_graph((EDGES, NODES.set_index("id")))
    assert graph.names == ["a", "b", "c", "d"]
    # Nodes may have the names of the columns.
    words = pd.DataFrame({"from": ["to", "from"], "to": ["from", "us"]})
    assert sorted(read_graph(words).names) == ["from", "to", "us"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "tsv"])
def test_tables_in_files(tmp_path, ending):
    paths = [tmp_path / f"{name}.{ending}" for name in ("edges", "nodes")]
    for path, table in zip(paths, (EDGES, NODES)):
        if ending == "parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False, sep={"csv": ";", "tsv": "\t"}[ending])
    graph = read_graph_file(*paths)
    assert graph.names == ["a", "b", "c", "d"]
    assert pd.to_numeric(graph.table["age"]).isna().tolist() == [False, False, True, False]


def test_attributes_of_edges_are_columns_of_the_edges():
    edges = pd.DataFrame({"from": [0], "to": [1], "weight": [2.0], "since": [1999]})
    graph = networkx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"since": 1999})])
    for table in (read_graph(edges).edge_table, read_graph(graph).edge_table):
        assert table is not None
        assert table.table.columns.tolist() == ["weight", "since"]
    assert read_graph(networkx.path_graph(3)).edge_table is None


def test_edges_to_nodes_that_there_are_not_are_left_out_and_told(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n\na,zz\n")
    (tmp_path / "nodes.csv").write_text("id\na\nb\n")
    graph = read_graph_file(tmp_path / "edges.csv", tmp_path / "nodes.csv")
    (row,) = graph.left_out
    assert (row.line, row.text, row.reason) == (4, "a - zz", "there is no node 'zz'")
    assert any(note.startswith("1 edge left out") for note in graph.notes)


@pytest.mark.parametrize(
    ("name", "text", "nodes", "message"),
    [
        ("e.csv", "", None, "is empty; expected a graph"),
        ("e.csv", "source,target\n", None, "it has no edges"),
        ("e.csv", "source\na\n", None, "needs two columns"),
        ("e.csv", "source,target\na,b\nc\n", None, "line 3: 1 cell but the header has 2"),
        ("e.csv", "a,b\n1,2\n", "id\n1\n1\n", "must differ; lines 2, 3 are all '1'"),
        ("e.csv", "a,b\n1,2\n", "id,x\n1,2\n,2\n", "column 'id' is empty in line 3"),
        ("e.csv", "a,b\n1,2\n", "id\n", "has no nodes"),
        ("e.edges", "a\n", None, "line 1 must have two node names"),
        ("e.graphml", "<graphml>", None, "cannot be read as graphml"),
        ("e.csv", "a,b\nb,c\na,c\n", None, "begin with a header.* 'a' and 'b', which"),
        ("e.csv", "source,target\n1,2\n", "age,a\n7,1\n7,2\n", "which are in column 'age', must"),
        ("e.graphml", "<graphml/>", None, "cannot be read as graphml"),
        ("e.gml", "graph [ ]", None, "the graph has no nodes"),
        ("e.parquet", "PAR0", None, "is not a Parquet file"),
        ("e.doc", "a b\n", None, "must end in .graphml"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(tmp_path, name, text, nodes, message):
    path, table = tmp_path / name, None
    path.write_text(text)
    if nodes is not None:
        table = tmp_path / "nodes.csv"
        table.write_text(nodes)
    with pytest.raises(ValueError, match=message):
        read_graph_file(path, table)


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="got list"):
        read_graph([(0, 1)])
    with pytest.raises(FileNotFoundError, match="and it is not the name of a data set: cora"):
        read_graph_file("nowhere.csv")
    with pytest.raises(GraphError, match="no attribute 'kind'; they have 'age'"):
        read_graph((EDGES, NODES)).column("kind")


def test_masks_are_read_as_they_are_written():
    y = torch.zeros(3, dtype=torch.float64)
    words = {"train_mask": ["True", "False", ""], "val_mask": ["0", "1", "NA"]}
    table = pd.DataFrame({"id": ["a", "b", "c"], **words, "test_mask": [False, None, True]})
    split, notes = masked_split(read_graph((EDGES, table)), y, 0, by_class=True)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1], [2]]
    assert (split.protocol, notes) == ("public", [])
    table["val_mask"] = ["no", "1", "0"]
    with pytest.raises(GraphError, match="val_mask must contain true and false; it contains 'no'"):
        masked_split(read_graph((EDGES, table)), y, 0, by_class=True)


@pytest.mark.parametrize("edge", [(7, 0), (0, 7), (-1, 0)])
def test_edges_of_data_are_within_range(edge):
    pairs = torch.tensor([[0, edge[0]], [1, edge[1]]])
    with pytest.raises(GraphError, match=f"edge 1 is {edge[0]} -> {edge[1]}"):
        read_graph(Data(edge_index=pairs, num_nodes=6))


def test_masks_of_several_splits_are_refused_where_they_are_needed():
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, train_mask=torch.ones(2, 10))
    graph = read_graph(data)
    with pytest.raises(GraphError, match=r"train_mask must .* it is \(2, 10\): choose one"):
        masked_split(graph, torch.zeros(2), 0, by_class=True)
    x = torch.tensor([[1.0], [torch.nan]])
    with pytest.raises(GraphError, match="x must be finite"):
        read_graph(Data(edge_index=data.edge_index, x=x))
    with pytest.raises(
        GraphError, match=r"x must be \[n, d\], with one row for each node; got \(2, 1, 1\)"
    ):
        read_graph(Data(edge_index=data.edge_index, x=x[:, None]))


def test_a_column_is_one_end_only():
    graph = read_graph(pd.DataFrame({"to": ["b", "c"], "by": ["a", "a"]}), directed=True)
    assert _pairs(graph) == {("a", "b"), ("a", "c")}


def test_a_list_may_have_a_mark_and_commas(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("\ufeff0, 1\n0,2\n", encoding="utf-8")
    assert sorted(read_graph_file(path).names) == ["0", "1", "2"]
    assert sorted(read_graph_file(path, encoding="utf-8").names) == ["0", "1", "2"]
    path.write_bytes("å b\n".encode("latin-1"))
    assert read_graph_file(path, encoding="latin-1").names == ["å", "b"]
    with pytest.raises(GraphError, match=r"edges\.txt: it is not UTF-8 text.*set its encoding"):
        read_graph_file(path)
    with pytest.raises(GraphError, match="unknown encoding 'latin-99'"):
        read_graph_file(path, encoding="latin-99")
