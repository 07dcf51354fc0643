"""Tests of files that are no edge list or name their nodes in unusual columns."""

import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.reading import read_graph


def _read(folder, name, text, **options):
    path = folder / name
    path.write_text(text)
    return read_graph_file(path, directed=True, **options)


def _pairs(graph):
    return sorted((graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist())


MATRIX = ",P0,P1,P2,P3\nP0,0,1,1,0\nP1,1,0,0,1.5\nP2,1,0,0,0\nP3,0,1,0,0\n"


def test_matrix_file_with_node_names_gives_weighted_edges(tmp_path):
    for name, text in (
        ("m.csv", MATRIX),
        ("m.csv", MATRIX.replace(",", ";")),
        ("m.csv", MATRIX.replace(",", ";").replace("1.5", "1,5")),
        ("m.tsv", MATRIX.replace(",", "\t")),
        ("m.txt", MATRIX),
        ("m.txt", MATRIX.replace(",", "\t")),
        ("m.txt", MATRIX.replace(",", " ")),
    ):
        graph = _read(tmp_path, name, text)
        edges = [("P0", "P1"), ("P0", "P2"), ("P1", "P0"), ("P1", "P3"), ("P2", "P0"), ("P3", "P1")]
        assert _pairs(graph) == edges
        assert graph.edge_table.table["weight"].tolist() == [1, 1, 1, 1.5, 1, 1]
        assert list(graph.edge_table.lines) == [2, 2, 3, 3, 4, 5]
        assert any("adjacency matrix with 6 edges" in note for note in graph.notes)


@pytest.mark.parametrize("name", ["m.txt", "m.csv"])
def test_nodes_of_a_matrix_file_without_names_are_numbered(tmp_path, name):
    matrix = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    np.savetxt(tmp_path / name, matrix, fmt="%d", delimiter=" " if name == "m.txt" else ",")
    graph = read_graph_file(tmp_path / name, directed=True)
    pairs = [(str(a), str(b)) for a, b in np.argwhere(matrix).tolist()]
    assert _pairs(graph) == pairs
    pd.DataFrame(matrix).to_csv(tmp_path / "m.csv", index=False)
    assert _pairs(read_graph_file(tmp_path / "m.csv", directed=True)) == pairs
    full = np.arange(1.0, 26.0).reshape(5, 5)
    np.savetxt(tmp_path / name, full, delimiter=" " if name == "m.txt" else ",")
    weights = read_graph_file(tmp_path / name).edge_table.table["weight"]
    # The edge table has no self-loops.
    assert weights.tolist() == full[~np.eye(5, dtype=bool)].tolist()


def test_source_and_target_columns_are_recognised_by_their_names(tmp_path):
    for header, ends in (
        ("source,target,weight", (0, 1)),
        (":START_ID(Person),weight:int,:END_ID(Person),:TYPE", (0, 2)),
        ("subject,predicate,object", (0, 2)),
        ("date,sender,receiver", (1, 2)),
        ("#node1,node2,node1_name,node2_name", (0, 1)),
        ("source_type,source,target_type,target", (1, 3)),
        ("timestamp,user,item", (1, 2)),
        ("source_ip,target_ip,packets", (0, 1)),
    ):
        width = header.count(",") + 1
        rows = [[f"{row}{field}" for field in "abcd"[:width]] for row in "xyz"]
        text = "\n".join([header, *map(",".join, rows)])
        expected = sorted((row[ends[0]], row[ends[1]]) for row in rows)
        graph = _read(tmp_path, "e.csv", text)
        assert _pairs(graph) == expected
        assert any("Edges point from column" in note for note in graph.notes)
        pd.read_csv(tmp_path / "e.csv").to_parquet(tmp_path / "e.parquet")
        assert (
            _pairs(read_graph_file(tmp_path / "e.parquet", directed=True, compact=True)) == expected
        )


def test_ambiguous_source_and_target_columns_require_options(tmp_path):
    ids = "source_id,target_id,source_name,target_name"
    for header in ("when,giver,taker", "gene,disease,score1,score2", ids, ",P1,P2,P3"):
        text = f"{header}\n" + "p,q,r,s\n"[: 2 * header.count(",") + 1] + "\n"
        with pytest.raises(GraphError, match=r"cannot choose .* set --source COL --target COL"):
            _read(tmp_path, "e.csv", text)
        ends = tuple(header.split(",")[1:3])
        assert _pairs(_read(tmp_path, "e.csv", text, source=ends[0], target=ends[1])) == [
            ("q", "r")
        ]
        with pytest.raises(GraphError, match="--source must name a column of the edges; got 'x'"):
            _read(tmp_path, "e.csv", text, source="x", target=ends[1])


def test_table_with_both_nodes_and_edges_raises_error(tmp_path):
    text = "_id,_labels,name,_start,_end,_type\n0,:Person,ann,,,\n1,:Person,bob,,,\n,,,0,1,KNOWS\n"
    with pytest.raises(GraphError, match="write them to two files"):
        _read(tmp_path, "e.csv", text)


def test_column_names_of_neo4j_exports_are_read(tmp_path):
    (tmp_path / "n.csv").write_text(
        "age:int,personId:ID(Person),:LABEL\n31,0,Person\n42,1,Person\n"
    )
    edges = ":START_ID(Person),:END_ID(Person)\n0,1\n1,0\n"
    graph = _read(tmp_path, "e.csv", edges, nodes=tmp_path / "n.csv")
    assert (graph.names, list(graph.table)) == (["0", "1"], ["age:int", ":LABEL"])
    assert _read(tmp_path, "e.csv", edges).names == ["0", "1"]


def test_text_file_of_another_graph_format_raises_error(tmp_path):
    for text, message in (
        ("/m/0\t/people/bornIn\t/m/1\n/m/2\t/people/bornIn\t/m/1\n", "--source 1 --target 3"),
        ("<u:a> <u:knows> <u:b> .\n<u:b> <u:knows> <u:c> .\n", "has 4 fields"),
        ("1 Ann Lee\n2 Bob\n#\n1 2 friend\n", "line 3 is '#' alone.*--nodes"),
        ("0 1 36 4\n1 2\n2 3\n2 4\n", "adjacency list"),
        ('*Vertices 2\n1 "a"\n*Edges\n1 2\n', "is Pajek's format"),
        ("p edge 3 2\ne 1 2\ne 2 3\n", "is the DIMACS format"),
        ("graph [\n  node [ id 1 ]\n]\n", "is GML or DOT"),
        ("@prefix ex: <http://e/> .\nex:a ex:b ex:c .\n", "is Turtle"),
    ):
        with pytest.raises(GraphError, match=message):
            _read(tmp_path, "e.txt", text)


def test_further_fields_of_an_edge_list_are_edge_columns(tmp_path):
    for text, ends, pairs, columns in (
        ("a pp b\nb pd c\n", ("1", "3"), [("a", "b"), ("b", "c")], ["2"]),
        ("head rel tail\na pp b\nb pd c\n", ("", ""), [("a", "b"), ("b", "c")], ["rel"]),
        ("day who whom\n1 a b\n2 b c\n", ("who", "whom"), [("a", "b"), ("b", "c")], ["day"]),
        ("1 2 7\n2 3 7\n3 4 7\n", ("", ""), [("1", "2"), ("2", "3"), ("3", "4")], []),
        ("a b 2024-01-31\nb c 2024-02-01\n", ("", ""), [("a", "b"), ("b", "c")], []),
    ):
        graph = _read(tmp_path, "e.txt", text, source=ends[0], target=ends[1])
        assert _pairs(graph) == pairs
        assert list(graph.edge_table.table) == columns


def test_equal_numbers_of_sources_and_targets_require_option_bipartite(tmp_path):
    text = "user_id,item_id\n0,0\n0,1\n1,0\n2,5\n"
    with pytest.raises(GraphError, match=r"2 numbers in common.*--bipartite.*--no-bipartite"):
        _read(tmp_path, "e.csv", text)
    assert _pairs(_read(tmp_path, "e.csv", text, bipartite=False)) == [
        ("0", "1"), ("1", "0"), ("2", "5"),
    ]  # fmt: skip
    separate = _read(tmp_path, "e.csv", text, bipartite=True)
    assert _pairs(separate)[0] == ("user_id 0", "item_id 0")
    assert (len(separate), separate.edge_index.shape[1]) == (6, 4)
    # Equal texts, a table of nodes, and different numbers are not ambiguous.
    assert len(_read(tmp_path, "e.csv", "person,friend\nann,bob\nbob,ann\n")) == 2
    assert len(_read(tmp_path, "e.csv", "user_id,item_id\n0,3\n1,4\n")) == 4
    (tmp_path / "n.csv").write_text("id\n0\n1\n2\n5\n")
    assert len(_read(tmp_path, "e.csv", text, nodes=tmp_path / "n.csv")) == 4
    with pytest.raises(GraphError, match="--bipartite is for edges without a table"):
        _read(tmp_path, "e.csv", text, nodes=tmp_path / "n.csv", bipartite=True)
    with pytest.raises(GraphError, match="numbers in common"):
        read_graph(pd.DataFrame({"user_id": [0, 1], "item_id": [1, 0]}))
    with pytest.raises(GraphError, match="numbers in common"):
        _read(tmp_path, "e.csv", ":START_ID(Person),:END_ID(Film),:TYPE\n0,1,SAW\n1,0,SAW\n")
