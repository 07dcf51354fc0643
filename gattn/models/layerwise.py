"""Layer-by-layer inference on large graphs. Each layer is computed for one range of nodes at a
time, which fits into memory.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Identity, LayerNorm, Module
from torch_geometric.nn import norm as pyg
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gattn.graph import Graph, check_graph
from gattn.graph.edge_input import check_count
from gattn.graphs import in_subgraph
from gattn.nn import GATConv, GATv2Conv

Layer = Callable[..., Tensor]
"""Type of a layer: a function ``layer((x_src, x_dst), graph)`` that is called like PyG's layers
on a bipartite graph. With edge features, it has a third argument edge_attr.
"""


@torch.no_grad()
def layerwise_inference(
    model: BasicGNN | Sequence[Layer],
    x: Tensor | np.ndarray,
    graph: Graph,
    edge_attr: Tensor | np.ndarray | None = None,
    *,
    batch_edges: int = 2**20,
    out: Tensor | np.ndarray | None = None,
    scratch: str | Path | None = None,
) -> Tensor:
    r"""Compute the output of a model layer by layer; each layer is computed for one range of nodes
    at a time.

    .. math:: x^{(l)}_i = \mathrm{layer}_l\bigl(x^{(l-1)},\ \{ j \to i \}\bigr)
        \text{ for } i \text{ in one range, then in the next, and then for } l + 1

    The result equals the model's result on the whole graph up to rounding errors, because sums are
    computed in another order. For each range, only the input rows of its sources are read. Besides
    the graph, this needs memory for at most ``batch_edges`` rows of each tensor inside a layer, and
    two arrays, in memory or on disk: the input and the output of a layer.

    Args:
        model: a :class:`GAT` in evaluation mode (or PyG's after :func:`gattn.convert`); or a list
            of layers, each a function of ``((x_src, x_dst), graph)`` and, if there are edge
            features, of ``edge_attr``. The rows of x_dst are the first rows of x_src.
        x: node features [n, d], in memory, or memory-mapped with
            ``numpy.load(..., mmap_mode="r")`` or ``torch.load(..., mmap=True)``.
        graph: a graph among the n nodes.
        edge_attr: edge features [e, edge_dim] or [e], in memory or memory-mapped.
        batch_edges: maximum number of edges plus nodes of a range; a node with more edges is a
            range by itself.
        out: array for the result, [n, c], in memory or memory-mapped; None for new memory.
        scratch: folder for temporary files with the results between two layers, which are
            removed at the end; None keeps these results in memory.

    Returns:
        The result, [n, c]; ``out`` itself if it was passed. No rows for a graph without nodes.

    Raises:
        TypeError: the graph is no :class:`gattn.Graph`, the model has another type, or batch_edges
            is not an int.
        ValueError: the model is in training mode, concatenates its layers (``jk``) or normalises
            over several nodes; x, edge_attr or out has a wrong shape or dtype; out is read-only or
            x itself; a layer returns another number of rows; batch_edges is below 1; or the graph
            is bipartite.
        FileNotFoundError: the folder ``scratch`` does not exist.

    Reference:
        Hamilton et al., "Inductive representation learning on large graphs" (NeurIPS 2017); PyG's
        ``BasicGNN.inference``, which takes a loader instead of the graph.

    Example:
        >>> import torch
        >>> from gattn import Graph
        >>> from gattn.models import GAT, layerwise_inference
        >>> ring = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
        >>> model, x = GAT(16, 32, num_layers=2, out_channels=7, heads=4).eval(), torch.randn(4, 16)
        >>> out = layerwise_inference(model, x, ring, batch_edges=4)
        >>> torch.allclose(out, model(x, ring), atol=1e-5)
        True
    """
    layers = _layers(model)
    _check(graph, x, edge_attr, batch_edges, out)
    files = nullcontext() if scratch is None else tempfile.TemporaryDirectory(dir=scratch)
    with files as folder:
        for number, layer in enumerate(layers):
            last = number == len(layers) - 1
            file = None if folder is None or last else Path(folder, str(number))
            x = _run(layer, x, graph, edge_attr, batch_edges, file, out if last else None)
    # A model has at least one layer, so x is a tensor here.
    assert isinstance(x, Tensor)
    return x


def _run(
    layer: Layer,
    x: Tensor | np.ndarray,
    graph: Graph,
    edge_attr: Tensor | np.ndarray | None,
    batch_edges: int,
    file: Path | None,
    out: Tensor | np.ndarray | None,
) -> Tensor:
    """Compute one layer for all nodes, range by range (see :func:`layerwise_inference`), and return
    the result, [n, c], which is ``out`` or, if that is None, a new array in ``file`` or in memory.
    Raises ValueError if a layer returns another number of rows, or if ``out`` has another shape or
    dtype.
    """
    target = torch.from_numpy(out) if isinstance(out, np.ndarray) else out
    for start, stop in _ranges(graph, batch_edges):
        part, sources, positions = in_subgraph(graph, start, stop)
        x_src = _rows(x, sources)
        features = () if edge_attr is None else (_rows(edge_attr, positions),)
        rows = layer((x_src, x_src[: stop - start]), part, *features)
        if rows.dim() != 2 or rows.shape[0] != stop - start:
            raise ValueError(
                f"a layer must return {stop - start} rows, one for each destination; got shape "
                f"{(*rows.shape,)}"
            )
        shape = graph.num_dst, rows.shape[1]
        target = _array(shape, rows, file) if target is None else target
        if (*target.shape,) != shape or target.dtype != rows.dtype:
            raise ValueError(
                f"out must be {rows.dtype} of shape {shape}; got {target.dtype}, {(*target.shape,)}"
            )
        target[start:stop] = rows
    # The loop runs at least once, so target is a tensor here.
    assert target is not None
    return target


def _ranges(graph: Graph, batch_edges: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds (start, stop) of ranges of nodes. The number of nodes plus edges of a range
    is at most batch_edges.

    A node with more edges is a range by itself. A graph without nodes has one empty range.
    """
    nodes = torch.arange(graph.num_dst + 1, device=graph.device)
    # For each node, the number of edges and nodes before it.
    cumulative, start = graph.layout.rowptr + nodes, 0
    while True:
        end = torch.searchsorted(cumulative, cumulative[start] + batch_edges, right=True)
        stop = min(max(int(end) - 1, start + 1), graph.num_dst)
        yield start, stop
        start = stop
        if start == graph.num_dst:
            return


def _rows(x: Tensor | np.ndarray, index: Tensor) -> Tensor:
    """Return the rows of an array at these indices, [k] int64, on the device of the index."""
    if isinstance(x, np.ndarray):
        # NumPy copies the rows, because torch.from_numpy warns about read-only arrays.
        return torch.from_numpy(np.asarray(x[index.cpu().numpy()])).to(index.device)
    return x.index_select(0, index.to(x.device)).to(index.device)


def _array(shape: tuple[int, int], like: Tensor, file: Path | None) -> Tensor:
    """Allocate an array [n, c] with the dtype and device of ``like`` for the output of a layer, or
    create ``file`` for it, on the CPU.
    """
    size = math.prod(shape)
    if file is None or size == 0:
        return like.new_empty(shape)
    return torch.from_file(str(file), shared=True, size=size, dtype=like.dtype).view(shape)


def _layers(model: BasicGNN | Sequence[Layer]) -> Sequence[Layer]:
    """Return the layers of a model as a list of functions. Raises TypeError for a model of another
    class, and ValueError for one in training mode or with settings that need all nodes at once.
    """
    layer_types = GATConv, GATv2Conv
    if isinstance(model, BasicGNN) and all(isinstance(conv, layer_types) for conv in model.convs):
        _check_model(model)
        return [_layer(model, number) for number in range(model.num_layers)]
    if not isinstance(model, (list, tuple)) or not all(map(callable, model)) or not model:
        raise TypeError(
            "model must be a gattn.models.GAT, PyG's GAT after gattn.convert, or a list of "
            f"layers; got {type(model).__name__}"
        )
    for layer in model:
        if isinstance(layer, Module) and layer.training:
            raise ValueError(f"model must be in evaluation mode, model.eval(); got {layer}")
    return model


def _layer(model: BasicGNN, number: int) -> Layer:
    """Return one layer of a model as a function that includes its activation and normalisation,
    which the last layer has only if ``jk`` is set.
    """
    conv: Any = model.convs[number]
    norm: Any = model.norms[number]

    def layer(x: tuple[Tensor, Tensor], graph: Graph, edge_attr: Tensor | None = None) -> Tensor:
        """Compute one layer of the model with its activation and normalisation, if it has them, for
        a range of nodes, [n, c], given the features of its sources [m, d] and destinations [n, d];
        the last layer also applies the output layer, if there is one.
        """
        h, last = conv(x, graph, edge_attr=edge_attr), number == model.num_layers - 1
        if not last or model.jk_mode is not None:
            steps = (model.act, norm) if model.act_first else (norm, model.act)
            for step in steps:
                h = h if step is None else step(h)
        return model.lin(h) if last and hasattr(model, "lin") else h

    return layer


def _check_model(model: BasicGNN) -> None:
    """Raise ValueError unless the model is in evaluation mode and its layers can be computed one
    after the other for a range of nodes.
    """
    if model.training:
        raise ValueError("model must be in evaluation mode, model.eval(); got training mode")
    if model.jk_mode not in (None, "last"):
        raise ValueError(f"jk must be None or 'last' for this inference; got {model.jk_mode!r}")
    for norm in model.norms:
        if not _acts_on_rows(norm):
            raise ValueError(f"norm must act on each node separately; got {norm}")


def _acts_on_rows(norm: Module) -> bool:
    """Return True if a normalisation layer normalises each node separately."""
    if isinstance(norm, pyg.LayerNorm):
        return norm.mode == "node"
    norm = norm.module if isinstance(norm, pyg.BatchNorm) else norm
    if isinstance(norm, BatchNorm1d):
        return norm.running_mean is not None
    return isinstance(norm, (Identity, LayerNorm))


def _check(
    graph: Graph,
    x: Tensor | np.ndarray,
    edge_attr: Tensor | np.ndarray | None,
    batch_edges: int,
    out: Tensor | np.ndarray | None,
) -> None:
    """Check the arguments of :func:`layerwise_inference`, and that it can be written to ``out``.
    Raises TypeError or ValueError for the first that does not fit.
    """
    check_graph("graph", graph)
    check_count("batch_edges", batch_edges, 1)
    _check_rows("x", x, graph.num_src, (2,))
    if edge_attr is not None:
        _check_rows("edge_attr", edge_attr, graph.num_edges, (1, 2))
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be a writable array; got a read-only array")
    if out is not None and _address(out) == _address(x):
        raise ValueError("out must not share the memory of x, because later ranges read x")


def _check_rows(name: str, rows: Tensor | np.ndarray, count: int, dims: tuple[int, ...]) -> None:
    """Raise ValueError unless an array is dense, with this number of rows and one of these numbers
    of dimensions.
    """
    if isinstance(rows, Tensor) and rows.layout != torch.strided:
        raise ValueError(f"{name} must be dense; got {rows.layout}")
    if rows.ndim not in dims or rows.shape[0] != count:
        raise ValueError(f"{name} must have shape ({count}, d); got {(*rows.shape,)}")


def _address(array: Tensor | np.ndarray) -> int:
    return array.data_ptr() if isinstance(array, Tensor) else array.ctypes.data
