"""Measurement of how much a model's predictions depend on each edge column or relation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.models import AnyPredictor, attention_network
from gattn.apps.nodes.runs.measure import measure
from gattn.apps.nodes.typed.report import attention_shares

MAX_VALUES = 2_000_000
"""Edges are only permuted if (number of edges) x (number of columns) is at most this number."""


def edge_importance(
    predictor: AnyPredictor, graph: AttributedGraph, y: Tensor, part: Tensor, seed: int
) -> dict[str, dict[str, Any]]:
    """Return for each column of the edges, or for each relation, the metrics of a part after its
    values or the destinations of its edges were permuted, and the attention to a relation.

    For the models of a stack, this takes seconds for each column. It is an importance by
    permutation (Breiman, "Random forests", Machine Learning 2001).

    Args:
        predictor: the fitted model.
        graph: its graph, with the inputs of the edges.
        y: [n] labels.
        part: indices of the nodes on which the metrics are computed.
        seed: seed of the permutations.

    Returns:
        The entries ``permuted`` and ``attention`` by the name of a column or a relation. It is
        empty if no column is read, or if the graph has too many edges.
    """
    encoder, network = predictor.encoder, graph.network
    shares: dict[str, float] = {}
    size = graph.edge_index.shape[1] * (0 if encoder.edges is None else len(encoder.edges.names))
    if network is not None:
        attention: Any = attention_network(predictor)
        shares = {str(name): one for name, one in attention_shares(attention, graph).items()}
        size = sum(map(len, network.edges.values()))
    if size > MAX_VALUES:
        return {}
    importance = {}
    for name, permuted in encoder.permuted(graph, seed):
        predicted = predictor.predict_edited(permuted, graph)
        metrics = measure(predictor.task, y[part], predicted[part])
        importance[name] = {"attention": shares.get(name), "permuted": metrics}
    return importance
