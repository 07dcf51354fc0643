"""Measurement of how much a model's predictions depend on each edge column."""

from __future__ import annotations

from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.models import AnyPredictor
from gattn.apps.nodes.runs.measure import measure

__all__ = ["MAX_VALUES", "edge_column_metrics"]

MAX_VALUES = 2_000_000
"""Edge columns are only permuted if (number of edges) x (number of columns) is at most this
number.
"""


def edge_column_metrics(
    predictor: AnyPredictor, graph: AttributedGraph, y: Tensor, part: Tensor, seed: int
) -> dict[str, dict[str, float]]:
    """Return a dictionary from each edge column to the metrics of a part after the values of this
    column were permuted.

    The values of one column of the edges are exchanged among the edges at random, and the trained
    model predicts again. A column that the model does not use leaves the metrics unchanged.

    Args:
        predictor: the trained model.
        graph: the graph of the training, with the inputs of its edges.
        y: [n] labels, NaN for nodes without a label.
        part: nodes to which the model was not fitted.
        seed: seed of the permutations.

    Returns:
        Metrics by name of the column; empty if no column is read, or if the graph has so many edges
        that the predictions would take long.

    Reference:
        Breiman, "Random forests" (Machine Learning 2001), section 10.
    """
    encoder = predictor.encoder.edges
    if encoder is None or graph.edge_index.shape[1] * len(encoder.names) > MAX_VALUES:
        return {}
    results = {}
    for name in encoder.names:
        predicted = predictor.predict(encoder.permuted(graph, name, seed))
        results[name] = measure(predictor.task, y[part], predicted[part])
    return results
