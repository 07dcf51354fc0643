"""Tests of edge lists in the formats that networkx, SNAP, KONECT and users write."""

import networkx
import pytest

from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file


def _read(folder, text, nodes=None, encoding="utf-8", **options):
    path, table = folder / "edges.txt", None
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    if nodes is not None:
        table = folder / "nodes.csv"
        table.write_text(nodes)
    return read_graph_file(path, table, directed=True, **options)


def _pairs(graph):
    return sorted((graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist())


AB = [("a", "b"), ("b", "c")]


def test_edge_list_is_read_with_one_separator_for_the_whole_file(tmp_path):
    for text, pairs in (
        ("a b 0,5\nb c 1,25\n", AB),
        ("a;b;0,5\nb;c;1\n", AB),
        ("a, b, 0.5\nb, c\n", AB),
        ("a|b\nb|c\n", AB),
        ("  a   b\n\n\tb \t c  \n", AB),
        ("a b\rb c\r", AB),
        ("java,c#\njava,c\n", [("java", "c"), ("java", "c#")]),
        ("%a 50%\n", [("%a", "50%")]),
        ('"Ann Lee" "Bob Ray" 3\n"x, y" z\n', [("Ann Lee", "Bob Ray"), ("x, y", "z")]),
        ('"Ann, Lee","Bob ""B"" Ray"\n', [("Ann, Lee", 'Bob "B" Ray')]),
        ("sp|P1|A sp|P2|B\n", [("sp|P1|A", "sp|P2|B")]),
        ("NA DE\nnone null\nnan NA\n", [("NA", "DE"), ("nan", "NA"), ("none", "null")]),
        ("New York,Los Angeles,0,5\n", [("New York", "Los Angeles")]),
        ("a b {'weight': 1.0, 'kind': 'friend', 'at': {'x': 1}}\nb c {}\n", AB),
        ("a,b,{'weight': 1.0, 'kind': 'x,y'}\nb,c,{}\n", AB),
    ):
        assert _pairs(_read(tmp_path, text)) == pairs


@pytest.mark.parametrize(
    ("delimiter", "data", "kind"),
    [
        (" ", True, "Graph"), ("\t", True, "DiGraph"), (",", True, "MultiGraph"),
        (";", True, "Graph"), (" ", ["weight"], "MultiGraph"), (",", ["weight"], "Graph"),
        ("\t", False, "Graph"),
    ],
)  # fmt: skip
def test_edge_list_of_networkx_is_read_with_each_delimiter_and_data_option(
    tmp_path, delimiter, data, kind
):
    source = getattr(networkx, kind)()
    source.add_edge("ann", "bob", weight=1.0, kind="friend", tags=["a", "b"], note="x {y}, z")
    source.add_edge("bob", "cem", weight=0.5, kind="boss, too")
    networkx.write_edgelist(source, tmp_path / "g.edgelist", delimiter=delimiter, data=data)
    graph = read_graph_file(tmp_path / "g.edgelist", directed=True)
    assert _pairs(graph) == [("ann", "bob"), ("bob", "cem")]


@pytest.mark.parametrize(
    "header", ["%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n", "% sym weighted\n"]
)
def test_edge_of_a_symmetric_matrix_file_has_both_directions(tmp_path, header):
    path = tmp_path / "g.edges"
    path.write_text(f"{header}2 1 0.5\n3 2 0.7\n")
    graph = read_graph_file(path, directed=True)
    assert not graph.directed
    assert _pairs(graph) == [("1", "2"), ("2", "1"), ("2", "3"), ("3", "2")]
    assert any("both directions of every edge" in note for note in graph.notes)


def test_comment_lines_of_an_edge_list_are_skipped_and_counted(tmp_path):
    for text, comments in (
        ("# a comment\na b\nb c\n", 1),
        ("% asym unweighted\n% 2 3 3\na b\nb c\n", 2),
        ("#\n#####\n## title\n%\na b\n  # within\nb c\n", 5),
        ("%%MatrixMarket matrix coordinate pattern general\n%\n3 3 2\na b\nb c\n", 3),
        ("%%MatrixMarket matrix coordinate pattern general\n%size\n3 3 2\na b\nb c\n", 3),
    ):
        graph = _read(tmp_path, text)
        assert _pairs(graph) == AB
        assert any(note.startswith(f"{comments} comment line") for note in graph.notes)


def test_header_of_an_edge_list_is_not_read_as_an_edge(tmp_path):
    for text, is_header in (
        ("source target weight\na b 1\nb c 2\n", True),
        ("#source,target\na,b\nb,c\n", True),
        ("person friend since\na b 1999\nb c 2001\n", True),
        ("u v\nv w\n", False),
        ("u v\n", False),
    ):
        graph = _read(tmp_path, text)
        assert (_pairs(graph) == AB) == is_header
        assert any("Line 1 is read as a header" in note for note in graph.notes) == is_header
        numbered = _read(tmp_path, "user1 user2\n1 2\n2 3\n")
        assert _pairs(numbered) == [("1", "2"), ("2", "3")]


def test_encoding_of_an_edge_list_is_its_byte_order_mark_or_the_option(tmp_path):
    for text, encoding, named in (
        *(("é\tb\n", "utf-16", None), ("é b\n", "utf-8-sig", None)),
        *(("é b\n", "utf-8-sig", "utf-8"), ("é b\n", "cp1252", "cp1252")),
    ):
        path = tmp_path / "edges.txt"
        path.write_bytes(text.encode(encoding))
        assert _pairs(read_graph_file(path, directed=True, encoding=named)) == [("é", "b")]


def test_edge_list_that_cannot_be_read_raises_error(tmp_path):
    for text, nodes, message in (
        ("1 2\n2,3\n", None, "same separator; line 2 has commas, '2,3'"),
        ("Ann Lee,Bob\nCem Dan\n", None, "line 1 has commas"),
        ("a b\nb\n", None, "line 2 must have two node names; got 'b'"),
        ('"Ann Lee Bob\n', None, "quote that is not closed"),
        ("# a\n% b\n", None, "it has no edges; 2 comment lines not read"),
        ("a a\nb b\n", "id\na\nb\n", "no edge remains: each of 2 joins a node to itself"),
        ("x y\n", "id\na\nb\n", "no edge connects two nodes .* 'x'"),
        ("a b\n".encode("utf-16-le"), None, "NUL bytes; set its encoding"),
        ("(a, b)\n(b, c)\n", None, "line 1, .* is a list of Python"),
        ("[0, 1],\n[1, 2]\n", None, "line 1, .* is a list of Python"),
        ("[(0, 1), (1, 2)]\n", None, "line 1, .* is a list of Python"),
    ):
        with pytest.raises(GraphError, match=message):
            _read(tmp_path, text, nodes)


@pytest.mark.parametrize(("first", "noted"), [("4 3", True), ("9 3", True), ("4 2", False)])
def test_first_line_that_may_be_numbers_of_nodes_and_edges_gives_a_note(tmp_path, first, noted):
    graph = _read(tmp_path, f"{first}\n1 2\n2 3\n3 4\n")
    assert any(note.startswith(f"Line 1, '{first}', may be") for note in graph.notes) == noted


def test_note_on_an_edge_list_states_the_first_edge_and_ignored_text(tmp_path):
    graph = _read(tmp_path, "a,b # note,3\n")
    assert "Names are separated by commas; the first edge is 'a' - 'b # note'." in graph.notes
    assert any(
        "the text after the fields of an edge, for example '3'" in note for note in graph.notes
    )
