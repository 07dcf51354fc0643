"""Graphs above the memory budget: the readers, and training on sampled neighbourhoods."""

import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.nodes import scratch
from gattn.apps.nodes.edges import EdgeColumns, read_edge_columns
from gattn.apps.nodes.fields import FieldInput, edge_terms, whole_graph
from gattn.apps.nodes.files import GraphReading, read_graph_file
from gattn.apps.nodes.runs.config import override, parse_memory
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.sampled.predictor import SampledInputs
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
    metrics = train_run(override(None, options), folder / name, log=lines.append)
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


@pytest.mark.parametrize("kind", ["text", "integer", "float", "category", "gaps", "absent"])
def test_edges_from_parquet_equal_those_of_a_table_in_memory(tmp_path, kind):
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
    for directed in (False, True):
        compact = read_graph_file(*paths, directed=directed, compact=True)
        assert compact.compact
        assert compact.edge_index.dtype == torch.int32
        same_graph(compact, read_graph_file(*paths, directed=directed))


def both_graphs(folder, name, **options):
    """Return a graph that was read as a whole, and as a compact graph, with the edges' inputs."""
    paths = write_parquet(folder, *repeating_network())
    graphs = [read_graph_file(*paths, compact=compact, **options) for compact in (False, True)]
    read = [read_edge_columns(graph, COLUMNS[name]) for graph in graphs]
    assert read[0][1] == read[1][1]
    assert read[0][2] == read[1][2]
    return read[0][0], read[1][0], read[1][1]


@pytest.mark.parametrize(
    ("name", "directed"), [*((name, False) for name in COLUMNS), ("type", True)]
)
def test_compact_graph_has_the_same_edge_inputs_and_neighbour_means_as_the_whole_graph(
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


@pytest.mark.parametrize(
    ("name", "model"),
    [*((name, "gat") for name in COLUMNS), ("type", "gatv2"), ("weight", "transformer")],
)
def test_output_on_a_sample_of_all_neighbours_equals_that_on_the_whole_graph(tmp_path, name, model):
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
        terms = edge_terms(whole.edge_terms, field)
        expected = network(FieldInput(x, field, terms))
    torch.testing.assert_close(sampled, expected[seeds])


def test_training_samples_neighbours_if_the_memory_limit_is_small(trained):
    folder, metrics, lines, _, _, nodes = trained
    assert metrics["size"]["training"] == "sampled"
    assert metrics["size"]["budget_bytes"] == 1_000_000
    assert lines[0].startswith("Neighbours are sampled in training: the whole graph needs about")
    note = "Left out when neighbours are sampled: the second fit"
    page = (folder / "report.html").read_text("utf-8")
    assert note in " ".join(lines)
    assert note in page
    assert metrics["test"]["accuracy"] > 0.6
    table = pd.read_csv(folder / "predictions.csv")
    assert table["node"].tolist() == nodes["id"].tolist()
    assert table["label"].tolist() == nodes["label"].tolist()
    assert set(table["part"]) == {"train", "val", "test"}
    test = table[table["part"] == "test"]
    accuracy = (test["prediction"] == test["label"]).mean()
    assert accuracy == pytest.approx(metrics["test"]["accuracy"])
    assert all(row.prediction in row.set.split("|") for row in test.itertuples() if row.set)


def test_sampled_training_repeats_its_weights_and_does_not_depend_on_the_table_format(
    tmp_path, trained
):
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


def test_sampled_model_reads_labels_only_to_predict_the_training_graph(tmp_path, trained):
    folder, _, _, _, edges, nodes = trained
    shuffled = edges.sample(frac=1, random_state=1), nodes.sample(frac=1, random_state=0)
    again = write_parquet(tmp_path / "again", *shuffled)
    stored = pd.read_csv(folder / "predictions.csv").set_index("node")
    table, lines = predicted(folder, again, tmp_path / "same.parquet")
    assert "parts of the model that read labels are not used" not in lines
    np.testing.assert_allclose(
        probabilities(table.loc[stored.index]), probabilities(stored), atol=1e-4
    )
    other = write_parquet(tmp_path / "other", *class_network(150, seed=1))
    table, lines = predicted(folder, other, tmp_path / "other.csv")
    assert "parts of the model that read labels are not used" in lines
    assert probabilities(table).sum(axis=1) == pytest.approx(1, abs=1e-4)


def test_sampled_regressor_learns_from_a_number_column_beside_a_random_text_column(tmp_path):
    edges, nodes = class_network(150)
    draw = np.random.default_rng(0)
    nodes["size"] = nodes["x0"] * 2 + 5 + 0.1 * draw.normal(size=150)
    words = [f"word{i}" for i in range(900)]
    nodes["text"] = [" ".join(draw.choice(words, 30)) for _ in range(150)]
    paths = write_parquet(tmp_path, edges, nodes.drop(columns="label"))
    columns = ("x0", "x1", "text")
    folder, metrics, _ = sampled_run(tmp_path, paths, label="size", directed=True, features=columns)
    assert metrics["task"] == "regression"
    assert metrics["test"]["r2"] > 0.3
    table = pd.read_csv(folder / "predictions.csv")
    assert (table["lower"] <= table["prediction"]).all()
    assert (table["prediction"] <= table["upper"]).all()


def test_edge_weights_raise_the_accuracy_of_a_sampled_model(tmp_path):
    edges, nodes = repeating_network(240)
    paths = write_parquet(tmp_path, edges[["source", "target", "strength"]], nodes[["id", "label"]])
    settings = {"edge_features": ("",), "split": "random"}
    _, with_column, lines = sampled_run(tmp_path, paths, "with", edge_weight="strength", **settings)
    _, without, _ = sampled_run(tmp_path, paths, "without", **settings)
    assert with_column["test"]["accuracy"] > without["test"]["accuracy"] + 0.1
    assert any("Columns of the edges that are used" in line for line in lines)


def test_sampled_predictions_do_not_depend_on_later_nodes(tmp_path):
    edges, nodes = repeating_network(150)
    paths = write_parquet(tmp_path, edges, nodes)
    folder, _, lines = sampled_run(
        tmp_path, paths, time="year", edge_weight="strength", edge_type="kind"
    )
    assert any("Messages never come from the future" in line for line in lines)
    stored = pd.read_csv(folder / "predictions.csv").set_index("node")
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


def test_setting_memory_accepts_only_a_positive_number_with_a_unit_of_bytes():
    sizes = {"12GiB": 12 * 2**30, "500 MB": 5e8, ".5gb": 5e8, "100": 100}
    assert {text: parse_memory(text) for text in sizes} == sizes
    for text in ("many", "0", "-1GB", "1 XB", "GiB"):
        with pytest.raises(SettingsError, match="memory must be a positive number with a unit"):
            override(None, {"data": "edges.csv", "memory": text})
