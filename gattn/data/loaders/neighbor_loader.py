"""Loader of mini-batches of sampled neighbourhoods, compatible with PyG's ``NeighborLoader``."""

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
"""Arguments of PyG's loader that gattn's loader accepts only with their default values."""
_WITHOUT_EFFECT = ("is_sorted", "filter_per_worker", "persistent_workers")
"""Arguments of PyG's loader that are ignored, because they do not change the contents of a batch.
"""


class NeighborLoader(NodeLoader):
    r"""Loader of mini-batches of sampled neighbourhoods, with the interface of PyG's
    ``NeighborLoader``.

    A batch is a PyG ``Data`` with the same fields as in PyG: the fields of the data for the nodes
    and edges of the batch (``x``, ``y``, ``edge_attr``, ...), ``edge_index``, ``n_id``, ``e_id``,
    ``input_id``, ``batch_size``, ``num_sampled_nodes`` and ``num_sampled_edges``. The seed nodes
    are the first nodes of the batch. A batch has two further fields:

    * ``layer_graphs``, a list with one :class:`gattn.Graph` for each layer. The destinations of
      each graph are the first ``graph.num_dst`` of its source nodes, and the source nodes of the
      next layer's graph. Each layer therefore computes only the rows that later layers need:
      ``x = layer((x, x[: graph.num_dst]), graph)``.
    * ``graph``, the edges among all nodes of the batch, for models that use ``edge_index``.

    The layouts of these graphs are computed with the batch, so that layers do not sort edges,
    except layers that add self-loops. The neighbourhoods of a batch are sampled once, as in PyG:
    all layers attend to the same sample. For ``HeteroData`` both fields are dictionaries by edge
    type.

    Batches are computed by background threads, because the sampler releases Python's global lock.
    The batches depend on the seed but not on the number of threads.

    Args:
        data: ``Data`` or ``HeteroData`` in memory.
        num_neighbors: number of sampled edges for each node in each hop, -1 for all edges; a dict
            by edge type if there are several types.
        input_nodes: the seed nodes, as indices or as a mask; None for all nodes. For
            ``HeteroData`` a node type, or a pair of the type and the seed nodes.
        replace: whether to sample with replacement.
        subgraph_type: only ``"directional"``: a batch contains the sampled edges.
        transform: a function that is applied to each batch.
        graph: the data's edges as a :class:`gattn.Graph`, or a dict of graphs by edge type, if you
            have already built them. Otherwise graphs are built from ``edge_index`` or ``adj_t``,
            once for each tensor.
        num_workers: number of background threads; 0 computes batches in the calling thread.
        prefetch_factor: number of batches that each thread may compute in advance.
        generator: generator of the order of the seed nodes and of the samples; None for torch's
            global one.
        **kwargs: arguments of torch's ``DataLoader``: ``batch_size``, ``shuffle``, ``drop_last``,
            ``sampler``, ``batch_sampler``, ``pin_memory``.

    Raises:
        TypeError: ``data`` has another type, or neither PyG nor torch has such an argument.
        ValueError: an argument of PyG has a value that is not supported, the data has no edges, a
            seed is not a node, or a mask has another length.

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
        # PyG's loader does not receive the transform, because it would apply the transform before
        # gattn's graphs are in the batch.
        self._transform = transform

    def __iter__(self) -> Iterator[Any]:
        """Yield the mini-batches of an epoch in order. The generator of the loader draws the seed
        of the epoch.
        """
        first = int(torch.empty((), dtype=torch.int64).random_(2**62, generator=self.generator))
        # The batch sampler is None only if batch_size is None, for which the constructor raises an
        # error.
        assert self.batch_sampler is not None
        # Every batch has its own random seed, so that threads can sample batches in any order.
        tasks = zip(self.batch_sampler, itertools.count(first))
        return self._in_background(tasks) if self._threads else itertools.starmap(self._make, tasks)

    def _in_background(self, tasks: Iterator[tuple[list[int], int]]) -> Iterator[Any]:
        """Compute batches in background threads, some of them in advance; yield them in order.
        Raises the error of a batch when it is its turn.
        """
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
        """Return the batch of the seed nodes ``input_data[index]``, sampled with ``seed``; it is in
        pinned memory if ``pin_memory`` is set and CUDA is available.
        """
        batch = self.filter_fn(self._sampler.draw(self.input_data[index], seed))
        return batch.pin_memory() if self.pin_memory and torch.cuda.is_available() else batch

    def filter_fn(self, out: SamplerOutput | HeteroSamplerOutput) -> Any:
        """Convert a sample to a batch with PyG's fields and gattn's graphs, and apply the transform
        of the loader. The metadata of the sample are changed to those of PyG.
        """
        # PyGSampler.draw always sets the metadata, although its type may be None.
        assert out.metadata is not None
        input_id, seed_time, sample = out.metadata
        out.metadata = input_id, seed_time
        batch = super().filter_fn(out)
        add_sample(batch, sample)
        return batch if self._transform is None else self._transform(batch)


def _with_mask(data: Data | HeteroData, input_nodes: Any) -> Any:
    """Return the seed nodes in PyG's format, after checking the length of a mask. Raises ValueError
    for a mask of another length.
    """
    if isinstance(data, HeteroData):
        if input_nodes is None or isinstance(input_nodes, str):
            return input_nodes
        kind, nodes = input_nodes
        return kind, _checked_mask(nodes, int(data[kind].num_nodes or 0))
    return _checked_mask(input_nodes, int(data.num_nodes or 0))


def _checked_mask(nodes: Any, count: int) -> Any:
    """Return a boolean mask of seeds as a tensor; anything else is returned unchanged. Raises
    ValueError if the mask does not have an entry for each node.
    """
    if nodes is None or (mask := torch.as_tensor(nodes)).dtype != torch.bool:
        return nodes
    if mask.shape != (count,):
        raise ValueError(f"a mask of seeds must have shape ({count},); got {tuple(mask.shape)}")
    return mask


def _check_arguments(subgraph_type: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError for an unknown argument, and ValueError for a value that gattn does not
    support.
    """
    # The subgraph type may be a string or a member of PyG's enumeration SubgraphType.
    kind = str(getattr(subgraph_type, "value", subgraph_type))
    if kind != "directional":
        raise ValueError(f"subgraph_type must be 'directional'; got {kind!r}")
    for name, value in kwargs.items():
        if name in _UNSERVED and value != _UNSERVED[name]:
            raise ValueError(
                f"gattn's NeighborLoader does not support {name}: it must be "
                f"{_UNSERVED[name]!r}; got {value!r}"
            )
        if name not in (*_SERVED, *_UNSERVED, *_WITHOUT_EFFECT):
            raise TypeError(f"NeighborLoader has no argument {name!r}")
    if "batch_size" in kwargs and kwargs["batch_size"] is None:
        raise ValueError("batch_size must be an int; got None")
