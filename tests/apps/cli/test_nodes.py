"""``gattn nodes``: files and messages of the commands, and their errors of one line."""

import csv
import json
import sys
from io import BytesIO, TextIOWrapper

import networkx
import numpy as np
import pandas as pd
import pytest

from gattn.apps.fitting.settings import read_toml
from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.nodes import open_nodes
from tests.apps.cli.commands import run_command, runner, train
from tests.apps.nodes.typed_networks import typed_tables, write_tables
from tests.pictures import leave_blank
from tests.zoo import build_once

PRODUCT = "nodes"
NETWORK = ["--epochs", 12, "--width", 8, "--heads", 2, "--learning-rate", 0.02, "--dropout", 0.2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with two tables that have bad rows, and runs of classification and regression."""
    return build_once(tmp_path_factory, "nodes", _train)


def _train(folder):
    graph = networkx.planted_partition_graph(2, 30, 0.3, 0.02, seed=0)
    draw = np.random.default_rng(0)
    words = "left wing paper", "right wing paper"
    rows = [
        {
            "id": f"n{node}",
            "about": f"{words[node >= 30]} number{draw.integers(5)}",
            "size": round(draw.normal(node >= 30), 3),
            "group": "" if node % 10 == 9 else ("left", "right")[node >= 30],
            "score": node / 10,
            "part": ("train", "train", "val", "test")[node % 4],
        }
        for node in graph
    ]
    pd.DataFrame(rows).to_csv(folder / "nodes.csv", index=False)
    pairs = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in graph.edges], columns=["from", "to"])
    pairs.loc[len(pairs)] = ["n0", "nowhere"]
    pairs.to_csv(folder / "edges.csv", index=False)
    tables = [folder / "edges.csv", "--nodes", folder / "nodes.csv"]
    for name, options in (
        ("classes", ["--label", "group", "--split", "column:part", "--runs", 2]),
        (
            "numbers",
            ["--coverage", 0.6, "--label", "score", "--features", "size", "--model", "transformer"],
        ),
    ):
        with pytest.MonkeyPatch.context() as patch:
            if name == "numbers":
                leave_blank(patch)
            command = ["nodes", "train", *tables, "--out", folder / name, *options, *NETWORK]
            assert run_command(patch, *command) == 0


def _rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_nodes_train_writes_plots_splits_and_left_out_edges(folder):
    plots = {path.stem for path in (folder / "classes" / "plots").iterdir()}
    assert {"roc", "calibration", "learning-curve", "network"} <= plots
    spread = json.loads((folder / "classes" / "metrics.json").read_text())["runs"]["test"]
    scores = [float(row["accuracy"]) for row in _rows(folder / "classes" / "runs.csv")]
    assert spread["accuracy"]["mean"] == pytest.approx(np.mean(scores))
    (row,) = _rows(folder / "classes" / "left_out.csv")
    assert row["reason"] == "there is no node 'nowhere'"
    settings = read_toml(NodeRunSettings, folder / "classes" / "config.toml")
    assert (settings.runs, settings.model.heads, settings.label) == (2, 2, "group")
    parts = json.loads((folder / "classes" / "splits.json").read_text())["splits"][0]
    assert parts["test"] == list(range(3, 60, 4))


def test_nodes_train_predicts_every_node_and_excludes_label_and_split_from_features(folder):
    rows = _rows(folder / "classes" / "predictions.csv")
    assert len(rows) == 60
    assert sum(row["part"] == "unlabelled" for row in rows) == 6
    right = [row["label"] == row["prediction"] for row in rows if row["label"]]
    assert np.mean(right) > 0.8
    model = NodeClassifier.load(folder / "classes")
    names = {column.name for column in model.predictor_.encoder.columns}
    assert names == {"about", "size", "score"}


def test_reason_of_an_undefined_metric_is_in_output_metrics_and_report(folder, gattn, tmp_path):
    """The test part has no node of one class."""
    table = pd.read_csv(folder / "nodes.csv")
    table["part"] = ["test" if node < 9 else ("train", "val")[node % 2] for node in range(60)]
    table.to_csv(tmp_path / "nodes.csv", index=False)
    edges = [folder / "edges.csv", "--nodes", tmp_path / "nodes.csv", "--split", "column:part"]
    code, output = gattn("train", *edges, "--label", "group", "--out", tmp_path / "a", *NETWORK)
    assert code == 0, output
    reason = "undefined for all 2 classes: 'left' (every row has this class), 'right' (no row has"
    assert f"ROC-AUC of the test part: {reason}" in " ".join(output.split())
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert metrics["test"]["roc_auc"] is None
    assert metrics["undefined"]["test"]["pr_auc"].startswith(reason)
    page = (tmp_path / "a" / "report.html").read_text("utf-8")
    assert "ROC-AUC of the test part: undefined for all 2 classes" in page


def test_nodes_predict_reads_a_new_graph_from_file_or_pipe(folder, gattn, tmp_path, monkeypatch):
    (tmp_path / "nodes.csv").write_text("size,id,about,score\n0,a,left wing,1\n1,b,right,6\n")
    (tmp_path / "edges.csv").write_text("from,to\na,b\n")
    graph = [tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv"]
    code, output = gattn("predict", folder / "classes", *graph, "--out", tmp_path / "made.csv")
    assert (code, "2 nodes" in output) == (0, True)
    assert "Column 'about' has values that did not occur in training, for example 'left" in output
    rows = _rows(tmp_path / "made.csv")
    assert [row["node"] for row in rows] == ["a", "b"]
    numbers = {"read": graph, "pipe": ["-", *graph[1:]], "level": [*graph, "--coverage", 0.6]}
    for name, source in numbers.items():
        pipe = TextIOWrapper(BytesIO((tmp_path / "edges.csv").read_bytes()))
        monkeypatch.setattr(sys, "stdin", pipe)
        out = tmp_path / f"{name}.csv"
        assert gattn("predict", folder / "numbers", *source, "--out", out)[0] == 0
        # By default, the coverage of the intervals is that of the training.
        assert out.read_text() == (tmp_path / "read.csv").read_text()


def test_nodes_train_with_invalid_label_split_or_task_or_too_few_labels_exits_with_an_error(
    folder, gattn, tmp_path
):
    tables = [folder / "edges.csv", "--nodes", folder / "nodes.csv", "--out", tmp_path / "run"]
    for options, message in (
        ([], "labels are required: y, or the name of an attribute (label, --label) among 'about'"),
        (["--label", "nothing"], "the nodes have no attribute 'nothing'; they have 'about'"),
        (["--label", "group", "--split", "half"], "split must be auto, public, random"),
        (["--label", "group", "--split", "column:about"], "column 'about': the part of a node"),
        (["--label", "score", "--split", "random-per-class"], "needs classes"),
        (["--label", "about", "--task", "regression"], "labels ('about') must be numbers"),
    ):
        code, output = gattn("train", *tables, *options)
        assert (code, message in output) == (2, True), output
    (tmp_path / "few.csv").write_text("id,group\nx,a\ny,b\nz,a\nw,b\n")
    (tmp_path / "edges.csv").write_text("from,to\nx,y\ny,z\nz,w\n")
    few = [tmp_path / "edges.csv", "--nodes", tmp_path / "few.csv", "--out", tmp_path / "run"]
    code, output = gattn("train", *few, "--label", "group")
    assert code == 2
    assert "of the 4 labelled nodes into the test part: label more nodes" in output


def test_output_of_nodes_train_notes_masks_decimal_commas_and_missing_values(gattn, tmp_path):
    names = [f"n{node}" for node in range(60)]
    edges = pd.DataFrame({"a": names, "b": names[2:] + names[:2]})
    edges.to_csv(tmp_path / "edges.csv")  # pandas also writes the index of the table as a column
    nodes = pd.DataFrame({"id": names, "years": [[1]] * 60})
    nodes["size"] = [f"{i % 2},{i:02}" for i in range(60)]
    nodes["group"] = [("none", "mild")[i % 2] if i % 10 else "NA" for i in range(60)]
    nodes["train_mask"], nodes["test_mask"] = nodes.index < 40, nodes.index >= 40
    nodes.to_csv(tmp_path / "nodes.csv", sep=";")
    tables = [tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv"]
    options = ["--label", "group", "--features", "size", "--missing", "NA", *NETWORK]
    code, output = gattn("train", *tables, "--out", tmp_path / "run", *options)
    assert code == 0
    words = " ".join(output.split())
    for line in (
        "60 nodes, 54 of them with a label (one of 2 classes), 60 edges, 1 fea",
        "Column '' of the edges contains row numbers",
        "Column '' of the nodes contains row numbers",
        "Column 'group': 6 cells with 'NA' are missing.",
        "Column 'size' is read with another number format",
        "Label 'group' contains 'none' (24)",
        "There is no val_mask: the validation part is drawn from train_mask, 7 of 36 nodes (seed",
        "2 of the 20 nodes of test_mask have no label",
    ):
        assert line in words, line
    rows = _rows(tmp_path / "run" / "predictions.csv")
    tested = [row["node"] for row in rows if row["part"] == "test"]
    assert tested == [f"n{i}" for i in range(40, 60) if i % 10]
    assert not any(row["part"] in ("train", "val") for row in rows[40:])
    settings = read_toml(NodeRunSettings, tmp_path / "run" / "config.toml")
    assert settings.missing == ("NA",)
    code, output = gattn("predict", tmp_path / "run", *tables, "--out", tmp_path / "made.csv")
    assert code == 0
    predictions = _rows(tmp_path / "made.csv")
    assert [row["prediction"] for row in predictions] == [row["prediction"] for row in rows]


def test_nodes_explain_writes_tables_and_a_picture_of_the_node(folder, gattn, tmp_path):
    tables, out = [folder / "edges.csv", "n3", "--nodes", folder / "nodes.csv"], tmp_path / "why"
    explain = ["explain", folder / "classes"]
    code, output = gattn(*explain, *tables, "--out", out, "--neighbors", 2)
    assert code == 0
    assert "without any edge: " in output
    names = {path.name for path in out.iterdir()}
    assert names == {"neighbours.csv", "attributes.csv", "network.png"}
    *rows, itself = _rows(out / "neighbours.csv")
    assert (itself["neighbour"], itself["change"]) == ("n3", "")
    assert len(rows) == 2
    for row in rows:
        assert f"without neighbour {row['neighbour']}: " in output
        assert 0 < float(row["attention"]) < 1
    attributes = {row["attribute"] for row in _rows(out / "attributes.csv")}
    assert attributes == {"about", "size", "score"}
    every = [*explain, *tables, "--neighbors", 99, "--out", tmp_path / "every"]
    assert gattn(*every)[0] == 0
    attention = [float(row["attention"]) for row in _rows(tmp_path / "every" / "neighbours.csv")]
    assert sum(attention) == pytest.approx(1, abs=1e-4)
    code, output = gattn(*explain, *tables, "--out", out)
    assert (code, "exists" in output) == (2, True)
    tables[1] = "nobody"
    code, output = gattn(*explain, *tables, "--out", tmp_path / "new")
    assert (code, "the graph has no node 'nobody'" in output) == (2, True)
    assert not (tmp_path / "new").exists()


MISSING_GRAPH = "there is no file none.csv, and it is not the name of a data set"
MISSING_RUN = "norun does not exist; expected the folder of a trained model"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("nodes train none.csv --label y --out OUT", MISSING_GRAPH),
        ("nodes train --nodes a=none.csv --edges a-b-a=GRAPH --label y --out OUT", "none.csv: No"),
        ("nodes predict norun GRAPH --out OUT", MISSING_RUN),
        ("nodes explain norun GRAPH n3 --out OUT", MISSING_RUN),
        ("links train none.csv --out OUT", MISSING_GRAPH),
        ("links predict norun GRAPH --out OUT", MISSING_RUN),
    ],
)
def test_missing_file_gives_an_error_before_torch_is_imported(
    monkeypatch, capsys, tmp_path, command, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "GRAPH").write_text("source,target\na,b\n")
    # Each command imports a module of its runs that imports torch; here, this import fails.
    for module in ("train", "predict", "explain"):
        for product in ("nodes", "links"):
            monkeypatch.setitem(sys.modules, f"gattn.apps.{product}.runs.{module}", None)
    code, output = runner(monkeypatch, capsys)(*command.split())
    assert code == 2
    assert message in output
    assert [path.name for path in tmp_path.iterdir()] == ["GRAPH"]


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Options that read two tables of nodes, and the folder of a run on them."""
    folder = build_once(tmp_path_factory, "typed-nodes", _train_typed)
    tables = tmp_path_factory.mktemp("tables")
    return folder, write_tables(tables, *typed_tables(papers=60, authors=25))


def _train_typed(folder):
    tables = write_tables(folder, *typed_tables(papers=60, authors=25))
    train("nodes", "train", *tables, "--label", "topic", "--out", folder / "run", *NETWORK)


def test_nodes_train_and_predict_read_several_node_tables_of_a_hetero_graph(gattn, typed, tmp_path):
    folder, tables = typed
    config = read_toml(NodeRunSettings, folder / "run" / "config.toml")
    assert config.data == ""
    assert len(config.nodes) == len(config.edges) == 2
    report = (folder / "run" / "report.html").read_text("utf-8")
    assert all(table in report for table in (*config.nodes, *config.edges))
    code, err = gattn("predict", folder / "run", *tables, "--out", tmp_path / "p.csv")
    assert code == 0, err
    assert [row["node"] for row in _rows(tmp_path / "p.csv")] == [f"n{i}" for i in range(60)]
    with pytest.raises(RequestError, match="run has no node 'a1' of type 'papers'"):
        open_nodes("run", folder / "run", 1).predict("a1")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("train", "edges.csv"), "needs no graph; got 'edges.csv'"),
        (("train", "--time", "year"), "time cannot be set"),
        (("train", "--memory", "1GB"), "memory cannot be set"),
        (("predict", "RUN", "edges.csv"), "predict expects RUN GRAPH, or RUN with --nodes and"),
    ],
)
def test_arguments_that_conflict_with_several_node_tables_exit_with_an_error(
    gattn, typed, tmp_path, command, message
):
    folder, tables = typed
    arguments = [folder / "run" if one == "RUN" else one for one in command]
    code, err = gattn(*arguments, *tables, "--out", tmp_path / "out.csv")
    assert code != 0
    assert message in err


def test_nodes_predict_raises_error_for_another_number_of_node_tables_than_in_training(
    gattn, folder, typed, tmp_path
):
    run, tables = typed
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    out = ["--out", tmp_path / "out.csv"]
    code, err = gattn("predict", run / "run", edges, "--nodes", nodes, *out)
    assert code != 0
    assert "trained on several tables of nodes" in err
    code, err = gattn("predict", folder / "classes", *tables, *out)
    assert code != 0
    assert "trained on one table of nodes: pass a graph instead of --edges" in err
