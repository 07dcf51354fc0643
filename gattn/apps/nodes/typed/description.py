"""Description of a typed network: its sizes and the names of its nodes."""

from __future__ import annotations

import numpy as np

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.typed.network import TypedNetwork
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
        for kind in network.others
    ]
    parts += [
        f"{relation}: {plural(len(edges), 'edge')}" for relation, edges in network.edges.items()
    ]
    return "; ".join([features, *parts])


def node_titles(graph: AttributedGraph) -> tuple[list[str], np.ndarray]:
    """Return the names of all nodes of a graph with several types, in the order in which an
    attention network reads them, and the position of the type of each, [m] int64.

    The labelled type has the position 0, and the others follow by name. The name of a node that is
    not predicted is followed by its type.
    """
    network = graph.network
    assert network is not None
    names: list[str] = []
    kinds = []
    for place, kind in enumerate(network.types):
        some = network.nodes[kind].names
        suffix = f" ({kind})" if place else ""
        names += [f"{name}{suffix}" for name in some]
        kinds.append(np.full(len(some), place))
    return names, np.concatenate(kinds)
