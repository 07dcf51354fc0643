"""Columns of tables: row numbers, words for missing values, and number formats."""

import re

import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.columns import learn_columns
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.labels import find_classes, read_labels
from gattn.apps.nodes.reading import read_graph

SMALL = {"width": 4, "heads": 2, "epochs": 2}


def _read(folder, edges, nodes=None, **options):
    (folder / "edges.csv").write_text(edges)
    table = None
    if nodes is not None:
        table = folder / "nodes.csv"
        table.write_text(nodes)
    return read_graph_file(folder / "edges.csv", table, directed=True, **options)


def _pairs(graph):
    return sorted((graph.names[a], graph.names[b]) for a, b in graph.edge_index.T.tolist())


ENDS = [("7", "8"), ("8", "9")]


def test_column_of_row_numbers_is_no_source_or_target(tmp_path):
    for text, skipped in (
        (",a,b\n0,7,8\n1,8,9\n", ["''"]),
        ('"","a","b"\n"1",7,8\n"2",8,9\n', ["''"]),
        ("Unnamed: 0.1,Unnamed: 0,a,b\n0,3,7,8\n1,5,8,9\n", ["'Unnamed: 0.1'", "'Unnamed: 0'"]),
        ("index,a,b,weight\n0,7,8,1\n1,8,9,2\n", ["'index'"]),
        (",target,source\n0,8,7\n1,9,8\n", ["''"]),
        ("a,b,\n7,8,\n8,9,\n", []),
        ("index,b\n7,8\n8,9\n", []),
    ):
        graph = _read(tmp_path, text)
        assert _pairs(graph) == ENDS
        notes = [note for note in graph.notes if "contains row numbers" in note]
        assert [note.split()[1] for note in notes] == [name.split()[0] for name in skipped]
        parsed = read_graph(pd.read_csv(tmp_path / "edges.csv"), directed=True)
        assert _pairs(parsed) == ENDS


def test_row_numbers_of_a_node_table_are_node_names_only_if_edges_contain_the_numbers(tmp_path):
    for text, names, columns in (
        (",person,age\n0,9,1\n1,8,2\n2,7,3\n", ["9", "8", "7"], ["age"]),
        ("index,person,age\n0,9,1\n1,8,2\n2,7,3\n", ["9", "8", "7"], ["age"]),
        ("index,age,id\n0,1,9\n1,2,8\n2,3,7\n", ["9", "8", "7"], ["age"]),
        (",age\n9,1\n8,2\n7,3\n", ["9", "8", "7"], ["age"]),
        ("Unnamed: 0\n9\n8\n7\n", ["9", "8", "7"], []),
    ):
        graph = _read(tmp_path, "source,target\n7,8\n8,9\n", text)
        assert graph.names == names
        assert graph.table.columns.tolist() == columns
        assert _pairs(graph) == ENDS
        nodes = pd.read_csv(tmp_path / "nodes.csv")
        assert read_graph((pd.read_csv(tmp_path / "edges.csv"), nodes)).names == names


def test_node_names_that_differ_only_in_notation_are_reported(tmp_path):
    for edges, ids, message in (
        (["4.0", "5.0"], ["4", "5"], "'4.0' in the edges and '4' in the table are the same number"),
        (["4", "5"], ["04", "05"], "'4' in the edges and '04' in the table are the same number"),
        (["Ann", "Bob"], ["ann", "bob"], "'Ann' in the edges and 'ann' in the table are the same"),
        (["\u00e9", "\u200bBob"], ["e\u0301", "Bob"], r"'\xe9' in the edges and 'e\u0301' in the"),
    ):
        ends = f"source,target\n{edges[0]},{edges[1]}\n"
        nodes = f"id,x\n{ids[0]},4.0\n{ids[1]},5.0\n"
        with pytest.raises(GraphError, match="no edge connects two nodes") as caught:
            _read(tmp_path, ends, nodes)
        assert message in str(caught.value)
        assert "written differently (2 names of the edges differ so): write the names" in str(
            caught.value
        )
        graph = _read(tmp_path, ends + "k,m\n", nodes + "k,1\nm,2\n")
        (note,) = (note for note in graph.notes if "left out" in note)
        assert message in note


@pytest.mark.parametrize("header", ["0,1", "5,6", "1.0,2.0", "x,"])
def test_edge_table_without_a_header_raises_error(tmp_path, header):
    with pytest.raises(GraphError, match=r"begin with a header|has no name in the header"):
        _read(tmp_path, f"{header}\n1,2\n2,3\n")


# Tests of missing values.


@pytest.mark.parametrize("word", ["NA", "none", "N/A"])
def test_words_such_as_na_are_valid_names_classes_and_categories(tmp_path, word):
    edges = f"source,target\n{word},b\nb,c\n"
    nodes = f"id,group,kind,age\n{word},{word},{word},1\nb,mild,x,{word}\nc,{word},,3\n"
    graph = _read(tmp_path, edges, nodes)
    assert graph.names == [word, "b", "c"]
    assert _pairs(graph) == sorted([(word, "b"), ("b", "c")])
    labels, notes = read_labels(graph, "group", classes=True)
    assert sorted(find_classes(labels)) == sorted([word, "mild"])
    assert any(f"contains {word!r} (2): in a column of texts" in note for note in notes)
    (age,), notes = learn_columns(graph.table, ["age"])
    assert (age.kind, age.mean, age.gaps) == ("number", 2.0, True)
    assert notes == [
        f"Column 'age' contains {word!r} (1): a missing value, because the other cells are numbers."
    ]
    gaps = _read(tmp_path, edges, nodes, missing=[word])
    assert gaps.table["group"].tolist() == [None, "mild", None]
    assert gaps.names == [word, "b", "c"]
    assert any(f"Column 'group': 2 cells with {word!r} are missing." in n for n in gaps.notes)


def test_word_among_numeric_labels_is_a_missing_label():
    names = [str(node) for node in range(30)]
    edges = pd.DataFrame({"source": names, "target": names[1:] + names[:1]})
    group = ["0", "1", "NA"] * 10
    nodes = pd.DataFrame({"id": names, "group": group, "x": range(30)})
    model = NodeClassifier(label="group", **SMALL).fit((edges, nodes))
    assert model.classes_.tolist() == ["0", "1"]
    assert int(model.y_.isnan().sum()) == 10
    assert "Label 'group' is missing for 10 of 30 nodes." in model.notes_
    nodes["score"] = ["1.5", "2", "NA"] * 10
    model = NodeRegressor(label="score", **SMALL).fit((edges, nodes.drop(columns="group")))
    assert int(model.y_.isnan().sum()) == 10
    assert model.y_[:2].tolist() == [1.5, 2]


# Tests of number formats.

COMMAS = [f"{i / 7:.2f}".replace(".", ",") for i in range(40)]


def test_numeric_column_with_texts_gives_a_note_that_describes_the_texts():
    for cells, pattern in (
        (COMMAS, r"with another decimal or thousands separator, for example '0,00' .*--decimal ,"),
        ([f"{i},{i:03}" for i in range(1, 41)], "use --decimal , or --thousands ,"),
        ([f"{i} nM" for i in range(40)], "40 cells in an unsupported .* example '0 nM'"),
        ([f">{i}" for i in range(40)], "40 cells with a relation.*, for example '>0'"),
        ([f"2020-01-{i % 28 + 1:02}" for i in range(40)], "unsupported number format"),
        ([*map(str, range(38)), "1,5", "old"], "1 cell with another .*; 1 cell with a text .*"),
    ):
        _, notes = learn_columns(pd.DataFrame({"c": cells}), ["c"])
        (message,) = (note for note in notes if "is read as texts, not as numbers" in note)
        assert re.search(pattern, message), message


def test_note_on_cells_that_no_option_reads_suggests_a_remedy(tmp_path):
    words = [[*map(str, range(38)), "old", "new"], ["old", *map(str, range(3)), *["new"] * 36]]
    for cells in ([f">{i}" for i in range(40)], [f"{i} nM" for i in range(40)], *words):
        nodes = "id,c\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
        graph = _read(tmp_path, "source,target\n0,1\n", nodes)
        _, (message, *_) = learn_columns(graph.table, ["c"], graph.where)
        assert "write numbers there, or leave the column out with --features" in message, message
        place = next(i for i, cell in enumerate(cells) if not cell.isdigit())
        assert f"at node '{place}' (line {place + 2})" in message
        with pytest.raises(GraphError, match=rf"at node '{place}' \(line {place + 2}\)"):
            NodeRegressor(label="c", features=[], **SMALL).fit(graph)


def test_numbers_of_node_tables_are_read_with_their_decimal_sign(tmp_path):
    for separator, options, cells, numbers in (
        (";", {}, ["0,5", "1,25", ""], [0.5, 1.25, np.nan]),
        (";", {}, ["1.008,5", "7,25", "NA"], [1008.5, 7.25, np.nan]),
        (";", {}, ["1,008", "2,345", "3,5"], [1.008, 2.345, 3.5]),
        (",", {"decimal": ","}, ["0,5", "1,25", "3"], [0.5, 1.25, 3]),
        (",", {"thousands": ","}, ["1,500", "2,700", "3.5"], [1500, 2700, 3.5]),
        (";", {"decimal": ",", "thousands": "."}, ["1.500", "2.700", "3"], [1500, 2700, 3]),
    ):
        rows = [f'{i}{separator}"{cell}"' for i, cell in enumerate(cells)]
        nodes = "\n".join([f"id{separator}score", *rows, ""])
        graph = _read(tmp_path, "source,target\n0,1\n1,2\n", nodes, **options)
        np.testing.assert_array_equal(graph.table["score"].to_numpy(float), numbers)
        assert any("Column 'score' is read with" in note for note in graph.notes)
