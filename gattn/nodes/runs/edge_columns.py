"""Measurement of how much the predictions of a model depend on each column of the edges."""

from __future__ import annotations

from torch import Tensor

from gattn.nodes.attributed import AttributedGraph
from gattn.nodes.models import AnyPredictor
from gattn.nodes.runs.measure import measure

__all__ = ["MAX_VALUES", "edge_column_metrics"]

MAX_VALUES = 2_000_000
"""Maximum number of edges times columns for which the columns are permuted."""


def edge_column_metrics(
    predictor: AnyPredictor, graph: AttributedGraph, y: Tensor, val: Tensor, seed: int
) -> dict[str, dict[str, float]]:
    """Return, for each column, the metrics of the validation part after the values of the column
    were permuted.

    The values of one column of the edges are exchanged among the edges at random, and the trained
    model predicts again. A column that the model does not use leaves the metrics unchanged.

    Args:
        predictor: the trained model.
        graph: the graph of the training, with the inputs of its edges.
        y: [n] labels, NaN for nodes without a label.
        val: nodes of the validation part.
        seed: seed of the permutations.

    Returns:
        Metrics by name of the column; empty if no column is read, or if the graph has so many edges
        that this would take long.

    Reference:
        Breiman, "Random forests" (Machine Learning 2001), section 10.
    """
    encoder = predictor.encoder.edges
    if encoder is None or graph.edge_index.shape[1] * len(encoder.names) > MAX_VALUES:
        return {}
    results = {}
    for name in encoder.names:
        predicted = predictor.predict(encoder.permuted(graph, name, seed))
        results[name] = measure(predictor.task, y[val], predicted[val])
    return results
