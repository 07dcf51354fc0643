"""Edge features of networkx graphs and SciPy matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gattn.graph.edge_input import is_networkx, networkx_rows


def edge_features(
    edges: Any,
    names: str | Sequence[str] = "weight",
    *,
    default: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Read the numbers that a networkx graph or a SciPy matrix stores with its edges.

    A :class:`gattn.Graph` does not store these numbers, and layers do not read them from the graph.
    Pass them to a layer as ``edge_attr`` or ``edge_weight``, or their logarithm as ``attn_bias``.

    Args:
        edges: a networkx graph, or a SciPy sparse matrix, whose entry [j, i] is the only feature
            of the edge j -> i.
        names: name or d names of edge attributes of a networkx graph.
        default: value for edges without the attribute; with None such an edge is an error.
        dtype: dtype of the result.

    Returns:
        [e, d], in the edge order of ``Graph(edges)``; both directions of an undirected edge have
        the same features.

    Raises:
        TypeError: edges have another type, or an attribute is not a number.
        ValueError: an edge lacks the attribute and there is no default.

    Reference:
        Hagberg, Schult, Swart, "Exploring network structure, dynamics, and function using
        NetworkX" (SciPy 2008).

    Example:
        >>> import networkx
        >>> from gattn import graphs
        >>> bonds = networkx.Graph([(0, 1, {"weight": 2.0}), (1, 2, {"weight": 1.0})])
        >>> graphs.edge_features(bonds).flatten()
        tensor([2., 2., 1., 1.])
    """
    if hasattr(edges, "tocoo"):
        return torch.from_numpy(edges.tocoo().data.copy()).to(dtype).unsqueeze(1)
    if not is_networkx(edges):
        raise TypeError(
            f"edges must be a networkx graph or a SciPy matrix; got {type(edges).__name__}"
        )
    names = [names] if isinstance(names, str) else list(names)
    table = [
        [_number(attributes.get(name, default), name, ends) for name in names]
        for *ends, attributes in edges.edges(data=True)
    ]
    return torch.tensor(table, dtype=dtype).reshape(-1, len(names))[networkx_rows(edges)]


def _number(value: Any, name: str, ends: list[Any]) -> float:
    """Convert the attribute of an edge to a number. Raises ValueError if the edge has none, and
    TypeError if it is no number.
    """
    if value is None:
        raise ValueError(
            f"every edge must have {name!r} unless default is set; got none at edge {ends}"
        )
    if not hasattr(value, "__float__"):
        raise TypeError(f"{name!r} must be a number; got {value!r} at edge {ends}")
    return float(value)
