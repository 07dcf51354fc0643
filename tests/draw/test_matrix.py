"""Tests of attention matrices: the position of each weight, and the names at the sides."""

import numpy as np
import pytest
import torch

from gattn import functional, graphs
from gattn.draw import attention_matrix, draw_matrix, figure, matrix
from tests.draw.panels import drawn_axes


def test_attention_matrix_has_each_weight_at_its_query_and_key():
    graph = graphs.causal([4])
    x = torch.randn(4, 2, 8)
    weights = functional.dot_product_attention_weights(x, x, graph)
    scores = torch.einsum("ihc,jhc->hij", x, x) / 8**0.5
    scores = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    expected = scores.softmax(-1).mean(0).numpy()
    dense = attention_matrix(graph.edge_index, weights, graph.size)
    there = np.tril(np.ones((4, 4), bool))
    assert np.allclose(dense[there], expected[there], atol=1e-6)
    assert np.isnan(dense[~there]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (1, 2)}, "sources below 1 and destinations below 2; got 1 and 1"),
        ({"queries": ["a"]}, "queries must have 2 names; got 1"),
        ({"keys": list("abc")}, "keys must have 2 names; got 3"),
    ],
)
def test_draw_matrix_raises_error_if_names_or_size_do_not_match(options, message):
    with pytest.raises(ValueError, match=message):
        draw_matrix([[0, 1], [1, 0]], [1.0, 1.0], **options)


def test_axes_show_names_of_queries_and_keys_if_they_are_few(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(figure, "DOTS", 50)
    seen = drawn_axes(monkeypatch, matrix)
    words = ["the", "cat", "a very long word"]
    draw_matrix([[0, 1, 2], [0, 1, 2]], [1.0, 0.5, 0.2], queries=words, keys=words, title="x")
    shown = ["the", "cat", "a very long…"]
    assert [tick.get_text() for tick in seen[0].get_yticklabels()] == shown
    assert [tick.get_text() for tick in seen[0].get_xticklabels()] == shown
    many = np.arange(60)
    draw_matrix([many, many], np.ones(60), queries=["w"] * 60)
    assert [tick.get_text() for tick in seen[-1].get_yticklabels()] == []
