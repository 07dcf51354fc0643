"""Attention network of a large graph, which is trained on sampled neighbourhoods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import Field, FieldInput, read_features
from gattn.apps.nodes.network import attention_weights
from gattn.apps.nodes.predictor import NodeProblem
from gattn.apps.nodes.scratch import pieces, sample
from gattn.apps.nodes.stack.residual import ResidualPredictor
from gattn.apps.runtime.threads import limited_threads
from gattn.graph import Graph
from gattn.graph.sorting import lay_out_rows
from gattn.layout.layout import INT32_END
from gattn.models import layerwise_inference
from gattn.sampling import NeighborSampler
from gattn.sampling.batch import Sample

DEFAULTS = {"dropout": 0.1, "learning_rate": 4e-3, "weight_decay": 1e-4}
"""Settings of this network in a stack that replace the default settings of
:class:`NodeSettings`.
"""
BATCH_EDGES = 1 << 20
"""Maximum number of edges and nodes of a range for which a layer is computed at once."""
SHOWN_SEEDS, SHOWN_FANOUT = 64, 12
"""Number of nodes whose neighbourhoods are sampled for the picture of the attention weights, and
number of neighbours in each hop.
"""
NODE_FANOUT = 1024
"""Maximum number of edges into a single node whose attention weights are computed."""
ALL = 1 << 62
"""Size of a graph for which all threads are used."""
BATCH, FANOUT, LATER_FANOUT = 1024, 10, 5
"""Number of training nodes in a step; number of neighbours that are sampled for each of them, and
for each node in later hops.
"""
SEEDS, MOST_EPOCHS = 2_000_000, 40
"""Number of training nodes in all steps together, and maximum number of epochs."""
CHECKED_NODES = 20_000
"""Maximum number of validation nodes whose loss is computed after each epoch."""


@dataclass(frozen=True, eq=False)
class SampledInputs:
    """Features and edges from which neighbourhoods are sampled.

    Attributes:
        x: [n, d] float32 features, dense or ``torch.sparse_csr``.
        graph: the edges.
        terms: features and biases of the edges, by the name of a layer's argument.
    """

    x: Tensor
    graph: Graph
    terms: Mapping[str, Tensor]

    @classmethod
    def of(cls, graph: AttributedGraph, x: Tensor) -> SampledInputs:
        """Return the inputs of a graph whose edges are sorted by destination, and its features."""
        return cls(x, _sorted_graph(graph.edge_index, len(graph)), graph.edge_terms)

    def batch(self, sample: Sample) -> FieldInput:
        """Return the input of a network for the seeds of a sample."""
        terms = tuple(
            {name: one[sample.edges[: graph.num_edges]] for name, one in self.terms.items()}
            for graph in sample.layer_graphs
        )
        layers = tuple((graph, graph.num_dst) for graph in sample.layer_graphs)
        field = Field(sample.nodes, layers)
        return FieldInput(read_features(self.x, sample.nodes), field, terms)


def _sorted_graph(edges: Tensor, nodes: int) -> Graph:
    """Return the graph of edges [2, e] that are sorted by destination and then by source."""
    kind = torch.int32 if max(nodes, edges.shape[1]) < INT32_END else torch.int64
    source, destination = edges.to(kind)
    rowptr = torch.zeros(nodes + 1, dtype=kind)
    torch.cumsum(torch.bincount(destination, minlength=nodes), 0, out=rowptr[1:])
    return Graph.from_layout(
        lay_out_rows(rowptr, source, torch.arange(len(source), dtype=kind), nodes)
    )


@dataclass(frozen=True, eq=False)
class SampledBatches:
    """Nodes of one part of the data, whose neighbourhoods are sampled for each batch.

    Attributes:
        inputs: features and edges of the graph.
        sampler: sampler of the neighbourhoods.
        nodes: [k] the nodes of the part.
        target: [k, 1] their labels.
        is_fixed: True to sample the same neighbours in each epoch.
    """

    inputs: SampledInputs
    sampler: NeighborSampler
    nodes: Tensor
    target: Tensor
    is_fixed: bool

    def __len__(self) -> int:
        return len(self.nodes)

    def batch(self, positions: Tensor) -> tuple[Any, Tensor, None]:
        """Return the neighbourhoods of the nodes at these positions, their labels [b, 1], and None,
        because all losses have the factor 1. If the batches are fixed, the first position is the
        seed of the neighbourhoods; otherwise torch's random generator draws it.
        """
        seed = int(positions[0] if self.is_fixed else torch.randint(1 << 62, ()))
        sample = self.sampler.sample(self.nodes[positions], random_seed=seed)
        return self.inputs.batch(sample), self.target[positions], None


class SampledPredictor(ResidualPredictor):
    """:class:`gattn.apps.nodes.stack.residual.ResidualNetwork` of a graph above the memory budget.

    The network is trained on sampled neighbourhoods. Predictions read all edges, layer by layer.
    """

    def _train(
        self,
        problem: NodeProblem,
        y: Tensor,
        on_epoch: Callable[[EpochRecord], None],
        threads: int,
    ) -> History:
        """Train the network on samples of neighbours, and return its history; see
        :meth:`NodePredictor.fit`. Raises TrainingError if the loss is not finite.

        After each epoch, the loss on sampled neighbourhoods of at most 20,000 validation nodes is
        computed. At the end, the network has the weights of the epoch with the lowest loss.
        """
        # The training loop takes long to import.
        from gattn.apps.fitting.loop import LoopSettings, fit_network

        inputs, val = self._sampled(problem.graph, problem.x), problem.val
        if len(val) > CHECKED_NODES:
            generator = torch.Generator().manual_seed(self.settings.seed)
            val = val[torch.randperm(len(val), generator=generator)[:CHECKED_NODES].sort().values]
        later = [LATER_FANOUT] * (self.settings.layers - 1)
        sampler = NeighborSampler(inputs.graph, (FANOUT, *later))
        part, checked = (
            SampledBatches(inputs, sampler, nodes, y[nodes, None].float(), nodes is val)
            for nodes in (problem.train, val)
        )
        epochs = min(self.settings.epochs, MOST_EPOCHS, max(1, SEEDS // max(len(problem.train), 1)))
        loop = LoopSettings(
            epochs=epochs, patience=epochs, batch_size=BATCH, validation_batches=1, average=0.0,
            learning_rate=self.settings.learning_rate, weight_decay=self.settings.weight_decay,
            seed=self.settings.seed,
        )  # fmt: skip
        with limited_threads(ALL, threads):
            return fit_network(self.network, self.loss, part, checked, loop, on_epoch=on_epoch)

    def _sampled(self, graph: AttributedGraph, x: Tensor | None = None) -> SampledInputs:
        """Return the inputs for sampling from a graph, given the features x of its nodes, or None
        to encode them. The inputs of the last graph are stored in the model, and returned for this
        graph without reading x.
        """
        if self._inputs is None or self._inputs[0] is not graph:
            x = self._network_graph(graph).x if x is None else x
            self._inputs = graph, SampledInputs.of(graph, x)
        return self._inputs[1]

    @torch.no_grad()
    def predict(self, graph: AttributedGraph) -> Tensor:
        """Return probabilities [n, classes], or numbers [n, 1] in the unit of the labels, as
        float64. The argument and the errors are those of :meth:`NodePredictor.predict`.
        """
        hidden = self.embed(graph)
        out = torch.cat([self.network.out(hidden[rows]) for rows in pieces(len(hidden))])
        return self.in_unit(out.double())

    @torch.no_grad()
    def embed(self, graph: AttributedGraph) -> Tensor:
        """Return the input of the output layer for each node, [n, width] float32. The argument and
        the errors are those of :meth:`NodePredictor.predict`.
        """
        network = self.network
        with limited_threads(ALL, self.threads):
            inputs, n = self._sampled(graph), len(graph)
            hidden = torch.empty(n, self.settings.width)
            for rows in pieces(n):
                some = torch.arange(rows.start, rows.stop)
                hidden[rows] = network.read(read_features(inputs.x, some))

            def layer(place: int) -> Callable[..., Tensor]:
                """Return the function that computes one layer of the network for a
                range of nodes.
                """

                def run(
                    ends: tuple[Tensor, Tensor], part: Graph, edges: Tensor | None = None
                ) -> Tensor:
                    """Compute the layer for one range of nodes, from all edges into them, whose
                    indices in the graph are ``edges``. ``ends`` are the hidden vectors of the
                    sources, of which the nodes are the first, and of the nodes.
                    """
                    terms = {name: one[edges] for name, one in inputs.terms.items()}
                    return network.layer(place, ends[0], part, part.num_dst, terms)

                return run

            layers = [layer(place) for place in range(self.settings.layers)]
            # The numbers of the edges select the rows of several tensors.
            edges = torch.arange(inputs.graph.num_edges, dtype=torch.int32)
            edges = edges if inputs.terms else None
            return layerwise_inference(layers, hidden, inputs.graph, edges, batch_edges=BATCH_EDGES)

    def attention(self, graph: AttributedGraph) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e] and their attention weights [e, h]. The edges are
        sampled around at most 64 nodes, one of which is the node with the most incoming edges.

        The weights of a node sum to 1 over its sampled edges. The sample depends only on the graph
        and on the seed of the settings.
        """
        seeds = sample(np.arange(len(graph)), SHOWN_SEEDS - 1, self.settings.seed)
        most = int(torch.bincount(graph.edge_index[1], minlength=1).argmax())
        return self._attention(graph, np.unique(np.append(seeds, most)), SHOWN_FANOUT)

    def attention_of(self, graph: AttributedGraph, node: int) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e], by the indices of their nodes in the graph, and their
        attention weights [e, h], in the neighbourhood of one node.

        The neighbourhood contains all edges into the node, or 1,024 of them if there are more, and
        a sample of the edges of the next layers.
        """
        return self._attention(graph, np.array([node]), NODE_FANOUT)

    def _attention(
        self, graph: AttributedGraph, seeds: NDArray[np.int64], fanout: int
    ) -> list[tuple[Tensor, Tensor]]:
        """Return for each layer edges [2, e], by the indices of their nodes in the graph, and their
        attention weights [e, h], in the neighbourhoods of seed nodes, with at most ``fanout`` edges
        into each. The network must be in evaluation mode.
        """
        layers = self.settings.layers
        with limited_threads(ALL, self.threads):
            inputs = self._sampled(graph)
            sampler = NeighborSampler(inputs.graph, [fanout, *[SHOWN_FANOUT] * (layers - 1)])
            some = sampler.sample(torch.from_numpy(seeds), random_seed=self.settings.seed)
            terms = {name: one[some.edges] for name, one in inputs.terms.items()}
            field = Field(some.nodes, ((some.graph, len(some.nodes)),) * layers)
            x = read_features(inputs.x, some.nodes)
            weights = attention_weights(self.network, FieldInput(x, field, (terms,) * layers))
        return [(some.nodes[pairs], alpha) for pairs, alpha in weights]
