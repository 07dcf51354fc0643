"""Columns of edges in a training on samples: the same inputs as on the whole graph."""

import numpy as np
import pandas as pd
import pytest
import torch

from gattn.apps.nodes.attributed import GraphError, compacted
from gattn.apps.nodes.edge_columns import EdgeColumns
from gattn.apps.nodes.edges import read_edge_columns
from gattn.apps.nodes.files import read_graph_file
from gattn.apps.nodes.runs.config import override
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.size import scratch
from gattn.apps.nodes.size.arcs import ArcMeans
from gattn.apps.nodes.size.blocks import SampledBlocks
from gattn.apps.nodes.size.network import SampledNetwork
from gattn.apps.nodes.stack.propagation import Neighbours
from gattn.sampling import NeighborSampler
from tests.apps.nodes.networks import attributed_network
from tests.apps.nodes.test_size import SMALL, reading, sampled_run, write

COLUMNS = {
    "features": EdgeColumns(),
    "weight": EdgeColumns(weight="strength", features=()),
    "type": EdgeColumns(type="kind", features=("strength",)),
    "edge times": EdgeColumns(time="day", cutoffs=(9.0, 14.0)),
    "node times": EdgeColumns(weight="strength", type="kind", time="year"),
}


def repeating_network(nodes=90):
    """Return the tables of an attributed network in which some edges are repeated, with the same
    columns and with other columns.
    """
    frame, table = attributed_network(
        nodes, near=1, strong=5.0, weak=0.2, day=lambda node, place: float(node // 5)
    )
    again = pd.concat([frame[:3], frame[3:6].assign(strength=9.0)])
    return pd.concat([frame, again], ignore_index=True), table


def both_graphs(folder, name, **options):
    """Return a graph that was read as a whole, and as a compact graph, with the edges' inputs."""
    paths = write(folder, *repeating_network())
    graphs = [read_graph_file(*paths, compact=compact, **options) for compact in (False, True)]
    read = [read_edge_columns(graph, COLUMNS[name]) for graph in graphs]
    assert read[0][1] == read[1][1]
    assert read[0][2] == read[1][2]
    return read[0][0], read[1][0], read[1][1]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_inputs_of_the_edges_are_those_of_the_whole_graph(tmp_path, monkeypatch, name, directed):
    # The features are written to a file, in several pieces.
    monkeypatch.setattr(scratch, "IN_MEMORY", 0)
    monkeypatch.setattr(scratch, "PIECE", 100)
    whole, compact, encoder = both_graphs(tmp_path, name, directed=directed)
    assert compact.edge_index.dtype == compact.arcs.dtype == torch.int32
    assert torch.equal(compact.edge_index.long(), whole.edge_index)
    assert torch.equal(compact.arcs.long(), whole.arcs)
    one, other = compact.edge_inputs, whole.edge_inputs
    assert torch.equal(one.features, other.features) if encoder.width else one.features is None
    assert (one.bias is None) == (other.bias is None) == (encoder.weight is None)
    if one.bias is not None:
        place, spread = encoder.weight_feature
        torch.testing.assert_close(one.features[:, place] * spread, other.bias)
        np.testing.assert_array_equal(one.weights, other.weights)
    for (mine, count), (theirs, number) in zip(one.groups, other.groups, strict=True):
        assert count == number
        np.testing.assert_array_equal(mine, theirs)
    again = encoder.attach(compacted(read_csv(tmp_path, directed)))
    assert torch.equal(again.edge_index, compact.edge_index)
    torch.testing.assert_close(again.edge_inputs.features, one.features)


def read_csv(folder, directed):
    """Return the graph from CSV files of the same tables."""
    paths = [folder / "edges.csv", folder / "nodes.csv"]
    for path in paths:
        pd.read_parquet(path.with_suffix(".parquet")).to_csv(path, index=False)
    return read_graph_file(*paths, directed=directed)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", COLUMNS)
def test_means_are_those_of_the_whole_graph(tmp_path, monkeypatch, name, directed):
    monkeypatch.setattr(scratch, "PIECE", 100)
    whole, compact, _ = both_graphs(tmp_path, name, directed=directed)
    expected, arcs = Neighbours.of(whole), ArcMeans(compact)
    x = np.random.default_rng(0).normal(size=(len(whole), 20)).astype(np.float32)

    def same(means, matrix):
        np.testing.assert_allclose(means(x), matrix @ x, atol=1e-5)

    same(arcs.all(), expected.means)
    for means, matrix in zip((arcs.along, arcs.against), expected.along):
        same(means(), matrix)
    hops = [arcs.along, arcs.against] if expected.along else [arcs.all]
    typed = [
        hop(parts == kind) for parts, count in arcs.groups for kind in range(count) for hop in hops
    ]
    for means, matrix in zip(typed, expected.typed, strict=True):
        same(means, matrix)
    degrees = np.log1p(np.stack([one.numpy() for one in arcs.degrees()], 1))
    np.testing.assert_allclose(degrees, expected.degrees[:, :2], atol=1e-5)
    if expected.edge_means is not None:
        out = np.empty((len(whole), arcs.edge_width * len(arcs.ends)), np.float32)
        for place, end in enumerate(arcs.ends):
            arcs.edge_means(end, out[:, place * arcs.edge_width :][:, : arcs.edge_width])
        np.testing.assert_allclose(out, expected.edge_means, atol=1e-5)
    if not directed and compact.edge_inputs.structure.open is None:
        matrix = expected.means
        trips = np.asarray((matrix @ matrix).todense()).diagonal()
        np.testing.assert_allclose(arcs.all().round_trips()[:, 0], trips, atol=1e-5)


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
@pytest.mark.parametrize("name", COLUMNS)
def test_all_neighbours_give_the_output_of_the_whole_graph(tmp_path, name, model):
    _, graph, encoder = both_graphs(tmp_path, name)
    x = torch.randn(len(graph), 4, generator=torch.Generator().manual_seed(0))
    blocks = SampledBlocks(graph, x, None, 0, with_direction=None)
    settings = NodeSettings(model=model, width=8, heads=2)
    network = SampledNetwork(settings, 4, 3, encoder).eval()
    seeds = torch.tensor([5, 80, 2, 41])
    batch = NeighborSampler(blocks.graph, [-1, -1]).sample(seeds, random_seed=0)
    with torch.no_grad():
        attributes = blocks.attributes[batch.edges]
        sampled = network(x[batch.nodes], batch.layer_graphs, attributes)
        whole = network.out(network.embed_all(x, blocks.graph, blocks.attributes))
        without = network.out(network.embed_all(x, blocks.graph, blocks.attributes * 0))
    torch.testing.assert_close(sampled, whole[seeds])
    assert not torch.allclose(whole, without, atol=1e-3)


@pytest.mark.parametrize("options", [{"edge_weight": "strength"}, {"edge_type": "kind"}])
def test_the_labels_of_edges_with_a_meaning_are_predicted(tmp_path, options):
    edges, nodes = repeating_network(240)
    nodes = nodes[["id", "label"]]
    keep = ["source", "target", *options.values()]
    paths = write(tmp_path, edges[keep], nodes)
    settings = {**options, "edge_features": ("",), "split": "random"}
    _, with_column, lines = sampled_run(tmp_path, paths, "with", **settings)
    _, without, _ = sampled_run(tmp_path, paths, "without", edge_features=("",), split="random")
    assert with_column["test"]["accuracy"] > without["test"]["accuracy"] + 0.1
    assert with_column["size"]["training"] == "sampled"
    assert any("Columns of the edges that are used" in line for line in lines)
    assert list(with_column["edge_columns"]["permuted"]) == list(options.values())


def test_predictions_with_columns_of_edges(tmp_path):
    paths = write(tmp_path, *repeating_network(150))
    options = {"edge_weight": "strength", "edge_type": "kind", "time": "day"}
    folder, _, lines = sampled_run(tmp_path, paths, **options)
    assert any("Messages never come from the future" in line for line in lines)
    stored = pd.read_parquet(folder / "predictions.parquet").set_index("node")
    columns = [name for name in stored.columns if name.startswith("probability_")]
    out = tmp_path / "again.parquet"
    predict_graph(folder, paths[0], out, reading=reading(paths[1]))
    again = pd.read_parquet(out).set_index("node")
    np.testing.assert_allclose(again.loc[stored.index, columns], stored[columns], atol=1e-4)


def test_predictions_do_not_depend_on_the_future(tmp_path):
    edges, nodes = repeating_network(150)
    paths = write(tmp_path, edges, nodes)
    folder, _, _ = sampled_run(tmp_path, paths, time="year", edge_weight="strength")
    last = nodes["year"].max()
    is_new = nodes["year"] == last
    changed = nodes.copy()
    changed.loc[is_new, ["x0", "x1", "x2"]] += 3
    # The nodes have other names, so that no model that reads labels is used for either graph.
    edges = edges.assign(
        source="z" + edges["source"].astype(str), target="z" + edges["target"].astype(str)
    )
    nodes, changed = (table.assign(id="z" + table["id"].astype(str)) for table in (nodes, changed))
    tables = {}
    for name, table in (("same", nodes), ("changed", changed)):
        (tmp_path / name).mkdir()
        some = write(tmp_path / name, edges, table)
        out = tmp_path / f"{name}.parquet"
        predict_graph(folder, some[0], out, reading=reading(some[1]))
        tables[name] = pd.read_parquet(out).filter(like="probability_").to_numpy()
    old = ~is_new.to_numpy()
    np.testing.assert_array_equal(tables["same"][old], tables["changed"][old])
    assert not np.allclose(tables["same"][~old], tables["changed"][~old])


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"strength": -1.0}, {"edge_weight": "strength"}, "must not be negative; got -1.0 at edge"),
        ({}, {"edge_weight": "absent"}, "the edges have no column 'absent'"),
        ({"day": None}, {"time": "day"}, "column 'day' of the edges must hold times"),
        ({}, {"model": "gps", "edge_type": "kind"}, "gps attends among all pairs of nodes"),
    ],
)
def test_bad_columns_of_edges(tmp_path, change, settings, message):
    edges, nodes = repeating_network(60)
    paths = write(tmp_path, edges.assign(**change), nodes)
    with pytest.raises(GraphError, match=message):
        sampled_run(tmp_path, paths, **settings)


def test_a_run_from_csv_reads_the_same_columns(tmp_path):
    edges, nodes = repeating_network(120)
    paths = write(tmp_path, edges, nodes)
    _, metrics, _ = sampled_run(tmp_path, paths, edge_weight="strength")
    texts = [tmp_path / "edges.csv", tmp_path / "nodes.csv"]
    for path, table in zip(texts, (edges, nodes)):
        table.to_csv(path, index=False)
    options = {"data": str(texts[0]), "nodes": str(texts[1]), "label": "label", "memory": "1MB"}
    options |= {**SMALL, "edge_weight": "strength"}
    others = train_run(override(None, None, options), tmp_path / "csv")
    assert metrics["test"] == others["test"]
