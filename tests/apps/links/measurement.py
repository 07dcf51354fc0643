"""Training and measurement of links for the tests of accuracy."""

import numpy as np

from gattn.apps.links.pairs import make_ranking, read_links
from gattn.apps.nodes.reading import read_graph


def measured_on_test_part(model, graph, val, test):
    """Train an estimator on undirected links; return the graph, the ranking of the test links among
    50 negatives, and the measurement of the model on it.
    """
    read = read_graph(graph, directed=False)
    links, _ = read_links(read, False)
    split, times = model.parts(read, links, val, test)
    encoded = model.encode(read, links, split)
    model.fit_parts(encoded, links, split, times)
    ranking = make_ranking(links, split.test.numpy(), 50, np.random.default_rng(0), None, 10)
    return read, ranking, model.predictor_.measure(encoded.graph, ranking)
