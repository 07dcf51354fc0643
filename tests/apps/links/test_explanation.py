"""Explanation of one pair of nodes: which nodes it names, and the command that writes it."""

import csv

import networkx
import numpy as np
import pytest

from gattn.apps.links import LinkPredictor
from gattn.apps.links.runs.explain import explain_link
from tests.apps.cli.commands import runner


@pytest.fixture(scope="module")
def model():
    """Model of a network of cliques that share single nodes; 40 and 41 have two common
    neighbours, and 40 and 42 are joined by a path of three edges.
    """
    graph = networkx.ring_of_cliques(8, 5)
    graph.add_edges_from([(40, 0), (40, 1), (41, 0), (41, 1), (42, 41)])
    graph.add_node(43)
    return LinkPredictor(epochs=3, width=8, heads=1, directed=False, negatives=10).fit(graph)


def explained(model, source, target, **options):
    ends = [model.graph_.names.index(name) for name in (source, target)]
    return explain_link(model.predictor_, model.graph_, model.links_, *ends, **options)


def test_explanation_of_a_pair_lists_its_common_neighbours(model):
    one = explained(model, 40, 41)
    assert (one.distance, one.count) == (2, 2)
    assert {model.graph_.names[bridge.place] for bridge in one.bridges} == {0, 1}
    assert one.probability == pytest.approx(model.predict_proba([(40, 41)])[0])
    odds = [np.log(p / (1 - p)) for p in (one.probability, one.bridges[0].without)]
    assert one.bridges[0].change == pytest.approx(odds[0] - odds[1], rel=1e-4)
    assert one.edges.shape == (2, 4)


def test_explanation_of_a_distant_pair_lists_nodes_on_shortest_paths(model):
    one = explained(model, 40, 42)
    assert (one.distance, one.count) == (3, 3)
    assert len(explained(model, 40, 42, most=1).bridges) == 1


def test_explanation_of_a_link_ignores_the_link_itself(model):
    one = explained(model, 42, 41)
    assert one.distance == np.inf
    assert (one.bridges, one.count) == ((), 0)
    assert one.probability == one.separated
    assert one.without_opposite is None


def test_explanation_of_a_directed_link_has_the_score_without_the_opposite_link(model):
    arcs = [(a, b) for a, b in networkx.gnm_random_graph(30, 200, seed=0, directed=True).edges]
    arcs = networkx.DiGraph([*arcs, *((b, a) for a, b in arcs[:120])])
    directed = LinkPredictor(epochs=3, width=8, heads=1, negatives=10).fit(arcs)
    a, b = next((a, b) for a, b in arcs.edges if not arcs.has_edge(b, a))
    one = explained(directed, b, a)
    assert one.without_opposite is not None
    assert one.without_opposite != one.probability
    assert explained(directed, a, b).without_opposite is None


def test_links_explain_writes_a_table_and_a_picture_of_the_pair(tmp_path, monkeypatch, capsys):
    graph = networkx.ring_of_cliques(8, 5)
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in graph.edges))
    gattn = runner(monkeypatch, capsys, "links")
    small = ("--epochs", 1, "--width", 8, "--heads", 1, "--negatives", 5)
    assert gattn("train", edges, "--undirected", "--out", tmp_path / "run", *small)[0] == 0
    code, text = gattn("explain", tmp_path / "run", edges, "n0", "n7", "--out", tmp_path / "why")
    assert code == 0, text
    with (tmp_path / "why" / "nodes.csv").open(newline="") as file:
        assert {row["node"] for row in csv.DictReader(file)} <= set(text.split())
    assert (tmp_path / "why" / "network.png").read_bytes()[1:4] == b"PNG"
    for names, message in ((("n0", "n0"), "must differ"), (("n0", "m"), "no node 'm'")):
        code, text = gattn("explain", tmp_path / "run", edges, *names, "--out", tmp_path / "no")
        assert (code, message in text) == (2, True), text
        assert not (tmp_path / "no").exists()
