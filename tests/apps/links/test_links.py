"""Estimator, training runs and commands of links."""

import json
import sys
from io import BytesIO, TextIOWrapper

import networkx
import numpy as np
import pandas as pd
import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.links import LinkPredictor
from gattn.apps.links.metrics import chance_metrics, mrr_error
from gattn.apps.links.pairs import make_ranking
from gattn.apps.links.runs.config import LinkRunSettings, override
from gattn.apps.links.runs.train import train_run
from gattn.apps.links.settings import LinkSettings
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.files import read_graph_file
from tests.apps.cli.commands import runner
from tests.apps.links.measurement import measured_on_test_part
from tests.pictures import leave_blank

SMALL = LinkSettings(epochs=15, width=16, heads=2)
OPTIONS = ["--epochs", 15, "--width", 16, "--heads", 2, "--negatives", 30]
FILES = {
    "config.toml", "splits.json", "weights.safetensors", "model.json", "metrics.json",
    "test_links.csv", "left_out.csv", "plots", "report.html",
}  # fmt: skip


@pytest.fixture
def gattn(monkeypatch, capsys):
    """Return a function that runs a command and returns its exit code and its output."""
    return runner(monkeypatch, capsys, "links")


def communities(nodes=90, seed=0):
    """Return a network with three communities, whose words depend on the community."""
    graph = networkx.planted_partition_graph(3, nodes // 3, 0.35, 0.01, seed=seed)
    words = ("red rose garden", "blue sky cloud", "green leaf tree")
    for node, attributes in graph.nodes(data=True):
        attributes.clear()
        attributes["about"] = f"{words[3 * node // nodes]} number{node % 7}"
    graph.graph.clear()
    return graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with the tables of a network and a run on them."""
    folder = tmp_path_factory.mktemp("links")
    graph = communities()
    pairs = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in graph.edges], columns=["from", "to"])
    pairs["weight"] = np.random.default_rng(0).uniform(0.5, 1.5, len(pairs)).round(3)
    pairs["year"] = 2000 + np.arange(len(pairs)) % 20
    pairs.to_csv(folder / "edges.csv", index=False)
    about = [(f"n{node}", text) for node, text in graph.nodes(data="about")]
    pd.DataFrame(about, columns=["id", "about"]).to_csv(folder / "nodes.csv", index=False)
    settings = LinkRunSettings(
        str(folder / "edges.csv"), nodes=str(folder / "nodes.csv"), directed=False, negatives=30,
        edge_weight="weight", edge_features=("",), model=SMALL,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        train_run(settings, folder / "run")
    return folder


def metrics_of(run):
    return json.loads((run / "metrics.json").read_text("utf-8"))


def test_links_train_writes_all_files_of_a_model_that_is_better_than_chance(folder):
    run = folder / "run"
    assert {path.name for path in run.iterdir()} == FILES
    metrics = metrics_of(run)
    assert metrics["task"] == "ranking"
    # A third of the candidates belong to the community of the source. A random order of these,
    # before all others, has 2.1 times the MRR of a random order of all.
    assert metrics["test"]["mrr"] > 1.5 * metrics["baselines"]["random order"]["mrr"]
    assert not metrics["noise"]
    names = ["common_neighbours", "adamic_adar", "resource_allocation", "katz"]
    names += ["preferential_attachment", "pagerank", "propagated_features"]
    assert list(metrics["baselines"]) == [*names, "random order"]
    assert list(metrics["components"]) == [*names[5:], "gat", "pairs"]
    best = max(each["val"]["mrr"] for each in metrics["components"].values())
    assert metrics["val"]["mrr"] > best - 0.05
    ranked = pd.read_csv(run / "test_links.csv")
    assert len(ranked) == metrics["links"]["ranked"]
    assert (1 / ranked["rank"]).mean() == pytest.approx(metrics["test"]["mrr"])


def test_hard_negatives_include_the_target_of_highest_katz_score_and_lower_the_mrr(
    folder, tmp_path, monkeypatch
):
    leave_blank(monkeypatch)
    settings = override(folder / "run" / "config.toml", {"hard_negatives": True})
    hard, metrics = train_run(settings, tmp_path / "run"), metrics_of(folder / "run")
    assert hard["test"]["mrr"] < metrics["test"]["mrr"]
    assert hard["test"]["roc_auc"] == pytest.approx(metrics["test"]["roc_auc"])
    assert hard["negatives"] <= 30
    model = LinkPredictor.load(tmp_path / "run")
    graph, links = model.read(read_graph_file(folder / "edges.csv", folder / "nodes.csv"))
    ranking = make_ranking(links, np.arange(len(links)), 60, np.random.default_rng(0))
    ranking = model.predictor_.with_hard_negatives(graph, links, ranking)
    targets = ranking.candidates[:, 1:]
    every = np.arange(links.nodes)
    free = ~links.are_links(ranking.sources[:, None], every)
    katz = model.predictor_.view(graph).proximity.rows(ranking.sources).katz.T
    best = np.where(free, katz, -np.inf).argmax(1)
    for row, unlinked, first in zip(targets, free, best):
        named = row[row >= 0]
        assert unlinked[named].all()
        assert len(set(named)) == len(named)
        assert first in named


@pytest.mark.parametrize(
    "network", [networkx.path_graph(13), networkx.complete_graph(9)], ids=["few links", "complete"]
)
def test_links_train_accepts_tiny_and_nearly_complete_graphs(gattn, tmp_path, network):
    network.remove_edges_from([(0, 1), (2, 3)] if len(network) == 9 else [])
    pairs = pd.DataFrame(network.edges, columns=["source", "target"])
    pairs.to_csv(tmp_path / "edges.csv", index=False)
    options = ("--epochs", 3, "--width", 8, "--heads", 2, "--threads", 1)
    code, error = gattn("train", tmp_path / "edges.csv", "--out", tmp_path / "run", *options)
    assert code == 0, error
    assert len(json.loads((tmp_path / "run" / "splits.json").read_text())["test"]) >= 1


def test_links_predict_proposes_new_links_within_communities(folder, gattn, tmp_path, monkeypatch):
    tables = [folder / "edges.csv", "--nodes", folder / "nodes.csv"]
    code, text = gattn("predict", folder / "run", *tables, "--top", 40, "--out", tmp_path / "a.csv")
    assert code == 0, text
    proposed = pd.read_csv(tmp_path / "a.csv")
    assert list(proposed.columns) == ["source", "target", "score", "probability"]
    assert len(proposed) == 40
    pipe = TextIOWrapper(BytesIO((folder / "edges.csv").read_bytes()))
    monkeypatch.setattr(sys, "stdin", pipe)
    piped = ["-", *tables[1:], "--top", 40, "--out", tmp_path / "piped.csv"]
    assert gattn("predict", folder / "run", *piped)[0] == 0
    assert (tmp_path / "piped.csv").read_text() == (tmp_path / "a.csv").read_text()
    assert proposed["score"].is_monotonic_decreasing
    assert proposed["probability"].between(0, 1).all()
    edges = pd.read_csv(folder / "edges.csv")
    linked = {frozenset(pair) for pair in zip(edges["from"], edges["to"])}
    assert f"{len(linked) / (90 * 89 / 2):.2%} are links, so actual probabilities are low" in text
    pairs = [frozenset(pair) for pair in zip(proposed["source"], proposed["target"])]
    assert not linked & set(pairs)
    assert len(set(pairs)) == 40
    groups = [{int(name[1:]) // 30 for name in pair} for pair in pairs]
    assert np.mean([len(group) == 1 for group in groups]) > 0.8
    code, text = gattn(
        "predict", folder / "run", *tables, "--top", 2, "--per-node", "--out", tmp_path / "b.csv"
    )
    assert code == 0, text
    assert pd.read_csv(tmp_path / "b.csv")["source"].value_counts().tolist() == [2] * 90


def test_links_train_splits_by_time_and_does_not_repeat_a_finished_training(
    folder, gattn, monkeypatch, tmp_path
):
    leave_blank(monkeypatch)
    arguments = [folder / "edges.csv", "--time", "year", *OPTIONS, "--model", "transformer"]
    code, text = gattn("train", *arguments, "--out", tmp_path / "run")
    assert code == 0, text
    assert "hits@10" in text
    assert "resource allocation" in text
    assert "test links, each among 30 negatives" in " ".join(text.split())
    metrics = metrics_of(tmp_path / "run")
    assert metrics["split"] == "by time, column year"
    assert "Not used" not in text
    assert list(metrics["components"]) == ["transformer"]
    assert "propagated_features" not in metrics["baselines"]
    code, text = gattn("train", *arguments, "--out", tmp_path / "run")
    assert code == 0
    assert "nothing to do" in text
    code, text = gattn("train", "--config", tmp_path / "run/config.toml", "--out", tmp_path / "two")
    assert code == 0, text
    assert metrics_of(tmp_path / "two")["test"] == metrics["test"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time", "month"], "neither the nodes nor the edges have a column 'month' of times"),
        (["--split", "time"], "split time needs the column of times: --time COL"),
        (["--edge-weight", "mass"], "the edges have no column 'mass'"),
        (["--features", "size"], "the nodes have no attribute 'size'"),
        (["--negatives", "0"], "negatives must be a whole number, at least 1; got '0'"),
        (["--test-fraction", "0.95"], "must sum to less than 1; got 0.1 and 0.95"),
    ],
)
def test_invalid_option_of_links_train_gives_an_error(folder, gattn, tmp_path, options, message):
    code, text = gattn("train", folder / "edges.csv", *options, "--out", tmp_path / "run")
    assert code == 2
    assert message in text
    assert not (tmp_path / "run").exists()


def test_links_train_on_a_tiny_or_complete_table_exits_with_an_error(folder, gattn, tmp_path):
    table = tmp_path / "edges.csv"
    table.write_text("from,to\na,b\nb,c\n")
    code, text = gattn("train", table, "--out", tmp_path / "run")
    assert (code, text.count("\n")) == (2, 1)
    assert "must have at least 10 links" in text
    rows = [f"a{i},b{j}" for i in range(4) for j in range(4)]
    table.write_text("\n".join(["from,to", *rows, ""]))
    code, text = gattn("train", table, *OPTIONS, "--out", tmp_path / "run")
    assert code == 2
    assert "every source of the links of a part is linked to every possible target" in text
    code, text = gattn("predict", folder / "run", table, "--out", tmp_path / "out.csv")
    assert code == 2
    assert not (tmp_path / "out.csv").exists()


def test_links_train_reads_the_columns_that_options_source_and_target_name(folder, gattn, tmp_path):
    table = tmp_path / "edges.csv"
    rows = [f"d{i},{i % 12},{j % 12}" for i in range(12) for j in (i, i + 1, i + 3)]
    table.write_text("\n".join(["when,user_id,item_id", *rows, ""]))
    ends = ["--source", "user_id", "--target", "item_id"]
    train = ["train", table, *OPTIONS, "--model", "transformer", "--out", tmp_path / "run"]
    for options, message in (([], "set --source COL --target COL"), (ends, "set --bipartite")):
        code, text = gattn(*train, *options, "--edge-features", "")
        assert code == 2
        assert message in " ".join(text.split())
    code, text = gattn(*train, *ends, "--bipartite", "--edge-features", "")
    assert (code, "GRAPH --bipartite --top" in " ".join(text.split())) == (0, True), text
    out = tmp_path / "out.csv"
    code, text = gattn("predict", tmp_path / "run", table, *ends, "--bipartite", "--out", out)
    assert code == 0, text
    proposed = pd.read_csv(out)
    assert proposed["source"].str.startswith("user_id ").all()
    assert proposed["target"].str.startswith("item_id ").all()


def test_options_of_links_train_override_the_config(folder):
    settings = override(folder / "run" / "config.toml", {"epochs": 3})
    assert settings.model.epochs == 3
    assert settings.edge_weight == "weight"
    with pytest.raises(ValueError, match="a graph is required"):
        override(None, {})
    with pytest.raises(SettingsError, match="model must be one of"):
        LinkSettings(model="gps")


def test_link_predictor_of_a_random_graph_has_the_mrr_and_roc_auc_of_chance():
    """In a random graph with random attributes, only the held-out edges themselves contain
    information about the links.
    """
    draw = np.random.default_rng(0)
    graph = networkx.gnm_random_graph(400, 1600, seed=1)
    for _, attributes in graph.nodes(data=True):
        attributes["x"] = draw.normal(size=8).tolist()
    for *_, attributes in graph.edges(data=True):
        attributes["mark"] = float(draw.normal())
    model = LinkPredictor(epochs=20, width=16, heads=2, negatives=50, directed=False)
    read, ranking, measured = measured_on_test_part(model, graph, 0.2, 0.3)
    chance = chance_metrics(np.array([51]))["mrr"]
    error = mrr_error(measured["scores"]["mrr"])
    assert abs(measured["metrics"]["stack"]["mrr"] - chance) < 4 * error
    # The standard error of the area of 480 random links is about 1 / sqrt(12 * 480).
    assert abs(measured["metrics"]["stack"]["roc_auc"] - 0.5) < 4 / (12 * 480) ** 0.5
    # As a control, the same model ranks the test links high if its graph contains the test edges.
    leaky = model.predictor_.encoder.attach_edges(read)
    again = model.predictor_.measure(leaky, ranking)["metrics"]
    assert again["katz"]["mrr"] > 2 * chance


def test_link_predictor_proposes_links_of_a_bipartite_network(tmp_path):
    draw = np.random.default_rng(0)
    rows = []
    for user in range(60):
        liked = [item for item in range(40) if item % 3 == user % 3]
        rows += [(f"u{user}", f"i{item}") for item in draw.choice(liked, 6, replace=False)]
    table = pd.DataFrame(rows, columns=["source", "target"])
    model = LinkPredictor(epochs=15, width=16, heads=2, negatives=20).fit(table)
    proposed = model.predict(top=50)
    assert proposed["source"].str.startswith("u").all()
    assert proposed["target"].str.startswith("i").all()
    same = proposed["source"].str[1:].astype(int) % 3 == proposed["target"].str[1:].astype(int) % 3
    assert same.mean() > 0.8
    existing = set(rows)
    assert not existing & set(zip(proposed["source"], proposed["target"]))
    model.save(tmp_path / "model")
    loaded = LinkPredictor.load(tmp_path / "model")
    again = loaded.predict(table, top=50)
    pd.testing.assert_frame_equal(proposed, again, rtol=1e-5)
    pairs = list(zip(proposed["source"], proposed["target"]))[:5]
    shares = loaded.predict_proba(pairs, table)
    np.testing.assert_allclose(shares, proposed["probability"][:5], rtol=1e-4)
    with pytest.raises(GraphError, match="pass the graph to predict"):
        loaded.predict()
    with pytest.raises(GraphError, match="the graph has no node 'nobody'"):
        loaded.predict_proba([("nobody", "i1")], table)
    with pytest.raises(GraphError, match="trained on a graph that is bipartite"):
        loaded.predict(networkx.cycle_graph(12))


@pytest.mark.filterwarnings("ignore:By MRR")
def test_loaded_link_predictor_reads_weights_and_types_of_edges(tmp_path):
    pairs = list(communities(45).edges)
    table = pd.DataFrame(pairs, columns=["source", "target"])
    table["strength"] = [1.0 + a % 3 for a, _ in pairs]
    table["kind"] = ["near" if b - a < 5 else "far" for a, b in pairs]
    settings = {"edge_weight": "strength", "edge_type": "kind", "model": "gatv2", "directed": False}
    models = [
        LinkPredictor(**settings, epochs=3, width=8, heads=2, negatives=10, seed=seed).fit(table)
        for seed in (1, 1, 2)
    ]
    first, again, other = (model.predict(top=20) for model in models)
    pd.testing.assert_frame_equal(first, again)
    assert not first["score"].equals(other["score"])
    models[0].save(tmp_path / "model")
    loaded = LinkPredictor.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(table, top=20), first, rtol=1e-5)
    weak = loaded.predict(table.assign(strength=1.0), top=20)
    assert not weak["score"].equals(first["score"])
    for column in ("strength", "kind"):
        with pytest.raises(GraphError, match=column):
            loaded.predict(table.drop(columns=column))


def test_words_in_names_of_nodes_are_features_if_names_is_true():
    colours = ("red", "green", "blue")
    graph = networkx.relabel_nodes(
        networkx.planted_partition_graph(3, 15, 0.4, 0.02, seed=0),
        lambda node: f"{colours[node // 15]} {node}",
    )
    graph.graph.clear()
    for attributes in graph.nodes.values():
        attributes.clear()
    model = LinkPredictor(epochs=2, width=8, heads=2, negatives=20, names=True).fit(graph)
    columns = model.predictor_.encoder
    assert columns.source != "structure"
    words = model.validation_["propagated_features"]["mrr"]
    assert words > 2 * sum(1 / rank for rank in range(1, 22)) / 21
