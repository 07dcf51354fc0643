"""Models of networks with several tables of nodes: training, prediction and explanation."""

import csv
import json

import numpy as np
import pytest

from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import GraphReading
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.explain import explain_node
from gattn.apps.nodes.runs.predict import predict_graph
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.serve.nodes import open_nodes
from tests.apps.nodes.typed_networks import CITES, typed_tables, write_tables
from tests.pictures import leave_blank

SMALL = {"epochs": 30, "width": 16, "heads": 2, "dropout": 0.2, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def fitted():
    edges, nodes = typed_tables(papers=150, authors=50, strength=0.7)
    unlabelled = nodes["papers"]["topic"].where(np.arange(150) % 3 > 0)
    tables = edges, nodes | {"papers": nodes["papers"].assign(topic=unlabelled)}
    model = NodeClassifier("topic", **SMALL).fit(tables)
    return model, tables, nodes["papers"]["topic"].to_numpy()


def test_node_classifier_learns_from_columns_of_another_node_type(fitted):
    model, (edges, nodes), truth = fitted
    hidden = np.arange(150) % 3 == 0
    assert (model.predict()[hidden] == truth[hidden]).mean() > 0.65
    assert "gat" in model.predictor_.weights
    alone = NodeClassifier("topic", **SMALL).fit((edges[CITES], nodes["papers"]))
    assert (alone.predict()[hidden] == truth[hidden]).mean() < 0.6


@pytest.mark.parametrize("model", ["gat", "gatv2", "transformer"])
def test_attention_network_without_a_stack_learns_from_columns_of_another_node_type(fitted, model):
    _, tables, truth = fitted
    hidden = np.arange(150) % 3 == 0
    classifier = NodeClassifier("topic", **SMALL | {"epochs": 60}, model=model).fit(tables)
    assert (classifier.predict()[hidden] == truth[hidden]).mean() > 0.45
    assert len(classifier.embed(tables)) == 150


def test_loaded_model_of_several_node_types_gives_the_same_predictions_as_the_saved_model(
    fitted, tmp_path
):
    model, tables, _ = fitted
    model.save(tmp_path / "model")
    restored = NodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(restored.predict_proba(tables), model.predict_proba())


def test_explanation_of_a_graph_with_several_node_types_raises_error(fitted):
    model, _, _ = fitted
    with pytest.raises(GraphError, match="explain needs a network with one table of nodes"):
        explain_node(model.predictor_, model.graph_, model.graph_.names[0])


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
        features=("pages", "authors.country"),
        model=NodeSettings(**SMALL),
    )
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        metrics = train_run(settings, folder / "run")
    return folder, settings, metrics


def test_trained_model_of_two_node_types_exceeds_75_percent_accuracy_and_names_its_relations(run):
    folder, _, metrics = run
    assert metrics["test"]["accuracy"] > 0.75
    card = json.loads((folder / "run" / "model.json").read_text("utf-8"))
    assert card["data"] == "authors-writes-papers, papers-cites-papers"


def test_predict_graph_with_several_node_types_repeats_the_predictions_of_the_training(run):
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
    assert not any("is not that of the training" in line or "repeated" in line for line in lines)


def test_served_node_of_a_hetero_graph_has_neighbours_of_other_types(run):
    folder, _, _ = run
    served = open_nodes("papers", folder / "run", threads=1)
    answer = served.predict("n3")
    names = {one.name: one.prediction for one in answer.neighbours}
    authors = [name for name in names if name.endswith("(authors)")]
    assert authors
    assert all(names[name] is None for name in authors)
    assert sum(one.weights[-1] for one in answer.neighbours) == pytest.approx(1, abs=1e-5)
    assert served.draw("n3", dark=False).startswith(b"\x89PNG")
