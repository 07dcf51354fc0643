"""Adapters that let PyG's loaders call gattn's neighbourhood samplers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    HeteroSamplerOutput,
    NodeSamplerInput,
    SamplerOutput,
)

from gattn.graph import Graph, as_graph
from gattn.sampling import NeighborSampler, TypedNeighborSampler
from gattn.sampling.batch import EdgeType, Sample, TypedSample


class PyGSampler(BaseSampler):
    """Adapter that makes gattn's neighbourhood samplers available as PyG's ``BaseSampler``, for one
    or several edge types.

    gattn's sample, which contains the graphs, is the last item of the output's ``metadata``, after
    the two items that PyG's loader reads.
    """

    def __init__(self, sampler: NeighborSampler | TypedNeighborSampler) -> None:
        self._sampler = sampler

    def draw(self, inputs: NodeSamplerInput, seed: int) -> SamplerOutput | HeteroSamplerOutput:
        """Sample the neighbourhoods of the input nodes, with ``seed`` as the seed of the random
        generator. Raises ValueError if a node or the seed is out of range.
        """
        if isinstance(self._sampler, NeighborSampler):
            one = self._sampler.sample(inputs.node, random_seed=seed)
            return SamplerOutput(
                node=one.nodes,
                row=one.edge_index[0],
                col=one.edge_index[1],
                edge=one.edges,
                num_sampled_nodes=one.num_nodes,
                num_sampled_edges=one.num_edges,
                metadata=(inputs.input_id, inputs.time, one),
            )
        # For a HeteroData, PyG's loader always passes the node type of the seed nodes.
        assert inputs.input_type is not None
        typed = self._sampler.sample({inputs.input_type: inputs.node}, random_seed=seed)
        return HeteroSamplerOutput(
            node=typed.nodes,
            row={edge_type: pairs[0] for edge_type, pairs in typed.edge_index.items()},
            col={edge_type: pairs[1] for edge_type, pairs in typed.edge_index.items()},
            edge=dict(typed.edges),
            num_sampled_nodes=typed.num_nodes,
            num_sampled_edges=typed.num_edges,
            metadata=(inputs.input_id, inputs.time, typed),
        )

    def sample_from_nodes(
        self, index: NodeSamplerInput, **kwargs: Any
    ) -> SamplerOutput | HeteroSamplerOutput:
        """Sample the neighbourhoods of nodes. The seed is drawn from torch's global random
        generator. Raises ValueError if a node is out of range.
        """
        return self.draw(index, int(torch.empty((), dtype=torch.int64).random_(2**62)))

    def sample_from_edges(self, *args: Any, **kwargs: Any) -> SamplerOutput:
        """Raise NotImplementedError, because gattn has no sampler for the
        neighbourhoods of edges.
        """
        raise NotImplementedError(
            "only neighbourhoods of nodes can be sampled, not neighbourhoods of edges"
        )


def pyg_sampler(
    data: Data | HeteroData,
    num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]],
    graph: Graph | Mapping[EdgeType, Graph] | None,
    *,
    replace: bool,
) -> PyGSampler:
    """Create a sampler from the edges of ``data``, or from ``graph`` if it is not None. Raises
    TypeError for data of another class, or if graph or num_neighbors does not fit to the number of
    edge types, and ValueError if the data has no edges or the graph has other nodes than the data.
    """
    if isinstance(data, HeteroData):
        graphs = graph if graph is not None else _typed_graphs(data)
        if not isinstance(graphs, Mapping):
            raise TypeError(f"graph must be a dict by edge type; got {type(graphs).__name__}")
        return PyGSampler(TypedNeighborSampler(graphs, num_neighbors, replace=replace))
    if not isinstance(data, Data):
        raise TypeError(f"data must be a Data or HeteroData; got {type(data).__name__}")
    if isinstance(num_neighbors, Mapping) or isinstance(graph, Mapping):
        raise TypeError("edges of one type need one graph and one num_neighbors list; got a dict")
    nodes = int(data.num_nodes or 0)
    graph = _graph(data, (nodes, nodes)) if graph is None else graph
    sampler = NeighborSampler(graph, num_neighbors, replace=replace)
    if graph.size != (nodes, nodes):
        raise ValueError(f"graph must have the {nodes} nodes of the data; got {graph!r}")
    return PyGSampler(sampler)


def add_sample(batch: Any, sample: Sample | TypedSample) -> None:
    """Add the sample's graphs to a batch of PyG, in place, and ``edge_index`` if the data had no
    edge tensor.
    """
    batch.graph, batch.layer_graphs = sample.graph, sample.layer_graphs
    if isinstance(sample, Sample):
        if "edge_index" not in batch and "adj_t" not in batch:
            batch.edge_index = sample.edge_index
        return
    for edge_type, edge_index in sample.edge_index.items():
        if "edge_index" not in batch[edge_type] and "adj_t" not in batch[edge_type]:
            batch[edge_type].edge_index = edge_index


def _graph(store: Any, size: tuple[int, int]) -> Graph:
    """Return the graph of ``edge_index`` or ``adj_t`` in a PyG storage. It is built once per
    tensor. Raises ValueError if there is neither, or if the adjacency is a sparse tensor of torch.
    """
    if isinstance(store.get("adj_t"), Tensor):
        raise ValueError(
            "adj_t must be a torch_sparse.SparseTensor, because PyG's loaders support no "
            f"other adjacency; got {store.adj_t.layout}: do not apply ToSparseTensor, because "
            "layers accept the graphs of the batch"
        )
    for name in ("edge_index", "adj_t"):
        if name in store:
            return as_graph(store[name], size)
    raise ValueError("data must have an edge_index or an adj_t; got neither, and no graph")


def _typed_graphs(data: HeteroData) -> dict[EdgeType, Graph]:
    """Return the graph of each edge type. Raises ValueError as :func:`_graph`."""
    count = {node_type: int(data[node_type].num_nodes or 0) for node_type in data.node_types}
    return {
        (source, name, destination): _graph(store, (count[source], count[destination]))
        for (source, name, destination), store in data.edge_items()
    }
