"""Links, their parts, negatives, heuristics, and that held-out edges are not read."""

from dataclasses import replace

import networkx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import random as random_matrix

from gattn.apps.links.metrics import (
    fit_scale,
    fit_weights,
    link_metrics,
    listwise_loss,
    mrr_error,
    ranks,
)
from gattn.apps.links.pairs import (
    draw_negatives,
    link_times,
    make_folds,
    make_ranking,
    random_parts,
    read_links,
    restrict,
    time_parts,
    unordered_keys,
)
from gattn.apps.links.proximity import CHANCE, DAMPING, FEATURES, Proximity
from gattn.apps.nodes.attributed import GraphError
from gattn.apps.nodes.edges import EdgeColumns, read_edge_columns
from gattn.apps.nodes.reading import read_graph


def graph_of(pairs, **columns):
    """Return a graph of a table of edges."""
    source, target = zip(*pairs)
    table = pd.DataFrame({"source": source, "target": target, **columns})
    return read_graph(table, directed=False)


def ring(nodes):
    return [(i, (i + 1) % nodes) for i in range(nodes)]


@pytest.mark.parametrize(("gaps", "directed"), [(0, False), (1, False), (15, True)])
def test_links_are_directed_if_many_edges_have_no_opposite_edge(gaps, directed):
    both = [pair for a, b in ring(100) for pair in ((a, b), (b, a))]
    links, notes = read_links(graph_of(both[2 * gaps :: 2] + both[1::2]), None)
    assert links.directed is directed
    assert bool(notes) is bool(gaps)
    if gaps:
        assert f"{200 - 2 * gaps} of the {200 - gaps} edges have an opposite edge" in notes[0]
    one_way = graph_of(ring(100))
    assert "No edge has an opposite edge (--undir" in read_links(one_way, True)[1][0]


def test_links_of_a_table_are_directed_if_some_edges_have_an_opposite_edge():
    table = graph_of([("a", "b"), ("b", "a"), ("b", "c"), ("c", "c"), ("a", "b")])
    links, notes = read_links(table, None)
    assert (links.directed, links.density) == (True, 3 / 6)
    assert "direction" in notes[0]
    assert {tuple(pair) for pair in links.pairs.T.tolist()} == {(0, 1), (1, 0), (1, 2)}
    links, notes = read_links(table, False)
    assert (links.directed, links.density) == (False, 2 / 3)
    assert "Edges join the nodes in columns 'source' and 'target'" in table.notes[0]
    assert links.pairs.T.tolist() == [[0, 1], [1, 2]]
    path = read_graph(networkx.path_graph(3), directed=False)
    assert not read_links(path, None)[0].directed


def test_links_are_bipartite_if_sources_and_targets_are_disjoint():
    graph = graph_of([("ann", "tea"), ("ben", "tea"), ("ben", "milk")])
    links, notes = read_links(graph, None)
    assert (links.bipartite, links.density) == (True, 3 / 4)
    assert "bipartite" in notes[0]
    names = np.array(graph.names)
    assert set(names[links.sources]) == {"ann", "ben"}
    assert set(names[links.targets]) == {"tea", "milk"}
    ranking = make_ranking(links, np.arange(3), 4, np.random.default_rng(0))
    assert (ranking.candidates[:, 2:] == -1).all()
    # Ben buys everything, so only Ann's link can be ranked, and only against milk.
    assert names[ranking.sources].tolist() == ["ann"]
    assert names[ranking.candidates[:, :2]].tolist() == [["tea", "milk"]]


def test_read_links_of_a_graph_without_edges_raises_error():
    graph = networkx.empty_graph(4)
    with pytest.raises(GraphError, match="the graph has no edges"):
        read_links(read_graph(graph, directed=False), None)


@pytest.mark.parametrize("directed", [False, True])
def test_negative_targets_have_no_link_with_their_source(directed):
    draw = np.random.default_rng(0)
    pairs = draw.integers(12, size=(70, 2)).tolist()
    links, _ = read_links(graph_of(pairs), directed)
    sources = np.arange(12).repeat(3)
    targets = draw_negatives(links, sources, 9, draw)
    linked = {tuple(pair) for pair in links.pairs.T.tolist()}
    if not directed:
        linked |= {pair[::-1] for pair in linked}
    for source, row in zip(sources.tolist(), targets.tolist()):
        for target in row:
            assert target == -1 or (source != target and (source, target) not in linked)


def test_opposite_links_are_in_one_split_if_links_are_undirected():
    draw = np.random.default_rng(1)
    graph = graph_of(draw.integers(20, size=(150, 2)).tolist())
    for directed in (True, False):
        links, _ = read_links(graph, directed)
        split = random_parts(links, 0, 0.2, 0.2)
        parts = [part.numpy() for part in (split.train, split.val, split.test)]
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(links)))
        keys = [set(unordered_keys(links.pairs[:, part], 20).tolist()) for part in parts]
        assert bool(keys[0] & keys[2]) is directed
        # The graph of the training links has every training link and no other.
        messages = restrict(graph, links, parts[0])
        linked = links.numbers(messages.arcs.numpy())
        assert set(linked.tolist()) == set(links.numbers(links.pairs[:, parts[0]]).tolist())
        assert set(unordered_keys(messages.edge_index.numpy(), 20).tolist()) == keys[0]


def test_split_of_fewer_than_ten_links_raises_error():
    links, _ = read_links(graph_of([("a", "b"), ("b", "c")]), None)
    with pytest.raises(GraphError, match=r"must have at least 10 links.*got 2"):
        random_parts(links, 0, 0.1, 0.1)


@pytest.mark.parametrize("directed", [True, False])
def test_restricted_graph_contains_neither_edges_nor_table_rows_of_removed_links(directed):
    pairs = [("a", "b"), ("b", "a"), ("b", "c"), ("a", "c")]
    graph = graph_of(pairs, kind=["x", "y", "z", "x"])
    links, _ = read_links(graph, directed)
    removed = links.numbers(links.pairs) == links.numbers(np.array([0, 1]))
    _, encoder, _ = read_edge_columns(graph, EdgeColumns())
    for whole in (graph, encoder.attach(graph)):
        part = restrict(whole, links, ~removed)
        again = part if whole is graph else encoder.attach(replace(part, edge_inputs=None))
        assert part.edge_table.table["kind"].tolist() == ["y"] * directed + ["z", "x"]
        assert sorted(part.edge_index.T.tolist()) == sorted(again.edge_index.T.tolist())
        assert {tuple(pair) for pair in part.arcs.T.tolist()} == {
            *[(1, 0)] * directed, (1, 2), (0, 2)
        }  # fmt: skip
        if whole is not graph:
            torch.testing.assert_close(part.edge_inputs.features, again.edge_inputs.features)


def test_links_are_split_by_the_time_of_their_first_edge():
    pairs = ring(20)
    years = [2000 + i for i in range(20)]
    graph = graph_of([*pairs, pairs[0]], year=[*years, 2050])
    links, _ = read_links(graph, False)
    times = link_times(graph, links, "year")
    assert sorted(times.tolist()) == years
    split = time_parts(links, times, 0.2, 0.1, "year")
    latest = [times[part.numpy()].max() for part in (split.train, split.val, split.test)]
    assert latest == sorted(latest)
    assert len(split.test) == 2
    assert len(split.val) == 4
    for fold in make_folds(split.train.numpy(), 0, times):
        assert times[fold.messages].max() < times[fold.links].min()
    with pytest.raises(GraphError, match="needs 3 different times"):
        time_parts(links, np.zeros(20), 0.2, 0.1, "year")


def test_each_training_link_is_predicted_in_one_fold_from_the_other_links():
    train = np.arange(3, 100)
    folds = make_folds(train, 0)
    assert sorted(np.concatenate([fold.links for fold in folds]).tolist()) == train.tolist()
    for fold in folds:
        assert sorted([*fold.links, *fold.messages]) == train.tolist()


def test_link_heuristics_equal_those_of_networkx():
    graph = networkx.gnm_random_graph(30, 90, seed=0)
    arcs = np.array([[a, b] for a, b in graph.edges]).T
    scores = Proximity(arcs, 30, None, directed=False, bipartite=False)
    pairs = [(a, b) for a in range(30) for b in range(30) if a != b and not graph.has_edge(a, b)]
    sources, targets = np.array(pairs).T
    values = scores.measure(sources[:, None], targets[:, None])[:, 0]
    for name, function in (
        ("adamic_adar", networkx.adamic_adar_index),
        ("resource_allocation", networkx.resource_allocation_index),
        ("preferential_attachment", networkx.preferential_attachment),
    ):
        expected = [value for *_, value in function(graph, pairs)]
        column = values[:, FEATURES.index(name)]
        np.testing.assert_allclose(np.expm1(column), expected, rtol=1e-4, atol=1e-5)
    shared = [len(set(graph[a]) & set(graph[b])) for a, b in pairs]
    np.testing.assert_allclose(np.expm1(values[:, 0]), shared, atol=1e-4)
    adjacency = networkx.to_numpy_array(graph)
    walks = sum(DAMPING**step * np.linalg.matrix_power(adjacency, step) for step in range(2, 6))
    katz = np.expm1(values[:, FEATURES.index("katz")]) * DAMPING**2
    np.testing.assert_allclose(katz, walks[sources, targets], rtol=1e-3, atol=1e-8)
    chances = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    rank = sum(0.85**step * np.linalg.matrix_power(chances, step) for step in range(1, 11))
    share = np.expm1(values[:, FEATURES.index("pagerank")]) / CHANCE
    np.testing.assert_allclose(share, (rank + rank.T)[sources, targets], rtol=1e-3, atol=1e-7)


def test_random_walk_features_are_logarithms_of_powers_of_the_normalised_adjacency_matrix():
    graph = networkx.disjoint_union(networkx.lollipop_graph(5, 12), networkx.path_graph(3))
    graph.add_node(20)
    scores = Proximity(np.array(graph.edges).T, 21, None, directed=False, bipartite=False)
    pairs = np.array([pair for pair in np.ndindex(21, 21) if pair[0] < pair[1]]).T
    pairs = pairs[:, [not graph.has_edge(*pair) for pair in pairs.T]]
    values = dict(zip(FEATURES, scores.measure(*pairs[:, :, None])[:, 0].T))
    adjacency = networkx.to_numpy_array(graph)
    degree = np.maximum(adjacency.sum(0), 1)
    step = adjacency / np.sqrt(np.outer(degree, degree))
    a, b = pairs
    for length in (2, 5, 10):
        power = np.linalg.matrix_power(step, length)
        expected = np.log(power[a, b] + 1e-6)
        np.testing.assert_allclose(values[f"walk_{length}"], expected, atol=1e-3)
        low, high = np.log(np.sort([power[a, a], power[b, b]], 0) + 1e-3)
        np.testing.assert_allclose(values[f"source_return_{length}"], low, atol=1e-3)
        np.testing.assert_allclose(values[f"target_return_{length}"], high, atol=1e-3)
    lengths = dict(networkx.all_pairs_shortest_path_length(graph))
    expected = [min(lengths[u][v], 11) if v in lengths[u] else 12 for u, v in pairs.T]
    assert values["distance"].tolist() == expected


def test_sketched_return_probabilities_approximate_exact_return_probabilities(monkeypatch):
    arcs = np.array(networkx.gnm_random_graph(400, 1200, seed=0).edges).T
    exact = Proximity(arcs, 400, None, directed=False, bipartite=False).local[1:]
    monkeypatch.setattr("gattn.apps.links.proximity.EXACT", 100)
    sketched = Proximity(arcs, 400, None, directed=False, bipartite=False).local[1:]
    # The rows are the logarithms of the returns after 2, 3, ... steps.
    assert np.abs(sketched[::2] - exact[::2]).mean() < 0.1
    assert np.corrcoef(sketched[0], exact[0])[0, 1] > 0.9


def test_bipartite_heuristic_counts_walks_of_length_three():
    matrix = (random_matrix(8, 6, 0.4, random_state=0).toarray() > 0).astype(float)
    source, target = matrix.nonzero()
    scores = Proximity(np.stack([source, target + 8]), 14, None, directed=False, bipartite=True)
    values = scores.measure(*np.broadcast_arrays(np.arange(8)[:, None], np.arange(8, 14)))
    walks = matrix @ matrix.T @ matrix
    np.testing.assert_allclose(np.expm1(values[..., 0]), walks, rtol=1e-4, atol=1e-4)


def test_directed_walks_of_length_three_go_forward_backward_and_forward():
    # 0 and 1 both lead to 2, and 1 leads to 3: so 0 probably leads to 3.
    arcs = np.array([[0, 1, 1], [2, 2, 3]])
    scores = Proximity(arcs, 4, None, directed=True, bipartite=False)
    walks = scores.rows(np.array([0])).walks_3[:, 0]
    np.testing.assert_allclose(walks, [0, 0, 0.75, 0.25])


def test_metrics_of_three_ranked_links_equal_values_computed_by_hand():
    scores = np.array([[3.0, 1, 2], [1, 3, 2], [1, 1, 0]])
    assert ranks(scores).tolist() == [1, 3, 1.5]
    metrics = link_metrics(scores, scores)
    assert metrics["mrr"] == pytest.approx((1 + 1 / 3 + 2 / 3) / 3)
    assert metrics["hits@1"] == pytest.approx(1 / 3)
    # Of 18 pairs of a true target (3, 1, 1) and a negative (1, 2, 3, 2, 1, 0), ties count half.
    assert metrics["roc_auc"] == pytest.approx((5.5 + 2 + 2) / 18)
    # Three negatives weigh as much as 1.5 links. At the score 3, 1 of 1 + 0.5 is a link; at the
    # score 1, 3 of 3 + 2.5 are links, and 2/3 of the links are found there.
    assert metrics["pr_auc"] == pytest.approx(2 / 3 * 1 / 3 + 3 / 5.5 * 2 / 3)
    inverse = np.array([1, 1 / 3, 2 / 3])
    assert mrr_error(scores) == pytest.approx(inverse.std(ddof=1) / 3**0.5)
    assert mrr_error(scores[:1]) == 0


def test_fitted_weights_combine_two_good_scores_and_ignore_noise():
    draw = np.random.default_rng(0)
    true = np.zeros((3000, 21))
    true[:, 0] = 1.5
    first, second = (true + draw.normal(size=true.shape) for _ in range(2))
    noise = draw.normal(size=true.shape)
    weights = fit_weights([first, 100 * second, noise])
    assert weights[0] == pytest.approx(100 * weights[1], rel=0.1)
    assert weights[2] < 0.1 * weights[0]
    both = weights[0] * first + weights[1] * 100 * second
    assert (1 / ranks(both)).mean() > (1 / ranks(first)).mean() + 0.05
    # Scores that few links cannot distinguish have similar weights.
    few = fit_weights([first[:10], second[:10]])
    assert few.min() > 0.2 * few.max()


def test_fitted_weight_of_scores_that_rank_links_last_is_zero():
    draw = np.random.default_rng(0)
    parts = [draw.normal(size=(2000, 6)) for _ in range(2)]
    for part in parts:
        part[:, 0] -= 1
    assert fit_weights(parts).tolist() == [0, 0]


def test_fitted_scale_minimises_the_listwise_loss():
    scores = np.random.default_rng(0).normal(size=(500, 11))
    scores[:, 0] += 1
    best = fit_scale(scores)
    losses = [listwise_loss(f * best * scores).mean() for f in (0.8, 1.0, 1.25)]
    assert losses[1] < min(losses[0], losses[2])
