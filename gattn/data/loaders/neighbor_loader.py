"""Batches of sampled neighbourhoods, as PyG's ``NeighborLoader`` gives them, ready to attend."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

from gattn.data.loaders.pyg_samplers import add_sample, pyg_sampler
from gattn.graph import Graph
from gattn.graph.edge_input import check_count
from gattn.sampling.batch import EdgeType

__all__ = ["NeighborLoader"]

_SERVED = ("batch_size", "shuffle", "drop_last", "sampler", "batch_sampler", "pin_memory")
_UNSERVED = {
    "disjoint": False,
    "input_time": None,
    "temporal_strategy": "uniform",
    "time_attr": None,
    "weight_attr": None,
    "transform_sampler_output": None,
    "neighbor_sampler": None,
    "custom_cls": None,
    "directed": True,
    "worker_init_fn": None,
    "multiprocessing_context": None,
    "timeout": 0,
}
"""Arguments of PyG that are taken with these values only."""
_WITHOUT_EFFECT = ("is_sorted", "filter_per_worker", "persistent_workers")
"""Arguments of PyG that say how its batches are made, not what is in them."""


class NeighborLoader(NodeLoader):
    r"""Batches of seeds with sampled neighbours: PyG's ``NeighborLoader`` on gattn's sampler.

    A batch is a PyG ``Data`` with PyG's fields: those of the data for the nodes and edges of the
    batch (``x``, ``y``, ``edge_attr``, ...), ``edge_index``, ``n_id``, ``e_id``, ``input_id``,
    ``batch_size``, ``num_sampled_nodes`` and ``num_sampled_edges``; the seeds are its first nodes.
    It has two more:

    * ``layer_graphs``, a :class:`gattn.Graph` for each layer: from the nodes of so many hops to
      those of one hop less, which are the first of them. A layer computes what is needed later,
      and nothing else: ``x = layer((x, x[: graph.num_dst]), graph)``.
    * ``graph``, the edges among all nodes of the batch, for models that take ``edge_index``.

    Both are laid out as the batch is made: layers sort no edges, but for those that add
    self-loops. The neighbourhoods of a batch are drawn once, as PyG draws them: all layers attend
    to the same sample. In a ``HeteroData`` both are dictionaries by edge type.

    Batches are made in the background, by threads, since the sampler holds no lock of Python's.
    The same seed gives the same batches with any number of them.

    Args:
        data: ``Data`` or ``HeteroData`` in memory.
        num_neighbors: edges for each node in each hop, -1 for all; by edge type where there are
            several.
        input_nodes: the seeds, as positions or a mask; all nodes if None. In a ``HeteroData`` a
            node type, or a pair of the type and the seeds.
        replace: whether an edge may be drawn again.
        subgraph_type: ``"directional"``: a batch holds the edges that were drawn.
        transform: what is made of each batch before it is handed out.
        graph: the edges of the data where they are laid out already, by edge type where there are
            several; otherwise those of ``edge_index`` or ``adj_t`` are laid out, once for each
            tensor.
        num_workers: threads that make batches in the background; 0 for none.
        prefetch_factor: batches that each of them may be ahead.
        generator: that of the order and of the samples; torch's own if None.
        **kwargs: of torch's ``DataLoader``: ``batch_size``, ``shuffle``, ``drop_last``,
            ``sampler``, ``batch_sampler``, ``pin_memory``.

    Raises:
        TypeError: for other data, or an argument that neither PyG nor torch has.
        ValueError: for an argument of PyG that is not served, data without edges, seeds that are
            no nodes, and a mask of another length.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from gattn import graphs
        >>> from gattn.data import NeighborLoader
        >>> data = Data(x=torch.randn(100, 8), edge_index=graphs.band([100], 2).edge_index)
        >>> loader = NeighborLoader(data, [-1, -1], batch_size=10)
        >>> batch = next(iter(loader))
        >>> [graph.num_dst for graph in batch.layer_graphs]
        [12, 10]
    """

    def __init__(
        self,
        data: Data | HeteroData,
        num_neighbors: Sequence[int] | Mapping[EdgeType, Sequence[int]],
        input_nodes: Any = None,
        replace: bool = False,
        subgraph_type: str = "directional",
        transform: Callable[[Any], Any] | None = None,
        *,
        graph: Graph | Mapping[EdgeType, Graph] | None = None,
        num_workers: int = 1,
        prefetch_factor: int | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> None:
        _check_arguments(subgraph_type, kwargs)
        check_count("num_workers", num_workers)
        ahead = 2 if prefetch_factor is None else prefetch_factor
        check_count("prefetch_factor", ahead, least=1)
        self._sampler = pyg_sampler(data, num_neighbors, graph, replace=replace)
        self._threads, self._ahead = num_workers, ahead * num_workers
        super().__init__(
            data,
            self._sampler,
            _with_mask(data, input_nodes),
            filter_per_worker=False,
            generator=generator,
            **{name: value for name, value in kwargs.items() if name in _SERVED},
        )
        self._transform = transform  # PyG's own would not see the graphs

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch, in order."""
        first = int(torch.empty((), dtype=torch.int64).random_(2**62, generator=self.generator))
        assert self.batch_sampler is not None  # there is none for a batch_size of None
        tasks = zip(self.batch_sampler, itertools.count(first))  # a seed for each batch
        return self._in_background(tasks) if self._threads else itertools.starmap(self._make, tasks)

    def _in_background(self, tasks: Iterator[tuple[list[int], int]]) -> Iterator[Any]:
        """The batches of these tasks, of which a few are always under way."""
        waiting: collections.deque[Future[Any]] = collections.deque()
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="NeighborLoader")
        try:
            for index, seed in tasks:
                waiting.append(threads.submit(self._make, index, seed))
                if len(waiting) > self._ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _make(self, index: list[int], seed: int) -> Any:
        """The batch of the seeds at these positions."""
        batch = self.filter_fn(self._sampler.draw(self.input_data[index], seed))
        return batch.pin_memory() if self.pin_memory and torch.cuda.is_available() else batch

    def filter_fn(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        """The fields of the sampled nodes and edges, and the graphs."""
        assert out.metadata is not None  # a PyGSampler's
        input_id, seed_time, sample = out.metadata
        out.metadata = input_id, seed_time
        batch = super().filter_fn(out)
        add_sample(batch, sample)
        return batch if self._transform is None else self._transform(batch)


def _with_mask(data: Data | HeteroData, input_nodes: Any) -> Any:
    """The seeds as PyG takes them: any mask is a tensor, of which PyG does not ask the length."""
    if isinstance(data, HeteroData):
        if input_nodes is None or isinstance(input_nodes, str):
            return input_nodes
        kind, nodes = input_nodes
        return kind, _checked_mask(nodes, int(data[kind].num_nodes or 0))
    return _checked_mask(input_nodes, int(data.num_nodes or 0))


def _checked_mask(nodes: Any, count: int) -> Any:
    if nodes is None or (mask := torch.as_tensor(nodes)).dtype != torch.bool:
        return nodes
    if mask.shape != (count,):
        raise ValueError(f"a mask of seeds must have shape ({count},); got {tuple(mask.shape)}")
    return mask


def _check_arguments(subgraph_type: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise for what neither PyG nor torch has, and for what is not served."""
    kind = str(getattr(subgraph_type, "value", subgraph_type))  # PyG has an enumeration
    if kind != "directional":
        raise ValueError(f"subgraph_type must be 'directional'; got {kind!r}")
    for name, value in kwargs.items():
        if name in _UNSERVED and value != _UNSERVED[name]:
            raise ValueError(
                f"gattn's NeighborLoader does not serve {name}: it must be {_UNSERVED[name]!r}; "
                f"got {value!r}"
            )
        if name not in (*_SERVED, *_UNSERVED, *_WITHOUT_EFFECT):
            raise TypeError(f"NeighborLoader has no argument {name!r}")
    if "batch_size" in kwargs and kwargs["batch_size"] is None:
        raise ValueError("batch_size must be an int; got None")
