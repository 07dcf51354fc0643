"""Summary of a typed network, and measurement of how much predictions depend on each relation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.typed.network import TypedNetwork
from gattn.apps.nodes.typed.predictor import TypedPredictor, offsets
from gattn.apps.nodes.typed.relations import Relation
from gattn.apps.run.text import plural


def describe_network(network: TypedNetwork, encoder: FeatureEncoder) -> str:
    """Return the numbers of features, of nodes of other types and of edges as text.

    >>> import pandas as pd
    >>> from gattn.apps.nodes.features import encode_graph
    >>> from gattn.apps.nodes.reading import read_graph
    >>> nodes = {kind: pd.DataFrame({"id": ["a", "b"]}) for kind in ("papers", "authors")}
    >>> writes = pd.DataFrame({"author": ["a", "b"], "paper": ["a", "b"]})
    >>> edges = {("authors", "writes", "papers"): writes}
    >>> encoded = encode_graph(read_graph((edges, nodes), label_type="papers"), None, [])
    >>> describe_network(encoded.graph.network, encoded.encoder)
    '1 feature; authors: 2 nodes, 0 features; authors-writes-papers: 2 edges'
    """
    assert encoder.network is not None
    features = plural(encoder.width, "feature")
    parts = [
        f"{kind}: {plural(network.size(kind), 'node')}, "
        f"{plural(encoder.network.types[kind].width, 'feature')}"
        for kind in sorted(network.others)
    ]
    parts += [
        f"{relation}: {plural(len(edges), 'edge')}" for relation, edges in network.edges.items()
    ]
    return "; ".join([features, *parts])


def attention_shares(predictor: TypedPredictor, graph: AttributedGraph) -> dict[Relation, float]:
    """Return for each relation the share of the attention of the labelled nodes in the last layer.

    The share is the mean over the heads and over the labelled nodes with an edge. The attention
    along and against the direction of the edges is added. A relation between other types has no
    share.
    """
    network = graph.network
    assert network is not None
    last = predictor.relation_attention(graph)[-1]
    sums: dict[Relation, Tensor] = {}
    total = torch.zeros(len(graph), dtype=torch.float64)
    for relation in network.edges:
        for direction in (relation, relation.reverse()):
            if direction.destination == network.target and direction in last:
                (_, destination), alpha = last[direction]
                one = torch.zeros_like(total)
                one.index_add_(0, destination, alpha.double().mean(1))
                sums[relation] = sums.get(relation, torch.zeros_like(total)) + one
                total += one
    has_edge = total > 0
    count = max(int(has_edge.sum()), 1)
    return {relation: float(one[has_edge].sum()) / count for relation, one in sums.items()}


def node_titles(graph: AttributedGraph) -> tuple[list[str], np.ndarray]:
    """Return the names of all nodes in the order of
    :func:`gattn.apps.nodes.typed.predictor.offsets`, and the position of the type of each.

    The name of a node that is not predicted is followed by its type.
    """
    network = graph.network
    assert network is not None
    names: list[str] = []
    kinds = []
    for place, kind in enumerate(offsets(network)):
        some: Any = network.names(kind, graph)
        suffix = f" ({kind})" if place else ""
        names += [f"{name}{suffix}" for name in some]
        kinds.append(np.full(len(some), place))
    return names, np.concatenate(kinds)
