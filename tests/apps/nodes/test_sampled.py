"""Graphs above the memory budget: the readers, and training on sampled neighbourhoods."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.core.record import RESULTS
from gattn.apps.fitting.settings import SettingsError
from gattn.apps.nodes import scratch
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.edges import read_edge_columns
from gattn.apps.nodes.fields import FieldInput, edge_terms, whole_graph
from gattn.apps.nodes.files import GraphReading, read_graph_file
from gattn.apps.nodes.runs.config import override
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.sampled.budget import choose_size, free_memory, graph_bytes, parse_memory
from gattn.apps.nodes.sampled.training import SampledInputs
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.stack.propagation import Neighbours
from gattn.apps.nodes.stack.residual import ResidualNetwork
from gattn.sampling import NeighborSampler
from tests.apps.nodes.networks import class_network, repeating_network, write_parquet

SMALL = {"width": 8, "heads": 2, "epochs": 3, "threads": 1}
COLUMNS = {
    "features": EdgeColumns(),
    "weight": EdgeColumns(weight="strength", features=()),
    "type": EdgeColumns(type="kind", features=("strength",)),
    "edge times": EdgeColumns(time="day", cutoffs=(9.0, 14.0)),
    "node times": EdgeColumns(weight="strength", type="kind", time="year"),
}


def sampled_run(folder, tables, name="run", **settings):
    """Train on samples, and return the folder of the run, its metrics and its log."""
    options = {"data": str(tables[0]), "label": "label", "memory": "1MB", **SMALL, **settings}
    if len(tables) > 1:
        options["nodes"] = str(tables[1])
    lines = []
    metrics = train_run(override(None, None, options), folder / name, log=lines.append)
    return folder / name, metrics, lines


def predicted(run, tables, out):
    """Return the predictions of a run for tables, and the log."""
    lines = []
    predict_graph(run, tables[0], out, log=lines.append, reading=GraphReading(nodes=tables[1]))
    read = pd.read_csv if out.suffix == ".csv" else pd.read_parquet
    return read(out).set_index("node"), " ".join(lines)


def probabilities(table):
    return table.filter(like="probability_").to_numpy()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a sampled run on tables in Parquet: folder, metrics, log, and the tables."""
    folder = tmp_path_factory.mktemp("sampled")
    edges, nodes = class_network(200)
    paths = write_parquet(folder, edges, nodes)
    return *sampled_run(folder, paths), paths, edges, nodes


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
        edges = edges.apply(lambda names: names.str[1:].astype(kind[:5].replace("integ", "int")))
        nodes["id"] = nodes["id"].str[1:].astype(int)
    elif kind == "category":
        edges = edges.astype("category")
    elif kind == "gaps":
        edges.iloc[5, 0], edges.iloc[7, 1], edges.iloc[9, 0] = None, " ", " n3 "
    elif kind == "absent":
        edges.iloc[5, 0], edges.iloc[7, 1] = "elsewhere", "N3"
    paths = write_parquet(tmp_path, edges, nodes)
    compact = read_graph_file(*paths, directed=directed, compact=True)
    assert compact.compact
    assert compact.edge_index.dtype == torch.int32
    same_graph(compact, read_graph_file(*paths, directed=directed))
    same_graph(read_graph_file(*paths, directed=directed).compacted(), compact)


def test_edges_alone_define_the_nodes(tmp_path):
    edges, _ = class_network(40)
    paths = write_parquet(tmp_path, edges.rename(columns={"source": "a", "target": "b"}))
    same_graph(read_graph_file(*paths, compact=True), read_graph_file(*paths))


def test_columns_of_edges_are_read_without_row_numbers(tmp_path):
    edges, nodes = class_network(40)
    edges.insert(0, "index", range(len(edges)))
    edges["weight"] = 1.5
    edges["words"] = "some words"
    paths = write_parquet(tmp_path, edges, nodes)
    compact, whole = (read_graph_file(*paths, compact=compact) for compact in (True, False))
    assert "Column 'index' of the edges contains row numbers" in " ".join(compact.notes)
    assert compact.edge_table.table.columns.tolist() == ["weight", "words"]
    assert compact.edge_table.table["words"].dtype == "category"
    assert compact.edge_table.pairs.dtype == torch.int32
    assert list(compact.edge_table.lines) == list(whole.edge_table.lines)


def test_bad_tables_give_the_same_error(tmp_path):
    edges, nodes = class_network(40)
    loops = pd.DataFrame({"source": nodes["id"], "target": nodes["id"]})
    tables = {
        "one column": (edges[["source"]], nodes),
        "no edges": (edges[:0], None),
        "no nodes": (edges, nodes[:0]),
        "header": (edges.rename(columns={"source": "n1", "target": "n2"}), nodes),
        "other names": (edges.map(lambda name: name.replace("n", "m")), nodes),
        "other case": (edges.map(str.upper), nodes),
        "same names": (edges, nodes.assign(id="n1")),
        "no name": (edges, nodes.assign(id=[None, *nodes["id"][1:]])),
        "only loops": (loops, nodes),
    }
    for name, some in tables.items():
        paths = write_parquet(tmp_path / name, *some)
        with pytest.raises(GraphError) as expected:
            read_graph_file(*paths)
        with pytest.raises(GraphError) as error:
            read_graph_file(*paths, compact=True)
        assert str(error.value) == str(expected.value), name
    path = tmp_path / "edges.parquet"
    path.write_text("source,target\n")
    with pytest.raises(ValueError, match="is not a Parquet file"):
        read_graph_file(path, compact=True)


def both_graphs(folder, name, **options):
    """Return a graph that was read as a whole, and as a compact graph, with the edges' inputs."""
    paths = write_parquet(folder, *repeating_network())
    graphs = [read_graph_file(*paths, compact=compact, **options) for compact in (False, True)]
    read = [read_edge_columns(graph, COLUMNS[name]) for graph in graphs]
    assert read[0][1] == read[1][1]
    assert read[0][2] == read[1][2]
    return read[0][0], read[1][0], read[1][1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_compact_graph_has_the_inputs_and_means_of_the_whole_graph(
    tmp_path, monkeypatch, name, directed
):
    # The features are written to a file, in several pieces.
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(scratch, "PIECE", 100)
    whole, compact, encoder = both_graphs(tmp_path, name, directed=directed)
    assert compact.edge_index.dtype == compact.arcs.dtype == torch.int32
    assert torch.equal(compact.edge_index.long(), whole.edge_index)
    assert torch.equal(compact.arcs.long(), whole.arcs)
    one, other = compact.edge_inputs, whole.edge_inputs
    assert torch.equal(one.features, other.features) if encoder.width else one.features is None
    if encoder.weight is not None:
        torch.testing.assert_close(one.bias, other.bias)
        np.testing.assert_array_equal(one.weights, other.weights)
    mine, theirs = Neighbours.of(compact), Neighbours.of(whole)
    x = np.random.default_rng(0).normal(size=(len(whole), 20)).astype(np.float32)
    pairs = [(mine.means, theirs.means), *zip(mine.along, theirs.along, strict=True)]
    for first, second in (*pairs, *zip(mine.typed, theirs.typed, strict=True)):
        np.testing.assert_allclose(first @ x, second @ x, atol=1e-5)
    np.testing.assert_allclose(mine.degrees, theirs.degrees, atol=1e-5)
    if theirs.edge_means is not None:
        np.testing.assert_allclose(mine.edge_means, theirs.edge_means, atol=1e-5)


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_sample_of_all_neighbours_has_the_output_of_the_whole_graph(tmp_path, name, model):
    whole, graph, encoder = both_graphs(tmp_path, name)
    x = torch.randn(len(graph), 4, generator=torch.Generator().manual_seed(0))
    network = ResidualNetwork(
        NodeSettings(model=model, width=8, heads=2), 4, 3, encoder.width or None
    ).eval()
    seeds, inputs = torch.tensor([5, 80, 2, 41]), SampledInputs.of(graph, x)
    batch = NeighborSampler(inputs.graph, [-1, -1]).sample(seeds, random_seed=0)
    field = whole_graph(whole.edge_index, len(whole), 2)
    with torch.no_grad():
        sampled = network(inputs.batch(batch))
        terms = edge_terms(whole.edge_inputs, field)
        expected = network(FieldInput(x, field, terms))
    torch.testing.assert_close(sampled, expected[seeds])


def test_a_small_budget_samples_and_says_so(trained):
    folder, metrics, lines, _, _, nodes = trained
    assert metrics["size"]["training"] == "sampled"
    assert metrics["size"]["budget_bytes"] == 1_000_000
    assert lines[0].startswith("Neighbours are sampled in training: the whole graph needs about")
    note = "Left out when neighbours are sampled: the second fit"
    page = (folder / "report.html").read_text("utf-8")
    assert note in " ".join(lines)
    assert note in page
    assert "on samples of the neighbours of each node" in page
    assert set(metrics["components"]) == {
        *("constant", "columns", "neighbours", "labels", "consistent", "propagation", "gat")
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


def test_a_graph_within_the_budget_is_trained_as_a_whole(tmp_path, trained):
    folder, metrics, lines = sampled_run(tmp_path, trained[3], memory="100 GiB", model="gat")
    assert metrics["size"]["training"] == "whole graph"
    assert lines[0].startswith("The whole graph is trained: it needs about")
    assert (folder / "predictions.csv").exists()
    assert "on the whole graph" in (folder / "report.html").read_text("utf-8")


def test_a_seed_gives_the_same_bits_and_csv_the_same_scores(tmp_path, trained):
    folder, metrics, _, paths, edges, nodes = trained
    again, _, _ = sampled_run(tmp_path, paths, "again")
    weights = [(run / "weights.safetensors").read_bytes() for run in (folder, again)]
    assert weights[0] == weights[1]
    texts = [tmp_path / "edges.csv", tmp_path / "nodes.csv"]
    for path, table in zip(texts, (edges, nodes)):
        table.to_csv(path, index=False)
    _, others, lines = sampled_run(tmp_path, texts, "csv")
    assert metrics["test"] == others["test"]
    assert any("only edges in Parquet are read with little memory" in line for line in lines)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_shuffled_network_has_its_predictions_and_another_one_no_labels(
    tmp_path, suffix, trained
):
    folder, _, _, _, edges, nodes = trained
    again = write_parquet(
        tmp_path / "again",
        edges.sample(frac=1, random_state=1),
        nodes.sample(frac=1, random_state=0),
    )
    stored = pd.read_parquet(folder / "predictions.parquet").set_index("node")
    table, lines = predicted(folder, again, tmp_path / f"same.{suffix}")
    assert "parts of the model that read labels are not used" not in lines
    np.testing.assert_allclose(
        probabilities(table.loc[stored.index]), probabilities(stored), atol=1e-4
    )
    other = write_parquet(tmp_path / "other", *class_network(150, seed=1))
    table, lines = predicted(folder, other, tmp_path / f"other.{suffix}")
    assert "parts of the model that read labels are not used" in lines
    assert probabilities(table).sum(axis=1) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("directed", [True, False])
def test_numbers_are_predicted_from_numbers_and_texts(tmp_path, directed):
    edges, nodes = class_network(150)
    draw = np.random.default_rng(0)
    nodes["size"] = nodes["x0"] * 2 + 5 + 0.1 * draw.normal(size=150)
    words = [f"word{i}" for i in range(900)]
    nodes["text"] = [" ".join(draw.choice(words, 30)) for _ in range(150)]
    paths = write_parquet(tmp_path, edges, nodes.drop(columns="label"))
    folder, metrics, _ = sampled_run(
        tmp_path, paths, label="size", directed=directed, features=("x0", "x1", "text")
    )
    assert metrics["task"] == "regression"
    assert metrics["test"]["r2"] > 0.3
    table = pd.read_parquet(folder / "predictions.parquet")
    assert (table["lower"] <= table["prediction"]).all()
    assert (table["prediction"] <= table["upper"]).all()


def test_several_runs_read_nodes_without_columns_and_without_edges(tmp_path):
    edges, nodes = class_network(150)
    nodes = pd.concat([nodes, pd.DataFrame({"id": ["alone"], "label": ["kind 0"]})])
    paths = write_parquet(tmp_path, edges, nodes[["id", "label"]])
    folder, _, lines = sampled_run(tmp_path, paths, split="random", runs=2, model="gatv2")
    assert any("1 node without an edge" in line for line in lines)
    assert len(pd.read_csv(folder / "runs.csv")) == 2
    assert pd.read_parquet(folder / "predictions.parquet").iloc[:, -3:].notna().all(axis=None)


@pytest.mark.parametrize("options", [{"edge_weight": "strength"}, {"edge_type": "kind"}])
def test_labels_that_depend_on_a_column_of_edges_are_predicted(tmp_path, options):
    edges, nodes = repeating_network(240)
    keep = ["source", "target", *options.values()]
    paths = write_parquet(tmp_path, edges[keep], nodes[["id", "label"]])
    settings = {"edge_features": ("",), "split": "random"}
    _, with_column, lines = sampled_run(tmp_path, paths, "with", **options, **settings)
    _, without, _ = sampled_run(tmp_path, paths, "without", **settings)
    assert with_column["test"]["accuracy"] > without["test"]["accuracy"] + 0.1
    assert any("Columns of the edges that are used" in line for line in lines)
    assert list(with_column["edge_columns"]["permuted"]) == list(options.values())


def test_predictions_do_not_depend_on_the_future(tmp_path):
    edges, nodes = repeating_network(150)
    paths = write_parquet(tmp_path, edges, nodes)
    folder, _, lines = sampled_run(
        tmp_path, paths, time="year", edge_weight="strength", edge_type="kind"
    )
    assert any("Messages never come from the future" in line for line in lines)
    stored = pd.read_parquet(folder / "predictions.parquet").set_index("node")
    again, _ = predicted(folder, paths, tmp_path / "again.parquet")
    np.testing.assert_allclose(
        probabilities(again.loc[stored.index]), probabilities(stored), atol=1e-4
    )
    is_new = (nodes["year"] == nodes["year"].max()).to_numpy()
    changed = nodes.copy()
    changed.loc[is_new, ["x0", "x1", "x2"]] += 3
    # The nodes have other names, so that no model that reads labels is used for either graph.
    edges = edges.assign(source="z" + edges["source"], target="z" + edges["target"])
    tables = {}
    for name, table in (("same", nodes), ("changed", changed)):
        some = write_parquet(tmp_path / name, edges, table.assign(id="z" + table["id"]))
        tables[name] = probabilities(predicted(folder, some, tmp_path / f"{name}.parquet")[0])
    np.testing.assert_array_equal(tables["same"][~is_new], tables["changed"][~is_new])
    assert not np.allclose(tables["same"][is_new], tables["changed"][is_new])


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"strength": -1.0}, {"edge_weight": "strength"}, "must not be negative; got -1.0 at edge"),
        ({}, {"edge_weight": "absent"}, "the edges have no column 'absent'"),
        ({"day": None}, {"time": "day"}, "column 'day' of the edges must hold times"),
        ({}, {"model": "gps", "edge_type": "kind"}, "gps attends among all pairs of nodes"),
    ],
)
def test_bad_columns_and_models_are_errors(tmp_path, change, settings, message):
    edges, nodes = repeating_network(60)
    paths = write_parquet(tmp_path, edges.assign(**change), nodes)
    with pytest.raises(GraphError, match=message):
        sampled_run(tmp_path, paths, **settings)


def test_the_default_budget_is_half_of_the_free_memory():
    choice = choose_size("", 10, 10, 10)
    assert not choice.sampled
    assert choice.budget == pytest.approx(free_memory() / 2, rel=0.3)
    assert choice.estimate == graph_bytes(10, 10, 10)
    assert "half of the free memory" in choice.text
    assert "budget_bytes" not in choice.record("")
    assert json.dumps(choice.record("1GB"))


def test_sizes_of_memory_are_numbers_with_units():
    sizes = {"12GiB": 12 * 2**30, "500 MB": 5e8, ".5gb": 5e8, "100": 100}
    assert {text: parse_memory(text) for text in sizes} == sizes
    for text in ("many", "0", "-1GB", "1 XB", "GiB"):
        with pytest.raises(SettingsError, match="memory must be a positive number with a unit"):
            override(None, None, {"data": "edges.csv", "memory": text})


def test_the_estimate_is_not_below_the_measured_memory():
    lines = (RESULTS / "huge.jsonl").read_text("utf-8").splitlines()
    runs = [run for run in map(json.loads, lines) if run["size"]["training"] == "whole graph"]
    assert len(runs) >= 4
    for run in runs:
        nodes, edges = run["nodes"], run["edges"]
        # The table of nodes also has a column of names and one of labels.
        values = nodes * (run["columns"] + 2) + edges * run.get("strengths", False)
        estimate, peak = graph_bytes(nodes, values, edges), run["peak_resident_gib"] * 2**30
        assert peak < estimate < 1.3 * peak
