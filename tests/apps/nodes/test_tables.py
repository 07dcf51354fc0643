"""Columns of tables: row numbers, words for missing values, and number formats."""

import re

import numpy as np
import pandas as pd
import pytest

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.columns import learn_columns, write_features
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


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        (",a,b\n0,7,8\n1,8,9\n", ["''"]),
        ('"","a","b"\n"1",7,8\n"2",8,9\n', ["''"]),
        ("Unnamed: 0,a,b\n4,7,8\n9,8,9\n", ["'Unnamed: 0'"]),
        ("Unnamed: 0.1,Unnamed: 0,a,b\n0,3,7,8\n1,5,8,9\n", ["'Unnamed: 0.1'", "'Unnamed: 0'"]),
        ("index,a,b,weight\n0,7,8,1\n1,8,9,2\n", ["'index'"]),
        ("level_0,index,a,b\n0,0,7,8\n1,1,8,9\n", ["'level_0'", "'index'"]),
        (",target,source\n0,8,7\n1,9,8\n", ["''"]),
        ("a,b,\n7,8,\n8,9,\n", []),
        (",b\n7,8\n8,9\n", []),
        ("index,b\n7,8\n8,9\n", []),
    ],
)
def test_a_column_of_row_numbers_is_no_end_of_edges(tmp_path, text, skipped):
    graph = _read(tmp_path, text)
    assert _pairs(graph) == ENDS
    notes = [note for note in graph.notes if "contains row numbers" in note]
    assert [note.split()[1] for note in notes] == [name.split()[0] for name in skipped]
    parsed = read_graph(pd.read_csv(tmp_path / "edges.csv"), directed=True)
    assert _pairs(parsed) == ENDS


@pytest.mark.parametrize(
    ("text", "names", "columns"),
    [
        (",person,age\n0,9,1\n1,8,2\n2,7,3\n", ["9", "8", "7"], ["age"]),
        ("index,person,age\n0,9,1\n1,8,2\n2,7,3\n", ["9", "8", "7"], ["age"]),
        ("index,age,id\n0,1,9\n1,2,8\n2,3,7\n", ["9", "8", "7"], ["age"]),
        (",id,age\n0,9,1\n1,8,2\n2,7,3\n", ["9", "8", "7"], ["age"]),
        (",age\n9,1\n8,2\n7,3\n", ["9", "8", "7"], ["age"]),
        (",group\n9,x\n8,x\n7,y\n", ["9", "8", "7"], ["group"]),
        ("Unnamed: 0\n9\n8\n7\n", ["9", "8", "7"], []),
    ],
)
def test_a_column_of_row_numbers_names_nodes_only_where_edges_use_it(
    tmp_path, text, names, columns
):
    graph = _read(tmp_path, "source,target\n7,8\n8,9\n", text)
    assert graph.names == names
    assert graph.table.columns.tolist() == columns
    assert _pairs(graph) == ENDS
    nodes = pd.read_csv(tmp_path / "nodes.csv")
    assert read_graph((pd.read_csv(tmp_path / "edges.csv"), nodes)).names == names


def test_the_node_of_a_table_with_an_index_has_its_own_row(tmp_path):
    edges = pd.DataFrame({"source": [5, 2], "target": [1, 0]})
    people = pd.DataFrame({"person": [7, 6, 5, 0, 1, 2], "group": list("xyzuvw")})
    people.to_csv(tmp_path / "n.csv")
    edges.to_csv(tmp_path / "e.csv")
    graph = read_graph_file(tmp_path / "e.csv", tmp_path / "n.csv")
    assert graph.table["group"][graph.names.index("5")] == "z"
    assert read_graph((edges, people)).names == graph.names


def test_an_index_without_a_name_names_nodes_where_edges_use_it():
    nodes = pd.DataFrame({"group": ["x", "x"]}, index=["a", "b"])
    graph = read_graph((pd.DataFrame({"source": ["a"], "target": ["b"]}), nodes))
    assert graph.names == ["a", "b"]
    assert any(
        "The names of the nodes are in the index of the table" in note for note in graph.notes
    )


def test_names_that_the_table_does_not_have_are_counted(tmp_path):
    graph = _read(tmp_path, "source,target\n0,1\n1,2\n7,8\n9,\n", "id,x\n0,1\n1,2\n")
    (message,) = (note for note in graph.notes if "left out" in note)
    assert "3 edges left out of 4" in message
    assert graph.left_out[-1].text == "9 - (empty)"


@pytest.mark.parametrize(
    ("edges", "ids", "message"),
    [
        (["4.0", "5.0"], ["4", "5"], "'4.0' in the edges and '4' in the table are the same number"),
        (["4", "5"], ["04", "05"], "'4' in the edges and '04' in the table are the same number"),
        (["4e0", "5"], ["4.0", "05"], "'4e0' in the edges and '4.0' in the table are the same num"),
        (["Ann", "Bob"], ["ann", "bob"], "'Ann' in the edges and 'ann' in the table are the same"),
    ],
)
def test_names_that_are_written_differently_are_said(tmp_path, edges, ids, message):
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


@pytest.mark.parametrize("header", ["0,1", "5,6", "1.0,2.0"])
def test_a_table_of_edges_without_a_header_is_refused(tmp_path, header):
    with pytest.raises(GraphError, match="begin with a header"):
        _read(tmp_path, f"{header}\n1,2\n2,3\n")


def test_columns_of_one_name_are_an_error_where_they_are_needed(tmp_path):
    nodes = "id,c,c,d\n7,1,2,3\n8,4,5,6\n9,1,1,1\n"
    graph = _read(tmp_path, "source,target,w,w\n7,8,1,1\n8,9,1,1\n", nodes)
    assert graph.table.columns.tolist() == ["d"]
    with pytest.raises(GraphError, match="several are called 'c'"):
        graph.column("c")
    with pytest.raises(GraphError, match="columns of edges must have different names"):
        _read(tmp_path, "source,source\n7,8\n")
    with pytest.raises(GraphError, match="several are called 'id', which names the nodes"):
        _read(tmp_path, "source,target\n7,8\n", "id,id\n7,8\n")


# Tests of missing values.


@pytest.mark.parametrize("word", ["NA", "none", "N/A"])
def test_words_for_gaps_are_names_and_classes_and_categories(tmp_path, word):
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


def test_a_word_among_numbers_is_a_gap_of_labels():
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


def test_a_category_that_looks_like_a_gap_has_a_feature_and_is_said():
    table = pd.DataFrame({"country": ["NA", "DE", "", "NA", "DE"]})
    (column,), notes = learn_columns(table, ["country"])
    assert column.categories == ("DE", "NA")
    assert write_features([column], table).toarray().tolist() == [
        [0, 1], [1, 0], [0, 0], [0, 1], [1, 0],
    ]  # fmt: skip
    assert notes == [
        "Column 'country' contains 'NA' (2): in a column of texts such a word is a value, "
        "and only an empty cell is missing. If the word stands for a missing value, list it "
        "in --missing."
    ]


# Tests of number formats.

COMMAS = [f"{i / 7:.2f}".replace(".", ",") for i in range(40)]


@pytest.mark.parametrize(
    ("cells", "pattern"),
    [
        (COMMAS, r"with a decimal comma .*, for example '0,00' .*--decimal ,"),
        ([f"{i},{i:03}" for i in range(1, 41)], "use --decimal , or --thousands ,"),
        ([f"{i} nM" for i in range(40)], "40 cells in an unsupported .* example '0 nM'"),
        ([f"{i} %" for i in range(40)], "40 cells in an unsupported .* example '0 %'"),
        ([f">{i}" for i in range(40)], "40 cells with a relation.*, for example '>0'"),
        ([f"2020-01-{i % 28 + 1:02}" for i in range(40)], "unsupported number format"),
        (
            [*map(str, range(38)), "1,5", "old"],
            "1 cell with a decimal.*; 1 cell with a text .* 'old'",
        ),
    ],
)
def test_what_keeps_a_column_from_being_numbers_is_said(cells, pattern):
    _, notes = learn_columns(pd.DataFrame({"c": cells}), ["c"])
    (message,) = (note for note in notes if "is read as texts, not as numbers" in note)
    assert re.search(pattern, message), message


@pytest.mark.parametrize(
    "cells",
    [
        [f">{i}" for i in range(40)],
        [f"{i} nM" for i in range(40)],
        [f"{i}-{i + 5}" for i in range(40)],
        [*map(str, range(38)), "old", "new"],
        ["old", *map(str, range(3)), *["new"] * 36],
    ],
)
def test_cells_that_no_option_reads_have_a_remedy(tmp_path, cells):
    nodes = "id,c\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells))
    graph = _read(tmp_path, "source,target\n0,1\n", nodes)
    _, (message, *_) = learn_columns(graph.table, ["c"], graph.where)
    assert "write numbers there, or leave the column out with --features" in message, message
    place = next(i for i, cell in enumerate(cells) if not cell.isdigit())
    assert f"at node '{place}' (line {place + 2})" in message
    with pytest.raises(GraphError, match=rf"at node '{place}' \(line {place + 2}\).*leave these"):
        NodeRegressor(label="c", features=[], **SMALL).fit(graph)


def test_cells_that_an_option_reads_have_the_option_alone():
    _, (message,) = learn_columns(pd.DataFrame({"c": COMMAS}), ["c"])
    assert "--decimal ," in message
    assert "--features" not in message


@pytest.mark.parametrize(
    ("separator", "options", "cells", "numbers"),
    [
        (";", {}, ["0,5", "1,25", ""], [0.5, 1.25, np.nan]),
        (";", {}, ["1.008,5", "7,25", "NA"], [1008.5, 7.25, np.nan]),
        (";", {}, ["1,008", "2,345", "3,5"], [1.008, 2.345, 3.5]),
        (";", {}, ["-0,5", "1", "2,5"], [-0.5, 1, 2.5]),
        (",", {"decimal": ","}, ["0,5", "1,25", "3"], [0.5, 1.25, 3]),
        (",", {"decimal": ",", "thousands": "."}, ["1.500", "2.700", "3,5"], [1500, 2700, 3.5]),
        (",", {"thousands": ","}, ["1,500", "2,700", "3.5"], [1500, 2700, 3.5]),
        (";", {"decimal": ",", "thousands": "."}, ["1.500", "2.700", "3"], [1500, 2700, 3]),
        (",", {"thousands": " "}, ["1 500", "2 700", "3"], [1500, 2700, 3]),
    ],
)
def test_numbers_of_tables_are_read_as_they_are_written(
    tmp_path, separator, options, cells, numbers
):
    rows = [f'{i}{separator}"{cell}"' for i, cell in enumerate(cells)]
    nodes = "\n".join([f"id{separator}score", *rows, ""])
    graph = _read(tmp_path, "source,target\n0,1\n1,2\n", nodes, **options)
    np.testing.assert_array_equal(graph.table["score"].to_numpy(float), numbers)
    assert any("Column 'score' is read with" in note for note in graph.notes)


def test_commas_without_an_option_stay_and_points_beside_commas_are_said(tmp_path):
    edges = "source,target\n0,1\n"
    graph = _read(tmp_path, edges, 'id,s\n0,"0,5"\n1,"1,5"\n')
    assert graph.table["s"].tolist() == ["0,5", "1,5"]
    graph = _read(tmp_path, edges, "id;s;pop\n0;0,5;1.500\n1;1,5;2.700\n")
    assert any("Column 'pop' has points, for example '1.500'" in note for note in graph.notes)
    graph = _read(tmp_path, edges, "id,s\n0,1.5\n1,2.5\n", decimal=",")
    assert learn_columns(graph.table, ["s"])[0][0].mean == 2
    with pytest.raises(ValueError, match="decimal and thousands must be different"):
        _read(tmp_path, edges, decimal=",", thousands=",")


def test_labels_with_a_decimal_comma_name_the_option():
    names = [str(node) for node in range(40)]
    edges = pd.DataFrame({"source": names, "target": names[1:] + names[:1]})
    nodes = pd.DataFrame({"id": names, "y": COMMAS})
    with pytest.raises(GraphError, match=r"must be numbers; got '0,00': 40 cells .*--decimal ,"):
        NodeRegressor(label="y", **SMALL).fit((edges, nodes))
    with pytest.raises(GraphError, match=r"must be classes; 40 of 40 .*--decimal ,"):
        NodeClassifier(label="y", **SMALL).fit((edges, nodes))
