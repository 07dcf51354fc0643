"""Models of networks with several tables of nodes: training, prediction and explanation."""

import csv
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from gattn.apps.nodes import NodeClassifier, NodeRegressor
from gattn.apps.nodes.explanation import explain_node
from gattn.apps.nodes.features import encode_graph
from gattn.apps.nodes.files import GraphReading
from gattn.apps.nodes.predictor import NodeProblem
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.at_once import predict_at_once
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.nodes.typed import network
from gattn.apps.nodes.typed.predictor import TypedPredictor, offsets
from gattn.apps.serve.nodes import open_nodes
from gattn.graph import Graph
from tests.apps.nodes.typed_networks import CITES, WRITES, typed_tables, write_tables
from tests.pictures import leave_blank

SMALL = {"epochs": 30, "width": 16, "heads": 2, "dropout": 0.2, "learning_rate": 0.02}


def _network(encoded, **changes):
    """Return an untrained attention network for an encoded graph."""
    settings = NodeSettings(**SMALL | {"model": "hgt"} | changes)
    predictor = TypedPredictor(settings, "classification", encoded.encoder, 3)
    return predictor


def _encoded(directed=None, **changes):
    edges, nodes = typed_tables(papers=30, authors=12)
    graph = read_graph((edges | changes, nodes), label="topic", directed=directed)
    return encode_graph(graph, None, ["topic"])


def test_the_graphs_of_relations_are_created_once(monkeypatch):
    created = []

    def build(pairs, size):
        created.append(size)
        return Graph(pairs, size)

    monkeypatch.setattr(network, "Graph", build)
    encoded = _encoded()
    y = torch.arange(30) % 3
    settings = [NodeSettings(**SMALL | {"model": "hgt", "epochs": 2, "seed": i}) for i in (0, 1)]
    train, val = torch.arange(20), torch.arange(20, 30)
    problem = NodeProblem(encoded.graph, encoded.x, y.double(), 3, train, val)
    models = TypedPredictor.fit(problem, encoded.encoder, "classification", settings)
    before = models[0].predict(encoded.graph)
    models[1].embed(encoded.graph)
    models[0].attention(encoded.graph)
    inputs = encoded.graph.network.inputs
    assert len(created) == len(inputs.messages) == 4
    restored = pickle.loads(pickle.dumps(inputs))  # other processes build the graphs again
    assert "graphs" not in vars(restored)
    graph = replace(encoded.graph, network=replace(encoded.graph.network, inputs=restored))
    assert torch.equal(models[0].predict(graph), before)
    assert len(created) == 8


def test_attention_sums_to_one_over_all_relations_of_a_node():
    encoded = _encoded()
    predictor = _network(encoded)
    layers = predictor.attention(encoded.graph)
    assert len(layers) == 2
    first = offsets(encoded.graph.network)
    for edges, alpha in layers:
        total = torch.zeros(30, alpha.shape[1]).index_add(0, edges[1], alpha)
        torch.testing.assert_close(total[total.sum(1) > 0], torch.ones_like(total))
        assert int(edges[0].max()) >= first["authors"]


def test_columns_of_edges_change_attention():
    edges, nodes = typed_tables(papers=30, authors=12)
    draw = np.random.default_rng(0)
    writes = edges[WRITES].assign(share=draw.uniform(0.1, 5, size=len(edges[WRITES])))
    graph = read_graph((edges | {WRITES: writes}, nodes), label="topic")
    encoded = encode_graph(graph, None, ["topic"])
    predictor = _network(encoded)
    before = predictor.predict(encoded.graph)
    more = writes.assign(share=writes["share"].iloc[::-1].to_numpy())
    other = encoded.encoder.attach_edges(read_graph((edges | {WRITES: more}, nodes), label="topic"))
    assert (predictor.predict(other) - before).abs().max() > 1e-4


@pytest.fixture(scope="module")
def fitted():
    edges, nodes = typed_tables(papers=150, authors=50, strength=0.7)
    unlabelled = nodes["papers"]["topic"].where(np.arange(150) % 3 > 0)
    tables = edges, nodes | {"papers": nodes["papers"].assign(topic=unlabelled)}
    model = NodeClassifier("topic", **SMALL).fit(tables)
    return model, tables, nodes["papers"]["topic"].to_numpy()


def test_a_classifier_learns_from_the_columns_of_another_type(fitted):
    model, (edges, nodes), truth = fitted
    hidden = np.arange(150) % 3 == 0
    assert (model.predict()[hidden] == truth[hidden]).mean() > 0.65
    assert "hgt" in model.predictor_.weights
    alone = NodeClassifier("topic", **SMALL).fit((edges[CITES], nodes["papers"]))
    assert (alone.predict()[hidden] == truth[hidden]).mean() < 0.6


def test_a_restored_model_predicts_the_same(fitted, tmp_path):
    model, tables, _ = fitted
    model.save(tmp_path / "model")
    restored = NodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(restored.predict_proba(tables), model.predict_proba())


def test_another_network_is_predicted_without_the_labels(fitted):
    model, _, _ = fitted
    edges, nodes = typed_tables(papers=60, authors=50, seed=1)
    blind = nodes | {"papers": nodes["papers"].drop(columns="topic")}
    with pytest.warns(UserWarning, match="not that of the training"):
        graph = model.read((edges, blind))
    assert model.predictor_.predict(graph).shape == (60, 3)
    assert model.predictor_.training_places(graph) is None
    assert "labels" not in model.predictor_.component_predictions(graph)


def test_an_explanation_removes_the_edges_of_one_relation(fitted):
    model, (edges, nodes), _ = fitted
    graph, name = model.graph_, edges[CITES]["source"].iloc[0]
    explanation = explain_node(model.predictor_, graph, name, most=10)
    assert len(explanation.neighbours) == explanation.degree
    assert {one.kind for one in explanation.neighbours} == {"papers", "authors"}
    one = next(one for one in explanation.neighbours if one.kind == "authors")
    author = str(one.name).removeprefix("authors-writes-papers: ")
    rows = edges[WRITES]
    remaining = rows[(rows["author"] != author) | (rows["paper"] != name)]
    assert len(remaining) < len(rows)
    changed = model.predictor_.encoder.attach_edges(
        read_graph((edges | {WRITES: remaining}, nodes), label="topic")
    )
    predicted = model.predictor_.predict_edited(changed, graph)
    expected = float(predicted[explanation.place, explanation.output])
    assert one.without == pytest.approx(expected, abs=1e-5)
    assert abs(one.change) > 1e-4
    assert [one.name for one in explanation.attributes] == ["pages"]


def test_a_regressor_predicts_numbers_from_another_type():
    edges, nodes = typed_tables(papers=150, authors=50)
    age = nodes["authors"].set_index("id")["age"]
    mean = edges[WRITES].assign(age=age[edges[WRITES]["author"]].to_numpy()).groupby("paper")["age"]
    papers = nodes["papers"].drop(columns="topic")
    papers["value"] = papers["id"].map(mean.mean())
    model = NodeRegressor("value", **SMALL).fit((edges, nodes | {"papers": papers}))
    assert model.predictor_.encoder.network.target == "papers"
    validation = model.split_.val
    truth = model.y_[validation].numpy()
    error = np.square(model.predict()[validation.numpy()] - truth).mean()
    assert error < 0.2 * truth.var()


def test_models_of_one_table_are_refused():
    edges, nodes = typed_tables(papers=30, authors=12)
    with pytest.raises(ValueError, match="needs the model stacked or hgt; got gat"):
        NodeClassifier("topic", model="gat").fit((edges, nodes))
    with pytest.raises(ValueError, match="hgt needs several tables"):
        NodeClassifier("topic", model="hgt").fit((edges[CITES], nodes["papers"]))
    with pytest.raises(ValueError, match=r"time .* cannot be set"):
        NodeClassifier("topic", time="age").fit((edges, nodes))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder with tables, a run, and the settings of the run."""
    folder = tmp_path_factory.mktemp("typed")
    edges, nodes = typed_tables(papers=150, authors=50)
    options = write_tables(folder, edges, nodes)
    settings = NodeRunSettings(
        "",
        nodes=tuple(v for k, v in zip(options[::2], options[1::2]) if k == "--nodes"),
        edges=tuple(v for k, v in zip(options[::2], options[1::2]) if k == "--edges"),
        label="topic",
        model=NodeSettings(**SMALL),
    )
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        metrics = train_run(settings, folder / "run")
    return folder, settings, metrics


def test_a_run_reports_each_relation(run):
    folder, _, metrics = run
    assert metrics["test"]["accuracy"] > 0.75
    relations = metrics["relations"]
    assert set(relations) == {"authors-writes-papers", "papers-cites-papers"}
    total = sum(one["attention"] for one in relations.values())
    assert total == pytest.approx(1, abs=1e-5)
    change = {
        name: metrics["test"]["accuracy"] - one["permuted"]["accuracy"]
        for name, one in relations.items()
    }
    assert change["authors-writes-papers"] > change["papers-cites-papers"] + 0.2
    report = (folder / "run" / "report.html").read_text("utf-8")
    assert "Relations" in report
    assert "authors-writes-papers" in report
    card = json.loads((folder / "run" / "model.json").read_text("utf-8"))
    assert card["data"] == "authors-writes-papers, papers-cites-papers"


def test_a_stored_run_predicts_its_network_again(run):
    folder, settings, _ = run
    reading = GraphReading(nodes=settings.nodes, edges=settings.edges)
    lines = []
    count = predict_graph(
        folder / "run", "", folder / "again.csv", reading=reading, log=lines.append
    )
    assert count == 150
    with (folder / "run" / "predictions.csv").open(newline="") as file:
        before = [row["probability_topic 0"] for row in csv.DictReader(file)]
    with (folder / "again.csv").open(newline="") as file:
        assert [row["probability_topic 0"] for row in csv.DictReader(file)] == before
    assert not any("is not that of the training" in line for line in lines)


def test_a_network_is_predicted_at_once_without_a_model(run):
    folder, settings, _ = run
    lines = []
    assert predict_at_once(settings, folder / "at_once.csv", lines.append) == 150
    assert any(line.startswith("each node predicted without its label") for line in lines)


def test_a_run_is_served_with_the_nodes_of_other_types(run):
    folder, _, _ = run
    served = open_nodes("papers", folder / "run", threads=1)
    answer = served.predict("n3")
    names = {one.name: one.prediction for one in answer.neighbours}
    authors = [name for name in names if name.endswith("(authors)")]
    assert authors
    assert all(names[name] is None for name in authors)
    assert sum(one.weights[-1] for one in answer.neighbours) == pytest.approx(1, abs=1e-5)
    assert served.draw("n3", dark=False).startswith(b"\x89PNG")
