"""Features of nodes: encoded attributes, or degrees and random walk probabilities if there are
no attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.columns import ColumnEncoder
from gattn.apps.nodes.edges import ALL_COLUMNS, EdgeColumns, EdgeEncoder, read_edge_columns
from gattn.apps.nodes.fields import csr_tensor
from gattn.apps.nodes.typed.encoder import TypedEncoder, split_features
from gattn.apps.nodes.typed.network import TypedNetwork
from gattn.apps.run.text import plural
from gattn.graph import Graph
from gattn.structure import return_probabilities

WALKS = 2e7
"""Maximum number of pairs of consecutive edges for which return probabilities of random walks
are used as features. The time to compute them is proportional to the number of pairs.
"""


@dataclass(frozen=True)
class FeatureEncoder(ColumnEncoder):
    """Encoder of a graph: its nodes as a feature matrix, and the columns of its edges.

    Attributes:
        walk_steps: number of steps of random walks if the nodes have no columns; 0 for no walks.
        edges: encoder of the columns of edges; None if none is read.
        network: encoder of the other types and of the relations; None for a graph of one type.
    """

    walk_steps: int = 0
    edges: EdgeEncoder | None = None
    network: TypedEncoder | None = None

    @classmethod
    def fit(
        cls,
        graph: AttributedGraph,
        names: Sequence[str] | None,
        leave: Sequence[Hashable],
        *,
        node_names: bool = False,
    ) -> tuple[FeatureEncoder, list[str]]:
        """Fit an encoder to the nodes of a graph, and return it with notes; see
        :meth:`ColumnEncoder.fit_columns`. Without columns, the features are degrees and random
        walks, or a one if there are several types of nodes. Raises GraphError for a column that is
        missing or cannot be read.
        """
        nodes, notes = cls.fit_columns(graph, names, leave, node_names=node_names)
        if nodes.source != "structure":
            return cls(nodes.columns, nodes.width, nodes.source), notes
        if graph.network is not None:
            kind = graph.network.target
            note = f"Type {kind}: no columns are read, only the edges of its nodes."
            return cls((), 1, "structure"), [*notes, note]
        steps = 4 if not _has_times(graph) and _two_steps(graph) <= WALKS else 0
        walks = f" and the return probabilities of random walks of 1 to {steps} steps" * bool(steps)
        note = f"The nodes have no features: the model uses their degrees{walks}."
        return cls((), 3 + steps, "structure", steps), [*notes, note]

    @property
    def network_width(self) -> int:
        """Number of features of a node that an attention network reads."""
        return self.width if self.network is None else self.network.width(self.width)

    @property
    def edge_dim(self) -> int | None:
        """Number of features of an edge that an attention network reads; None if there are none."""
        if self.network is not None:
            return self.network.edge_dim
        return None if self.edges is None else self.edges.width or None

    def features(self, graph: AttributedGraph) -> Tensor:
        """Encode the nodes of a graph as features, [n, width] float32, dense or CSR.

        Raises:
            GraphError: the graph lacks an attribute or features ``x`` that the encoder reads.
            RuntimeError: the encoder reads columns of edges, and the graph was not passed through
                :meth:`attach_edges`, so that a model would ignore them.
        """
        lacks_edges = self.edges is not None and graph.edge_inputs is None
        is_typed = self.network is not None
        if lacks_edges or (is_typed and (graph.network is None or graph.network.inputs is None)):
            raise RuntimeError("pass the graph through attach_edges before its features are read")
        if self.source != "structure":
            return self.read_columns(graph)
        if graph.network is not None:
            # The models read the numbers of edges of each relation from the network.
            return torch.ones(len(graph), 1)
        return _structure(graph, self.walk_steps)

    def unknown(self, graph: AttributedGraph) -> list[str]:
        """Return a note for each column of nodes or edges with a value or a gap that did not occur
        in training, so that it has no feature.

        Args:
            graph: a graph other than the graph of :meth:`fit`.
        """
        of_edges = [] if self.edges is None else self.edges.unknown(graph)
        of_others = [] if self.network is None else self.network.unknown(graph)
        return [*self.unknown_columns(graph), *of_edges, *of_others]

    def describe_others(self, network: TypedNetwork) -> str:
        """Return the numbers of nodes of other types, of their features and of edges as text.

        >>> import pandas as pd
        >>> from gattn.apps.nodes.reading import read_graph
        >>> nodes = {kind: pd.DataFrame({"id": ["a", "b"]}) for kind in ("papers", "authors")}
        >>> writes = pd.DataFrame({"author": ["a", "b"], "paper": ["a", "b"]})
        >>> edges = {("authors", "writes", "papers"): writes}
        >>> encoded = encode_graph(read_graph((edges, nodes), label_type="papers"), None, [])
        >>> encoded.encoder.describe_others(encoded.graph.network)
        'authors: 2 nodes, 0 features; authors-writes-papers: 2 edges'
        """
        assert self.network is not None
        parts = [
            f"{kind}: {plural(len(nodes), 'node')}, "
            f"{plural(self.network.types[kind].width, 'feature')}"
            for kind, nodes in network.others.items()
        ]
        edges = (f"{one}: {plural(len(table), 'edge')}" for one, table in network.edges.items())
        return "; ".join([*parts, *edges])

    def attach_edges(self, graph: AttributedGraph) -> AttributedGraph:
        """Return the graph with the inputs of its edges. It is unchanged if no edge columns are
        read.

        Raises:
            GraphError: the edges lack a column that the model reads, or it cannot be read; or the
                graph has other types of nodes than in training.
        """
        if self.network is not None:
            return self.network.attach(graph)
        if graph.network is not None:
            raise GraphError(
                "the model was trained on one table of nodes; got tables of the types "
                f"{', '.join(graph.network.types)}"
            )
        return graph if self.edges is None else self.edges.attach(graph)

    def state(self) -> dict[str, Any]:
        """Return the state of the encoder as a dictionary that can be stored in JSON."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> FeatureEncoder:
        """Restore an encoder from the result of :meth:`state`."""
        return msgspec.convert(state, cls)


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """Graph with the features of its nodes.

    Attributes:
        graph: the nodes and edges.
        encoder: the encoder of the features.
        x: [n, d] float32, dense or ``torch.sparse_csr``.
        notes: sentences about decisions made when the graph was read and encoded.
    """

    graph: AttributedGraph
    encoder: FeatureEncoder
    x: Tensor
    notes: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, in which sparse features are stored as several dense
        tensors.

        If torch pickles a sparse CSR tensor, every process prints a warning that CSR is in beta.
        """
        if self.x.layout == torch.strided:
            return self.__dict__
        parts = self.x.crow_indices(), self.x.col_indices(), self.x.values()
        return self.__dict__ | {"x": (*parts, tuple(self.x.shape))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the graph from the state that :meth:`__getstate__` returned."""
        sparse = isinstance(state["x"], tuple)
        self.__dict__.update(state | {"x": csr_tensor(*state["x"]) if sparse else state["x"]})


def encode_graph(
    graph: AttributedGraph,
    names: Sequence[str] | None,
    leave: Sequence[Hashable],
    *,
    node_names: bool = False,
    edges: EdgeColumns = ALL_COLUMNS,
) -> EncodedGraph:
    """Fit a :class:`FeatureEncoder` to a graph, and return the graph with its features.

    The arguments are those of :meth:`FeatureEncoder.fit`, and the columns of edges to read. Raises
    GraphError for a column that is missing or cannot be read.
    """
    if graph.network is None:
        graph, reader, edge_notes = read_edge_columns(graph, edges)
        encoder, notes = FeatureEncoder.fit(graph, names, leave, node_names=node_names)
        encoder, notes = replace(encoder, edges=reader), [*edge_notes, *notes]
    else:
        of_target, of_others = split_features(graph, names)
        encoder, notes = FeatureEncoder.fit(graph, of_target, leave, node_names=node_names)
        network, network_notes = TypedEncoder.fit(graph, of_others, edges)
        encoder, notes = replace(encoder, network=network), [*notes, *network_notes]
        graph = network.attach(graph)
    return EncodedGraph(graph, encoder, encoder.features(graph), (*graph.notes, *notes))


def _degrees(graph: AttributedGraph) -> tuple[Tensor, Tensor]:
    edges = Graph(graph.edge_index, len(graph))
    return edges.in_degree(), edges.out_degree()


def _has_times(graph: AttributedGraph) -> bool:
    return graph.edge_inputs is not None and graph.edge_inputs.open is not None


def _two_steps(graph: AttributedGraph) -> int:
    """Return the number of walks of length two in a graph. It determines the cost of the return
    probabilities.
    """
    into, out = _degrees(graph)
    return int((into.long() * out.long()).sum())


def _structure(graph: AttributedGraph, steps: int) -> Tensor:
    """Compute features from the structure of a graph without attributes: [n, 3 + steps] float32.

    The features are the logarithms of one plus the in- and out-degrees, ones, and the return
    probabilities of 1, 2, ... steps. If the edges or nodes have times, out-degrees are zeros.
    """
    into, out = (degree.float().log1p() for degree in _degrees(graph))
    if _has_times(graph):
        # The outgoing edges of a node lead to newer nodes. Its features must not depend on newer
        # nodes, so outgoing edges are not read.
        out = torch.zeros_like(out)
    columns = [into[:, None], out[:, None], torch.ones(len(graph), 1)]
    if steps:
        columns.append(return_probabilities(graph.edge_index, len(graph), steps=steps))
    return torch.cat(columns, 1)
