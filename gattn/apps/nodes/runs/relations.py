"""Measurement of how much a model's predictions depend on each relation of a typed network."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.models import AnyPredictor, attention_network
from gattn.apps.nodes.runs.measure import measure
from gattn.apps.nodes.typed.report import attention_shares, permuted_graphs

__all__ = ["relation_metrics"]


def relation_metrics(
    predictor: AnyPredictor, graph: AttributedGraph, y: Tensor, part: Tensor, seed: int
) -> dict[str, dict[str, Any]]:
    """Return the number of edges, the attention and the importance of each relation.

    The destinations of the edges of one relation are exchanged at random, and the trained model
    predicts again. A relation that the model does not use leaves the metrics unchanged.

    Args:
        predictor: the trained model.
        graph: the graph of the training, with the inputs of its network.
        y: [n] labels, NaN for nodes without a label.
        part: nodes to which the model was not fitted.
        seed: seed of the permutations.

    Returns:
        For each relation ``edges``, the share of ``attention`` (None for a relation between other
        types), and the metrics of the part after the permutation, ``permuted``, which are empty if
        the network has more than 2,000,000 edges.

    Reference:
        Breiman, "Random forests" (Machine Learning 2001), section 10.
    """
    assert graph.network is not None
    network: Any = attention_network(predictor)
    shares = attention_shares(network, graph)
    permuted = {
        relation: measure(predictor.task, y[part], predictor.predict_edited(other, graph)[part])
        for relation, other in permuted_graphs(predictor.encoder, graph, seed).items()
    }
    return {
        str(relation): {
            "edges": len(edges),
            "attention": shares.get(relation),
            "permuted": permuted.get(relation, {}),
        }
        for relation, edges in graph.network.edges.items()
    }
