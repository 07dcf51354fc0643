"""Evaluation of links: chance, distinct negatives, parts, direction, and tampered folders."""

import json
from types import SimpleNamespace

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gattn.apps.links import LinkPredictor
from gattn.apps.links.metrics import chance_metrics, fit_weights, link_metrics, noise
from gattn.apps.links.model import PairPerceptron
from gattn.apps.links.pairs import draw_negatives, draw_pairs, make_ranking, read_links
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.links.runs.predict import predict_links
from gattn.apps.links.runs.train import train_run
from gattn.apps.links.settings import LinkSettings
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.reading import read_graph
from gattn.apps.run.model_io import RunError
from tests.apps.cli.commands import runner
from tests.apps.links.measurement import measured_on_test_part
from tests.pictures import leave_blank

TINY = {"epochs": 2, "width": 8, "heads": 2, "model": "gat"}


def table_of(pairs):
    return pd.DataFrame(pairs, columns=["source", "target"])


def links_of(pairs, directed=None):
    return read_links(read_graph(table_of(pairs), directed=False), directed)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Run on 800 random pairs of 200 users and 10 items, in which no link can be predicted."""
    folder = tmp_path_factory.mktemp("shop")
    draw = np.random.default_rng(1)
    pairs = [(f"u{user}", f"i{item}") for user, item in draw.integers((200, 10), size=(800, 2))]
    table_of(pairs).rename(columns={"source": "user_id", "target": "item_id"}).to_csv(
        folder / "pairs.csv", index=False
    )
    settings = LinkRunSettings(str(folder / "pairs.csv"), model=LinkSettings(**TINY))
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        metrics = train_run(settings, folder / "run")
    return SimpleNamespace(folder=folder, run=folder / "run", pairs=set(pairs), metrics=metrics)


def test_link_metrics_with_fewer_than_10_negatives_have_no_hits_at_10(shop):
    chance = shop.metrics["baselines"]["random order"]
    assert shop.metrics["negatives"] < 10
    assert 1 / 9 < chance["hits@1"] < 1 / 3
    assert "hits@10" not in shop.metrics["test"]
    ranked = pd.read_csv(shop.run / "test_links.csv")
    assert ranked["rank"].max() <= 10
    assert ranked["source"].str.startswith("u").all()
    assert ranked["target"].str.startswith("i").all()


def test_model_of_random_links_is_reported_as_no_better_than_chance_in_metrics_report_and_output(
    shop, monkeypatch, capsys, tmp_path
):
    word = "By MRR and ROC-AUC, the model does not score links significantly better than a random"
    assert shop.metrics["noise"] == ("mrr", "roc_auc")
    assert LinkPredictor.load(shop.run).predictor_.noise == ("mrr", "roc_auc")
    report = (shop.run / "report.html").read_text("utf-8")
    assert word in report
    call = runner(monkeypatch, capsys, "links")
    code, text = call(
        "predict", shop.run, shop.folder / "pairs.csv", "--out", tmp_path / "proposed.csv"
    )
    assert code == 0, text
    assert word in " ".join(text.split())
    proposed = pd.read_csv(tmp_path / "proposed.csv")
    assert proposed["source"].str.startswith("u").all()
    assert proposed["target"].str.startswith("i").all()
    assert not shop.pairs & set(zip(proposed["source"], proposed["target"]))


def test_splits_of_links_contain_each_row_of_the_table_once(shop):
    record = json.loads((shop.run / "splits.json").read_text("utf-8"))
    parts = [{tuple(pair) for pair in record[part]} for part in ("train", "val", "test")]
    assert set().union(*parts) == shop.pairs
    assert sum(map(len, parts)) == len(shop.pairs)
    ranked = pd.read_csv(shop.run / "test_links.csv")
    assert set(zip(ranked["source"], ranked["target"])) <= parts[2]


def test_undirected_links_keep_source_and_target_of_their_rows():
    pairs = [("d", "a"), ("b", "d"), ("c", "a"), ("c", "b")]
    graph = read_graph(table_of(pairs), directed=False)
    links, _ = read_links(graph, False)
    names = np.array(graph.names)[links.in_data(graph)]
    assert {tuple(pair) for pair in names.tolist()} == set(pairs)


@pytest.mark.parametrize("file", ["model.json", "weights.safetensors"])
def test_predict_links_raises_error_if_a_file_of_the_model_was_changed(shop, file, tmp_path):
    changed = tmp_path / "run"
    changed.mkdir()
    for path in shop.run.iterdir():
        if path.is_file():
            (changed / path.name).write_bytes(path.read_bytes())
    content = bytearray((changed / file).read_bytes())
    content[len(content) // 2] ^= 1
    (changed / file).write_bytes(bytes(content))
    with pytest.raises(RunError):
        predict_links(changed, shop.folder / "pairs.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(("nodes", "count"), [(12, 50), (40, 15), (400, 15)])
def test_negative_targets_are_distinct_and_as_many_as_requested_or_available(nodes, count):
    draw = np.random.default_rng(0)
    links, _ = links_of(draw.integers(nodes, size=(3 * nodes, 2)).tolist(), directed=False)
    sources = np.arange(nodes)
    for source, row in enumerate(draw_negatives(links, sources, count, draw)):
        targets = row[row >= 0]
        free = sources[~links.are_links(np.full(nodes, source), sources)]
        assert len(targets) == min(count, len(free))
        assert len(set(targets.tolist())) == len(targets)
        assert set(targets.tolist()) <= set(free.tolist())
        assert (row[len(targets) :] == -1).all()


def test_random_pairs_are_uniform_over_pairs_without_a_link():
    pairs = [(a, b) for a in range(6) for b in range(a)]
    links, _ = links_of([*pairs[:11], (0, 6)], directed=False)
    drawn = draw_pairs(links, (3000, 4), np.random.default_rng(0))
    assert not links.are_links(*drawn).any()
    keys, counts = np.unique(drawn[0] * 7 + drawn[1], return_counts=True)
    assert len(keys) == 7 * 6 - 2 * 12
    assert counts.std() < 2 * counts.mean() ** 0.5
    complete, _ = links_of(pairs, directed=False)
    assert (draw_pairs(complete, (2, 3), np.random.default_rng(0))[1] == -1).all()


def test_metrics_of_random_scores_equal_chance_metrics():
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(20000, 60))
    scores[np.arange(60) >= draw.integers(2, 61, size=(20000, 1))] = -np.inf
    counts = np.isfinite(scores).sum(1)
    assert link_metrics(scores, scores) == pytest.approx(chance_metrics(counts), abs=0.02)
    better = scores.copy()
    better[:, 0] += 0.2
    assert noise(scores, scores) == ("mrr", "roc_auc")
    assert noise(better, scores) == ("roc_auc",)
    assert noise(scores, better) == ("mrr",)


def test_missing_candidates_do_not_change_weights_or_perceptron_scores():
    draw = np.random.default_rng(0)
    parts = [draw.normal(size=(200, 6)) for _ in range(2)]
    parts[0][:, 0] += 1
    padded = [np.hstack([part, np.full((200, 3), -np.inf)]) for part in parts]
    np.testing.assert_allclose(fit_weights(padded), fit_weights(parts), rtol=1e-6)
    model = PairPerceptron(torch.zeros(3), torch.ones(3)).eval()
    x = torch.randn(2, 4, 3)
    x[:, 3] = float("nan")
    scores = model(x)
    assert scores[:, 3].tolist() == [-np.inf, -np.inf]
    torch.testing.assert_close(scores[:, :3], model(x[:, :3]))


def test_links_are_directed_if_the_graph_is_directed_or_has_opposite_edges():
    rising = [(a, b) for a, b in networkx.gnm_random_graph(40, 120, seed=0).edges]
    cycle = [*rising, rising[0][::-1]]
    digraph = networkx.DiGraph(rising)
    for graph, directed in ((table_of(rising), False), (table_of(cycle), True), (digraph, True)):
        links, notes = read_links(read_graph(graph, directed=False), None)
        assert links.directed is directed
        assert "direction" in notes[0]
    assert links_of(rising, directed=True)[0].directed
    for data, directed in ((rising, False), ([*rising[1:], rising[0][::-1]], True)):
        data = Data(edge_index=torch.tensor(data).T, num_nodes=40)
        assert read_links(read_graph(data, directed=False), None)[0].directed is directed


def test_proposals_of_undirected_links_contain_no_link_in_either_order():
    pairs = list(networkx.gnm_random_graph(20, 80, seed=2).edges)
    model = LinkPredictor(**TINY, negatives=10)
    with pytest.warns(UserWarning, match="better than a random order"):
        model.fit(table_of(pairs))
    proposed = model.predict(top=500)
    names = {frozenset(pair) for pair in zip(proposed["source"], proposed["target"])}
    assert len(names) == len(proposed) == 20 * 19 / 2 - 80
    assert not names & set(map(frozenset, pairs))
    assert (proposed["probability"].diff().dropna() <= 0).all()


def test_proposals_do_not_depend_on_names_of_nodes_or_order_of_rows():
    graph = networkx.planted_partition_graph(3, 12, 0.5, 0.02, seed=0)
    pairs = table_of(list(graph.edges))
    nodes = pd.DataFrame({"id": range(36), "town": [node // 12 for node in range(36)]})

    def renamed(column):
        return "name " + column.astype(str)

    def proposals(edges, table):
        model = LinkPredictor(epochs=3, width=8, heads=2, negatives=10, features=["town"])
        return model.fit((edges, table)).predict(top=30)

    first = proposals(pairs, nodes)
    shuffled = proposals(pairs.sample(frac=1, random_state=0), nodes)
    pd.testing.assert_frame_equal(first, shuffled)
    other = proposals(pairs.apply(renamed), nodes.assign(id=renamed(nodes["id"])))
    expected = first.assign(source=renamed(first["source"]), target=renamed(first["target"]))
    pd.testing.assert_frame_equal(expected, other, check_dtype=False)


def test_component_weights_of_link_predictor_are_fitted_to_the_metric_that_option_metric_names():
    graph = networkx.planted_partition_graph(3, 15, 0.4, 0.02, seed=0)
    size = {"epochs": 2, "width": 8, "heads": 2, "negatives": 20}
    both, mrr, area = (
        LinkPredictor(**size, metric=metric).fit(graph).predictor_.weights
        for metric in ("auto", "mrr", "roc_auc")
    )
    assert both["mrr"] != both["roc_auc"]
    assert mrr == dict.fromkeys(both, both["mrr"])
    assert area == dict.fromkeys(both, both["roc_auc"])


def test_links_of_a_grid_without_triangles_have_higher_scores_than_random_pairs():
    graph = networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(20, 20))
    model = LinkPredictor(epochs=2, width=8, heads=2)
    metrics = measured_on_test_part(model, graph, 0.1, 0.1)[-1]["metrics"]
    assert metrics["adamic_adar"]["roc_auc"] < 0.52
    assert metrics["stack"]["roc_auc"] > 0.9
    assert metrics["stack"]["pr_auc"] > 0.9
    assert not model.predictor_.noise


def test_fit_of_link_predictor_to_a_complete_bipartite_graph_raises_error():
    pairs = [(a, b) for a in "abcd" for b in "wxyz"]
    links, _ = links_of(pairs)
    assert not len(make_ranking(links, np.arange(16), 5, np.random.default_rng(0)))
    with pytest.raises(GraphError, match="linked to every possible target"):
        LinkPredictor(**TINY).fit(table_of(pairs))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"negatives": 0}, "negatives must be"),
        ({"width": 9, "heads": 2}, "must divide width"),
        ({"time": "year"}, "'year'"),
        ({"features": ["size"]}, "'size'"),
        ({"directed": True}, "every edge has an opposite edge"),
    ],
)
def test_invalid_parameters_of_link_predictor_raise_error(parameters, message):
    with pytest.raises(ValueError, match="top must be at least 1"):
        LinkPredictor(**{**TINY, **parameters}).predict(top=0)
    graph = networkx.cycle_graph(30)
    with pytest.raises(ValueError, match=message):
        LinkPredictor(**{**TINY, **parameters}).fit(graph)


def test_link_predictor_proposes_reverse_links_if_most_links_are_mutual():
    draw = np.random.default_rng(0)
    pairs = list(networkx.gnm_random_graph(120, 500, seed=0, directed=True).edges)
    pairs += [(b, a) for a, b in pairs if draw.random() < 0.8]
    model = LinkPredictor(**{**TINY, "model": "stacked"}, negatives=50).fit(table_of(pairs))
    assert not model.predictor_.noise
    assert model.validation_["stack"]["mrr"] > 0.3
    proposed = model.predict(top=20)
    opposite = {(str(b), str(a)) for a, b in pairs if (b, a) not in pairs}
    assert set(zip(proposed["source"], proposed["target"])) <= opposite
