"""Graphs above the memory budget: the readers, means over neighbours, and training on samples."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.core.record import RESULTS
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.nodes.attributed import GraphError, compacted
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.runs.config import override
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.size.budget import choose_size, free_memory, graph_bytes, parse_memory
from gattn.apps.nodes.size.means import NeighbourMeans, graph_of, propagate
from gattn.apps.nodes.stack import propagation as whole
from gattn.graph import Graph
from tests.apps.nodes.networks import class_network

SMALL = {"width": 8, "heads": 2, "epochs": 3, "threads": 1}


def write(folder, edges, nodes=None):
    """Write tables to Parquet, and return their paths."""
    paths = [folder / "edges.parquet"]
    edges.to_parquet(paths[0], index=False)
    if nodes is not None:
        paths.append(folder / "nodes.parquet")
        nodes.to_parquet(paths[1], index=False)
    return paths


def sampled_run(folder, paths, name="run", **settings):
    """Train on samples, and return the folder of the run and its metrics."""
    options = {"data": str(paths[0]), "label": "label", "memory": "1MB", **SMALL, **settings}
    if len(paths) > 1:
        options["nodes"] = str(paths[1])
    lines = []
    metrics = train_run(override(None, None, options), folder / name, log=lines.append)
    return folder / name, metrics, lines


def same_graph(one, other):
    assert one.names == other.names
    assert torch.equal(one.edge_index.long(), other.edge_index)
    assert torch.equal(one.arcs.long(), other.arcs)
    assert one.notes == other.notes
    assert one.left_out == other.left_out
    pd.testing.assert_frame_equal(one.table, other.table)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["text", "integer", "float", "category", "gaps", "absent"])
def test_parquet_edges_are_read_like_a_whole_table(tmp_path, kind, directed):
    edges, nodes = class_network(40)
    edges = pd.concat([edges, edges[:3], pd.DataFrame({"source": ["n1"], "target": ["n1"]})])
    if kind in ("integer", "float"):
        numbers = [frame.apply(lambda names: names.str[1:].astype(int)) for frame in (edges,)]
        edges = numbers[0].astype(float) if kind == "float" else numbers[0]
        nodes["id"] = nodes["id"].str[1:].astype(int)
    elif kind == "category":
        edges = edges.astype("category")
    elif kind == "gaps":
        edges.iloc[5, 0], edges.iloc[7, 1], edges.iloc[9, 0] = None, " ", " n3 "
    elif kind == "absent":
        edges.iloc[5, 0], edges.iloc[7, 1] = "elsewhere", "N3"
    paths = write(tmp_path, edges, nodes)
    compact = read_graph_file(*paths, directed=directed, compact=True)
    assert compact.compact
    assert compact.edge_index.dtype == torch.int32
    same_graph(compact, read_graph_file(*paths, directed=directed))
    same_graph(compacted(read_graph_file(*paths, directed=directed)), compact)


def test_edges_alone_define_the_nodes(tmp_path):
    edges, _ = class_network(40)
    paths = write(tmp_path, edges.rename(columns={"source": "a", "target": "b"}))
    same_graph(read_graph_file(*paths, compact=True), read_graph_file(*paths))


def test_columns_of_edges_are_read_without_row_numbers(tmp_path):
    edges, nodes = class_network(40)
    edges.insert(0, "index", range(len(edges)))
    edges["weight"] = 1.5
    edges["words"] = "some words"
    paths = write(tmp_path, edges, nodes)
    compact, whole = (read_graph_file(*paths, compact=compact) for compact in (True, False))
    notes = " ".join(compact.notes)
    assert "Column 'index' of the edges contains row numbers" in notes
    assert compact.edge_table.table.columns.tolist() == ["weight", "words"]
    assert compact.edge_table.table["words"].dtype == "category"
    assert compact.edge_table.pairs.dtype == torch.int32
    assert list(compact.edge_table.lines) == list(whole.edge_table.lines)


def broken_tables():
    edges, nodes = class_network(40)
    yield "one column", edges[["source"]], nodes
    yield "no edges", edges[:0], None
    yield "no nodes", edges, nodes[:0]
    yield "header", edges.rename(columns={"source": "n1", "target": "n2"}), nodes
    yield "other names", edges.map(lambda name: name.replace("n", "m")), nodes
    yield "other case", edges.map(str.upper), nodes
    yield "same names", edges, nodes.assign(id="n1")
    yield "no name", edges, nodes.assign(id=[None, *nodes["id"][1:]])
    loops = pd.DataFrame({"source": nodes["id"], "target": nodes["id"]})
    yield "only loops", loops, nodes


@pytest.mark.parametrize("name", [name for name, *_ in broken_tables()])
def test_bad_tables_give_the_same_error(tmp_path, name):
    paths = write(tmp_path, *next(tables for kind, *tables in broken_tables() if kind == name))
    with pytest.raises(GraphError) as expected:
        read_graph_file(*paths)
    with pytest.raises(GraphError) as error:
        read_graph_file(*paths, compact=True)
    assert str(error.value) == str(expected.value)


def test_a_file_that_is_no_parquet_gives_the_same_error(tmp_path):
    path = tmp_path / "edges.parquet"
    path.write_text("source,target\n")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        read_graph_file(path, compact=True)


def random_graph(nodes=50, edges=200, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(nodes - 1, (2, edges), generator=generator)
    both = torch.cat([pairs, pairs.flip(0)], 1)
    both = both[:, both[0] != both[1]].unique(dim=1)
    return both[:, (both[1] * nodes + both[0]).argsort()].int()


def test_means_are_those_of_sparse_matrices():
    pairs = random_graph()
    means, matrix = NeighbourMeans(graph_of(pairs, 50)), whole.Neighbours(pairs.long(), 50).means
    x = np.random.default_rng(0).normal(size=(50, 37)).astype(np.float32)
    np.testing.assert_allclose(means(x), matrix @ x, atol=1e-5)
    trips = np.asarray((matrix @ matrix).todense()).diagonal()
    np.testing.assert_allclose(means.round_trips()[:, 0], trips, atol=1e-6)
    assert graph_of(pairs, 50).edge_index.tolist() == Graph(pairs.long(), 50).edge_index.tolist()


def test_labels_spread_like_on_the_whole_graph(monkeypatch):
    monkeypatch.setattr(whole, "STEPS", 8)
    pairs = random_graph()
    means, matrix = NeighbourMeans(graph_of(pairs, 50)), whole.Neighbours(pairs.long(), 50).means
    train, draw = np.arange(0, 50, 4), np.random.default_rng(0)
    labels = np.eye(20, dtype=np.float32)[draw.integers(20, size=len(train))]
    out = np.empty((50, 20), np.float32)
    expected = whole.propagate(matrix, labels, train)[:, :-1]
    np.testing.assert_allclose(propagate(means, labels, train, out), expected, atol=1e-5)


def test_a_small_budget_samples_and_says_so(tmp_path):
    edges, nodes = class_network(200)
    paths = write(tmp_path, edges, nodes)
    folder, metrics, lines = sampled_run(tmp_path, paths)
    assert metrics["size"]["training"] == "sampled"
    assert metrics["size"]["budget_bytes"] == 1_000_000
    assert lines[0].startswith("Neighbours are sampled in training: the whole graph needs about")
    text = " ".join(lines)
    omitted = "trees and consistent"
    assert f"left out when neighbours are sampled: {omitted}" in text
    assert "factors that correct the frequencies of the classes are also left out" in text
    page = (folder / "report.html").read_text("utf-8")
    assert "on samples of the neighbours of each node" in page
    assert omitted in page
    assert "frequencies of the classes are also left out" in page
    assert set(metrics["components"]) == {
        *("constant", "columns", "neighbours", "labels", "propagation", "gat")
    }
    assert metrics["test"]["accuracy"] > 0.6
    table = pd.read_parquet(folder / "predictions.parquet")
    assert table["node"].tolist() == nodes["id"].tolist()
    assert table["label"].tolist() == nodes["label"].tolist()
    assert set(table["part"]) == {"train", "val", "test"}
    test = table[table["part"] == "test"]
    accuracy = (test["prediction"] == test["label"]).mean()
    assert accuracy == pytest.approx(metrics["test"]["accuracy"])
    assert all(row.prediction in row.set.split("|") for row in test.itertuples() if row.set)


def test_the_whole_graph_within_the_budget(tmp_path):
    edges, nodes = class_network(200)
    paths = write(tmp_path, edges, nodes)
    folder, metrics, lines = sampled_run(tmp_path, paths, memory="100 GiB", model="gat")
    assert metrics["size"]["training"] == "whole graph"
    assert lines[0].startswith("The whole graph is trained: it needs about")
    assert (folder / "predictions.csv").exists()
    assert "on the whole graph" in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("model", ["stacked", "gatv2"])
def test_a_seed_gives_the_same_bits(tmp_path, model):
    edges, nodes = class_network(150)
    paths = write(tmp_path, edges, nodes)
    weights = [
        (sampled_run(tmp_path, paths, str(run), model=model)[0] / "weights.safetensors")
        for run in range(2)
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_the_result_is_the_same_from_csv(tmp_path):
    edges, nodes = class_network(150)
    paths = write(tmp_path, edges, nodes)
    texts = [tmp_path / "edges.csv", tmp_path / "nodes.csv"]
    for path, table in zip(texts, (edges, nodes)):
        table.to_csv(path, index=False)
    _, metrics, _ = sampled_run(tmp_path, paths)
    _, others, lines = sampled_run(tmp_path, texts, "csv")
    assert metrics["test"] == others["test"]
    assert any("only edges in Parquet are read with little memory" in line for line in lines)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_of_the_same_and_of_another_graph(tmp_path, suffix):
    edges, nodes = class_network(150)
    paths = write(tmp_path, edges, nodes)
    folder, _, _ = sampled_run(tmp_path, paths)
    order = nodes.sample(frac=1, random_state=0)
    (tmp_path / "again").mkdir()
    again = write(tmp_path / "again", edges.sample(frac=1, random_state=1), order)

    def predict(some, name):
        path, lines = tmp_path / f"{name}.{suffix}", []
        rules = {"reading": reading(some[1])}
        assert predict_graph(folder, some[0], path, log=lines.append, **rules) == 150
        read = pd.read_csv if suffix == "csv" else pd.read_parquet
        return read(path).set_index("node"), " ".join(lines)

    stored = pd.read_parquet(folder / "predictions.parquet").set_index("node")
    columns = [name for name in stored.columns if name.startswith("probability_")]
    table, lines = predict(again, "same")
    assert "parts of the model that read labels are not used" not in lines
    np.testing.assert_allclose(
        table.loc[stored.index, columns].to_numpy(), stored[columns].to_numpy(), atol=1e-4
    )
    (tmp_path / "other").mkdir()
    other = write(tmp_path / "other", *class_network(150, seed=1))
    table, lines = predict(other, "other")
    assert "parts of the model that read labels are not used" in lines
    assert table[columns].sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-4)


def reading(nodes):
    from gattn.apps.nodes.files import GraphReading

    return GraphReading(nodes=nodes)


@pytest.mark.parametrize("directed", [True, False])
def test_numbers_and_texts(tmp_path, directed):
    edges, nodes = class_network(150)
    draw = np.random.default_rng(0)
    nodes["size"] = nodes["x0"] * 2 + 5 + 0.1 * draw.normal(size=150)
    words = [f"word{i}" for i in range(900)]
    nodes["text"] = [" ".join(draw.choice(words, 30)) for _ in range(150)]
    paths = write(tmp_path, edges, nodes.drop(columns="label"))
    folder, metrics, _ = sampled_run(
        tmp_path, paths, label="size", directed=directed, features=("x0", "x1", "text")
    )
    assert metrics["task"] == "regression"
    assert metrics["test"]["r2"] > 0.3
    table = pd.read_parquet(folder / "predictions.parquet")
    assert (table["lower"] <= table["prediction"]).all()
    assert (table["prediction"] <= table["upper"]).all()


def test_nodes_without_columns_and_without_edges(tmp_path):
    edges, nodes = class_network(150)
    nodes = pd.concat([nodes, pd.DataFrame({"id": ["alone"], "label": ["kind 0"]})])
    paths = write(tmp_path, edges, nodes[["id", "label"]])
    folder, _, lines = sampled_run(tmp_path, paths, split="random", runs=2)
    assert any("1 node without an edge" in line for line in lines)
    assert len(pd.read_csv(folder / "runs.csv")) == 2
    assert pd.read_parquet(folder / "predictions.parquet").iloc[:, -3:].notna().all(axis=None)


def test_a_model_of_all_pairs_needs_the_whole_graph(tmp_path):
    paths = write(tmp_path, *class_network(60))
    with pytest.raises(GraphError, match="gps attends among all pairs of nodes"):
        sampled_run(tmp_path, paths, model="gps")


def test_the_default_budget_is_half_of_the_free_memory():
    choice = choose_size("", 10, 10, 10)
    assert not choice.sampled
    assert choice.budget == pytest.approx(free_memory() / 2, rel=0.3)
    assert choice.estimate == graph_bytes(10, 10, 10)
    assert "half of the free memory" in choice.text
    assert "budget_bytes" not in choice.record("")
    assert json.dumps(choice.record("1GB"))


@pytest.mark.parametrize(
    ("text", "size"), [("12GiB", 12 * 2**30), ("500 MB", 5e8), (".5gb", 5e8), ("100", 100)]
)
def test_sizes_of_memory(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["many", "0", "-1GB", "1 XB", "GiB"])
def test_other_texts_are_no_memory(text):
    with pytest.raises(SettingsError, match="memory must be a positive number with a unit"):
        override(None, None, {"data": "edges.csv", "memory": text})


def measured(training):
    """Return the measured runs of large networks with a kind of training."""
    lines = (RESULTS / "huge.jsonl").read_text("utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    return [run for run in runs if run["size"]["training"] == training]


def test_the_estimate_is_not_below_the_measured_memory():
    runs = measured("whole graph")
    assert len(runs) >= 4
    for run in runs:
        nodes, edges = run["nodes"], run["edges"]
        # The table of nodes also has a column of names and one of labels.
        values = nodes * (run["columns"] + 2) + edges * run.get("strengths", False)
        estimate, peak = graph_bytes(nodes, values, edges), run["peak_resident_gib"] * 2**30
        assert peak < estimate < 1.3 * peak
