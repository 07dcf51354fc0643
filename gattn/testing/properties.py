"""Checks of the invariances of attention layers and readouts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gattn.testing.cases import AwkwardGraph, awkward_graphs, random_graphs


@dataclass(frozen=True)
class WorstCase:
    """Case of a check with the largest error; its ``str`` is a readable report.

    Args:
        rule: property that was checked, such as "permutation equivariance".
        case: graph on which the error occurred.
        error: largest absolute difference, divided by one plus the largest expected absolute value;
            infinite if shapes differ or a value is not finite.
        tolerance: largest error that is accepted.
        detail: position of the error, with the expected and the actual value.

    Example:
        >>> from gattn.testing import WorstCase, awkward_graphs
        >>> case = awkward_graphs()[1]
        >>> print(WorstCase("permutation equivariance", case, 0.5, 1e-10, "at (0, 2)"))
        permutation equivariance is broken on 'one node' (1 sources, 1 destinations, 0 edges, \
1 graphs): error 0.5, tolerance 1e-10, at (0, 2)
    """

    rule: str
    case: AwkwardGraph
    error: float
    tolerance: float
    detail: str

    @property
    def holds(self) -> bool:
        """True if the error does not exceed the tolerance."""
        return self.error <= self.tolerance

    def __str__(self) -> str:
        """Return the rule, the graph with the largest error, the error, the tolerance and the
        detail as text.
        """
        num_src, num_dst = self.case.size
        return (
            f"{self.rule} {'holds' if self.holds else 'is broken'} on {self.case.name!r} "
            f"({num_src} sources, {num_dst} destinations, {self.case.edge_index.shape[1]} edges, "
            f"{self.case.num_graphs} graphs): error {self.error:.3g}, "
            f"tolerance {self.tolerance:.3g}, {self.detail}"
        )


def assert_permutation_equivariant(
    layer: Callable[..., Tensor],
    in_channels: int | tuple[int, int],
    *,
    edge_dim: int | None = None,
    batch: bool = False,
    cases: Iterable[AwkwardGraph] | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> WorstCase:
    r"""Check that permuting the nodes permutes the outputs of a layer in the same way.

    .. math:: f(P X, P A P^\top) = P f(X, A)

    Args:
        layer: called as ``layer(x, edge_index)``, for a pair of ``in_channels`` with
            ``x = (x_src, x_dst)``; returns [num_dst, ...]. A ``torch.nn.Module`` is copied,
            converted to ``dtype`` and set to eval mode; any other callable is called unchanged.
        in_channels: width of x, or (d_src, d_dst) for a bipartite layer.
        edge_dim: width of the edge features, passed as ``edge_attr=``; None for no edge features.
        batch: pass the graph of each node as ``batch=``, for a layer with global attention.
        cases: graphs to test; None means :func:`awkward_graphs` and :func:`random_graphs`.
        dtype: dtype of the features.
        tolerance: largest relative error that is accepted.
        seed: seed of the features and permutations.

    Returns:
        The case with the largest error.

    Raises:
        AssertionError: if the largest error exceeds the tolerance, with the :class:`WorstCase` as
            argument; or if the layer raises an exception on a case, with this exception as cause.
        ValueError: if there are no cases, or for a bipartite case without a pair of widths.

    Reference:
        Zaheer et al., "Deep sets" (NeurIPS 2017).

    Example:
        >>> import torch, gattn
        >>> from gattn.testing import assert_permutation_equivariant
        >>> def mean_of_neighbours(x, edge_index):
        ...     graph = gattn.Graph(edge_index, len(x))
        ...     weight = gattn.functional.edge_softmax(x.new_zeros(graph.num_edges, 1), graph)
        ...     return gattn.functional.aggregate(weight, x.unsqueeze(1), graph).squeeze(1)
        >>> assert_permutation_equivariant(mean_of_neighbours, 3).holds
        True
        >>> numbered = lambda x, edge_index: x * torch.arange(len(x))[:, None]
        >>> assert_permutation_equivariant(numbered, 3)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        AssertionError: permutation equivariance is broken on ...
    """
    layer = _prepare(layer, dtype)
    generator = torch.Generator().manual_seed(seed)
    worst = _Worst("permutation equivariance", tolerance)
    for case in _cases(cases, in_channels):
        x, edge_attr = _features(case, in_channels, edge_dim, dtype, generator)
        expected = worst.run(case, _call_layer, layer, x, case, edge_attr, batch)
        worst.check_rows(case, expected, case.size[1])
        for src, dst in _relabellings(case, generator):
            moved_x = x[src] if isinstance(x, Tensor) else (x[0][src], x[1][dst])
            moved = replace(
                case,
                edge_index=torch.stack(
                    [src.argsort()[case.edge_index[0].long()],
                     dst.argsort()[case.edge_index[1].long()]]
                ).to(case.edge_index.dtype),
                index=case.index[src],
            )  # fmt: skip
            got = worst.run(case, _call_layer, layer, moved_x, moved, edge_attr, batch)
            worst.compare(case, got, expected[dst])
    return worst.conclude()


def assert_permutation_invariant(
    readout: Callable[..., Tensor],
    in_channels: int,
    *,
    sorted_index: bool = False,
    cases: Iterable[AwkwardGraph] | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> WorstCase:
    r"""Check that a readout does not depend on the order of the nodes.

    .. math:: r(P X) = r(X)

    Args:
        readout: called as ``readout(x, index, dim_size=num_graphs)``; returns [num_graphs, ...].
            Modules are converted as in :func:`assert_permutation_equivariant`.
        in_channels: width of x.
        sorted_index: permute only inside each graph, for a readout that needs an ascending index.
        cases: graphs to test; None means :func:`awkward_graphs` and :func:`random_graphs`.
        dtype: dtype of the features.
        tolerance: largest relative error that is accepted.
        seed: seed of the features and permutations.

    Returns:
        The case with the largest error.

    Raises:
        AssertionError: as :func:`assert_permutation_equivariant`.
        ValueError: as :func:`assert_permutation_equivariant`.

    Reference:
        Zaheer et al., "Deep sets" (NeurIPS 2017).

    Example:
        >>> import torch
        >>> from gattn.testing import assert_permutation_invariant
        >>> def total(x, index, dim_size):
        ...     return x.new_zeros(dim_size, x.shape[1]).index_add(0, index, x)
        >>> assert_permutation_invariant(total, 3).holds
        True
    """
    readout = _prepare(readout, dtype)
    generator = torch.Generator().manual_seed(seed)
    worst = _Worst("permutation invariance", tolerance)
    for case in _cases(cases, in_channels):
        x, _ = _features(case, in_channels, None, dtype, generator)
        expected = worst.run(case, _call_readout, readout, x, case)
        worst.check_rows(case, expected, case.num_graphs)
        for order, _ in _relabellings(case, generator):
            if sorted_index:
                order = order[case.index[order].argsort(stable=True)]
            moved = replace(case, index=case.index[order])
            got = worst.run(case, _call_readout, readout, x[order], moved)
            worst.compare(case, got, expected)
    return worst.conclude()


def assert_batch_independent(
    module: Callable[..., Tensor],
    in_channels: int,
    *,
    readout: bool = False,
    edge_dim: int | None = None,
    batch: bool = False,
    cases: Iterable[AwkwardGraph] | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> WorstCase:
    r"""Check that the output for a graph does not depend on the other graphs in its batch.

    .. math:: f(X_1 \cup X_2) = f(X_1) \cup f(X_2)

    Args:
        module: a layer, called as ``layer(x, edge_index)``, or a readout, called as
            ``readout(x, index, dim_size=num_graphs)``. Modules are converted as in
            :func:`assert_permutation_equivariant`.
        in_channels: width of x.
        readout: whether module is a readout.
        edge_dim: width of the edge features, passed as ``edge_attr=``; None for no edge features.
        batch: pass the graph of each node as ``batch=``, for a layer with global attention.
        cases: batches to test; None means :func:`awkward_graphs` and :func:`random_graphs`.
        dtype: dtype of the features.
        tolerance: largest relative error that is accepted; 0 requires the same bits.
        seed: seed of the features.

    Returns:
        The case with the largest error.

    Raises:
        AssertionError: as :func:`assert_permutation_equivariant`.
        ValueError: as :func:`assert_permutation_equivariant`.

    Reference:
        Buterez et al., "Graph neural networks with adaptive readouts" (NeurIPS 2022).

    Example:
        >>> import torch
        >>> from gattn.testing import assert_batch_independent
        >>> def total(x, index, dim_size):
        ...     return x.new_zeros(dim_size, x.shape[1]).index_add(0, index, x)
        >>> assert_batch_independent(total, 3, readout=True, tolerance=0.0).error
        0.0
        >>> centred = lambda x, edge_index: x - x.sum(0)
        >>> assert_batch_independent(centred, 3)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        AssertionError: batch independence is broken on ...
    """
    module = _prepare(module, dtype)
    generator = torch.Generator().manual_seed(seed)
    worst = _Worst("batch independence", tolerance)
    for case in _cases(cases, in_channels):
        x, edge_attr = _features(case, in_channels, edge_dim, dtype, generator)

        def run(part: AwkwardGraph, x: Tensor, edge_attr: Tensor | None) -> Tensor:
            """Call the module on a case. Raises AssertionError if it fails."""
            if readout:
                return worst.run(part, _call_readout, module, x, part)
            return worst.run(part, _call_layer, module, x, part, edge_attr, batch)

        got = run(case, x, edge_attr)
        alone = [
            run(part, x[nodes], None if edge_attr is None else edge_attr[edges])
            for part, nodes, edges in _split(case)
        ]
        worst.compare(case, got, torch.cat(alone))
    return worst.conclude()


def assert_edge_order_independent(
    layer: Callable[..., Tensor],
    in_channels: int | tuple[int, int],
    *,
    edge_dim: int | None = None,
    batch: bool = False,
    cases: Iterable[AwkwardGraph] | None = None,
    dtype: torch.dtype = torch.float64,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> WorstCase:
    r"""Check that a layer does not depend on the order of the edges.

    Args:
        layer: as for :func:`assert_permutation_equivariant`.
        in_channels: width of x, or (d_src, d_dst) for a bipartite layer.
        edge_dim: width of the edge features, passed as ``edge_attr=``; None for no edge features.
        batch: pass the graph of each node as ``batch=``, for a layer with global attention.
        cases: graphs to test; None means :func:`awkward_graphs` and :func:`random_graphs`.
        dtype: dtype of the features.
        tolerance: largest relative error that is accepted; 0 requires the same bits. A layer that
            sorts its edges before it sums over them can fulfil this, except for multi-edges with
            different features, whose order is not defined.
        seed: seed of the features and orders.

    Returns:
        The case with the largest error.

    Raises:
        AssertionError: as :func:`assert_permutation_equivariant`.
        ValueError: as :func:`assert_permutation_equivariant`.

    Example:
        >>> import torch
        >>> from gattn.testing import assert_edge_order_independent
        >>> def last_neighbour(x, edge_index):
        ...     out = torch.zeros_like(x)
        ...     for source, destination in edge_index.t().tolist():
        ...         out[destination] = x[source]
        ...     return out
        >>> assert_edge_order_independent(last_neighbour, 3)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        AssertionError: independence of edge order is broken on ...
    """
    layer = _prepare(layer, dtype)
    generator = torch.Generator().manual_seed(seed)
    worst = _Worst("independence of edge order", tolerance)
    for case in _cases(cases, in_channels):
        x, edge_attr = _features(case, in_channels, edge_dim, dtype, generator)
        expected = worst.run(case, _call_layer, layer, x, case, edge_attr, batch)
        for order in _orders(case.edge_index.shape[1], x, generator):
            moved = replace(case, edge_index=case.edge_index[:, order])
            moved_attr = None if edge_attr is None else edge_attr[order]
            got = worst.run(case, _call_layer, layer, x, moved, moved_attr, batch)
            worst.compare(case, got, expected)
    return worst.conclude()


class _Worst:
    """Collector of the errors in a check. It stores the case with the largest error."""

    def __init__(self, rule: str, tolerance: float) -> None:
        self.rule, self.tolerance = rule, tolerance
        self.worst: WorstCase | None = None

    def run(self, case: AwkwardGraph, function: Callable[..., Tensor], *args: Any) -> Tensor:
        """Call a function without gradients and return its output. Raises AssertionError if it
        raises an exception or does not return a tensor.
        """
        try:
            with torch.no_grad():
                out = function(*args)
        except Exception as error:
            raise AssertionError(
                f"{self.rule} cannot be checked: {case.name!r} raised {error!r}"
            ) from error
        if not isinstance(out, Tensor):
            raise AssertionError(f"the output must be a tensor; got {type(out).__name__}")
        return out

    def check_rows(self, case: AwkwardGraph, out: Tensor, rows: int) -> None:
        """Raise AssertionError unless the outputs have this number of rows."""
        if out.dim() == 0 or out.shape[0] != rows:
            detail = f"expected {rows} rows, got shape {tuple(out.shape)}"
            raise AssertionError(WorstCase(self.rule, case, float("inf"), self.tolerance, detail))

    def compare(self, case: AwkwardGraph, got: Tensor, expected: Tensor) -> None:
        """Store the case if its error is the largest so far."""
        error, detail = _deviation(got, expected)
        if self.worst is None or error > self.worst.error:
            self.worst = WorstCase(self.rule, case, error, self.tolerance, detail)

    def conclude(self) -> WorstCase:
        """Return the graph with the largest error. Raises AssertionError if its error is above the
        tolerance, and ValueError if no graph was compared.
        """
        if self.worst is None:
            raise ValueError("cases must contain at least one graph; got none")
        if not self.worst.holds:
            raise AssertionError(self.worst)
        return self.worst


def _deviation(got: Tensor, expected: Tensor) -> tuple[float, str]:
    """Return the largest relative error, and a text with its position and the two values there. The
    error is infinite if the shapes differ or a value is not finite, and 0 for empty outputs.
    """
    if got.shape != expected.shape:
        detail = f"expected shape {tuple(expected.shape)}, got {tuple(got.shape)}"
        return float("inf"), detail
    if got.numel() == 0:
        return 0.0, "the outputs are empty"
    scale = 1 + expected.abs().nan_to_num(posinf=0.0).max()
    error = ((got - expected).abs() / scale).nan_to_num(nan=float("inf"))
    position = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
    values = f"expected {float(expected[position]):.6g}, got {float(got[position]):.6g}"
    return float(error.max()), f"at {position}: {values}"


def _prepare(layer: Callable[..., Tensor], dtype: torch.dtype) -> Callable[..., Tensor]:
    """Return a copy of a module in this dtype and in evaluation mode; a function is returned
    itself.
    """
    if isinstance(layer, torch.nn.Module):
        return copy.deepcopy(layer).to(dtype).eval()
    return layer


def _cases(
    cases: Iterable[AwkwardGraph] | None, in_channels: int | tuple[int, int]
) -> list[AwkwardGraph]:
    """Return the caller's graphs or, for None, the edge-case graphs and random graphs that fit to a
    layer with one or two kinds of nodes.
    """
    if cases is not None:
        return list(cases)
    bipartite = not isinstance(in_channels, int)
    candidates = [case for case in awkward_graphs() if case.bipartite == bipartite]
    return candidates + random_graphs(bipartite=bipartite)


def _features(
    case: AwkwardGraph,
    in_channels: int | tuple[int, int],
    edge_dim: int | None,
    dtype: torch.dtype,
    generator: torch.Generator,
) -> tuple[Any, Tensor | None]:
    """Draw random features x and edge_attr for a case. For a bipartite layer, x is a pair. They
    come from ``generator``. Without ``edge_dim``, edge_attr is None. Raises ValueError if the case
    is bipartite and the layer is not.
    """

    def draw(*shape: int) -> Tensor:
        values = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return values.to(case.edge_index.device, dtype)

    widths = (in_channels,) if isinstance(in_channels, int) else in_channels
    if len(widths) == 1 and case.bipartite:
        raise ValueError(f"in_channels must be a pair for the bipartite {case.name!r}; got 1")
    xs = tuple(draw(rows, width) for rows, width in zip(case.size, widths))
    edge_attr = None if edge_dim is None else draw(case.edge_index.shape[1], edge_dim)
    return xs[0] if len(xs) == 1 else xs, edge_attr


def _call_layer(
    layer: Callable[..., Tensor], x: Any, case: AwkwardGraph, edge_attr: Tensor | None, batch: bool
) -> Tensor:
    """Call the layer on a case, with edge features if there are any, and with the graph of each
    node if ``batch`` is True.
    """
    options: dict[str, Any] = {} if edge_attr is None else {"edge_attr": edge_attr}
    if batch:
        options["batch"] = case.index
    return layer(x, case.edge_index, **options)


def _call_readout(readout: Callable[..., Tensor], x: Tensor, case: AwkwardGraph) -> Tensor:
    return readout(x, case.index, dim_size=case.num_graphs)


def _relabellings(
    case: AwkwardGraph, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield three pairs of a permutation of the sources and one of the destinations; they are equal
    unless the graph is bipartite.
    """
    source = list(_orders(case.size[0], case.edge_index, generator))
    if case.bipartite:
        return zip(source, _orders(case.size[1], case.edge_index, generator))
    return zip(source, source)


def _orders(count: int, like: Any, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield permutations of 0 to count - 1: the reversed order and two random orders, drawn by the
    generator, on the device of ``like``, a tensor or a pair of tensors.
    """
    device = (like if isinstance(like, Tensor) else like[0]).device
    yield torch.arange(count, device=device).flip(0)
    for _ in range(2):
        yield torch.randperm(count, generator=generator).to(device)


def _split(case: AwkwardGraph) -> Iterator[tuple[AwkwardGraph, Tensor, Tensor]]:
    """Yield each graph of a batch as a separate case, with the indices of its nodes and edges."""
    source, destination = case.edge_index.long()
    for number in range(case.num_graphs):
        nodes = (case.index == number).nonzero().squeeze(1)
        edges = (case.index[source] == number).nonzero().squeeze(1)
        local = torch.zeros_like(case.index, dtype=torch.int64)
        local[nodes] = torch.arange(len(nodes), device=nodes.device)
        part = AwkwardGraph(
            f"{case.name}, graph {number} alone",
            torch.stack([local[source[edges]], local[destination[edges]]]).to(case.index.dtype),
            (len(nodes), len(nodes)),
            torch.zeros_like(case.index[nodes]),
        )
        yield part, nodes, edges
