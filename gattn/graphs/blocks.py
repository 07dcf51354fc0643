"""Graphs for attention in sets and sequences: complete, causal, band and bipartite graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gattn.graph import Graph
from gattn.graph.edge_input import check_count
from gattn.layout.blocks import Blocks

Device = torch.device | str | None


def complete(sizes: Sequence[int], *, device: Device = None) -> Graph:
    r"""Build a graph for self-attention, in which every node attends to all nodes of its set.

    .. math:: j \to i \quad\text{for all } i, j \text{ of one set}

    Args:
        sizes: number of nodes of each set; a set may be empty.
        device: device of the graph.

    Returns:
        The graph of sum(sizes) nodes; edges ordered by (destination, source).

    Raises:
        TypeError: sizes is not a sequence of ints.
        ValueError: a size is negative.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> from gattn import graphs
        >>> graphs.complete([3, 2])
        Graph(num_src=5, num_dst=5, num_edges=13, device='cpu')
    """
    sizes = check_sizes("sizes", sizes)
    return bipartite(sizes, sizes, device=device)


def causal(sizes: Sequence[int], *, device: Device = None) -> Graph:
    r"""Build a graph for causal attention, in which every token attends to itself and to earlier
    tokens.

    .. math:: j \to i \quad\text{for } j \le i \text{ of one sequence}

    Args:
        sizes: number of tokens of each sequence; a sequence may be empty.
        device: device of the graph.

    Returns:
        The graph of sum(sizes) nodes; edges ordered by (destination, source).

    Raises:
        TypeError: sizes is not a sequence of ints.
        ValueError: a size is negative.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> from gattn import graphs
        >>> graphs.causal([3]).edge_index
        tensor([[0, 0, 1, 0, 1, 2],
                [0, 1, 1, 2, 2, 2]])
    """
    sizes = check_sizes("sizes", sizes)
    return Graph.from_blocks(Blocks(sizes, sizes, True), as_device(device))


def band(
    sizes: Sequence[int], width: int, *, one_sided: bool = False, device: Device = None
) -> Graph:
    r"""Build a graph in which every token attends to the tokens that are at most ``width`` steps
    away.

    .. math:: j \to i \quad\text{for } |i - j| \le w \text{ of one sequence}

    Args:
        sizes: number of tokens of each sequence; a sequence may be empty.
        width: w, number of steps to either side; with 0 each token attends to itself.
        one_sided: whether to leave out later tokens: :math:`i - w \le j \le i`.
        device: device of the graph.

    Returns:
        The graph of sum(sizes) nodes; edges ordered by (destination, source). Time and memory
        are linear in the number of edges, about sum(sizes) (2 w + 1).

    Raises:
        TypeError: sizes is not a sequence of ints, or width is not an int.
        ValueError: a size or the width is negative.

    Reference:
        Beltagy, Peters, Cohan, "Longformer: the long-document transformer" (2020).

    Example:
        >>> from gattn import graphs
        >>> graphs.band([4], 1).edge_index
        tensor([[0, 1, 0, 1, 2, 1, 2, 3, 2, 3],
                [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]])
    """
    sizes = check_sizes("sizes", sizes)
    check_count("width", width)
    start, end = _sequences(sizes, device)
    node = torch.arange(sum(sizes), device=device)
    first = torch.maximum(start, node - width)
    last = node + 1 if one_sided else torch.minimum(end, node + width + 1)
    num_edges = sum(_edges_of_band(size, width, one_sided) for size in sizes)
    return Graph.from_ranges(first, last, sum(sizes), num_edges)


def bipartite(
    query_sizes: Sequence[int], key_sizes: Sequence[int], *, device: Device = None
) -> Graph:
    r"""Build a graph for cross-attention, in which every query attends to all keys of its pair.

    .. math:: j \to i \quad\text{for all queries } i \text{ and keys } j \text{ of one pair of sets}

    A batch consists of pairs of a set of queries and a set of keys.

    Args:
        query_sizes: number of queries (destinations) of each pair.
        key_sizes: number of keys (sources) of each pair.
        device: device of the graph.

    Returns:
        The graph from sum(key_sizes) sources to sum(query_sizes) destinations; edges ordered by
        (destination, source).

    Raises:
        TypeError: sizes are not sequences of ints.
        ValueError: a size is negative, or the two sequences have different lengths.

    Reference:
        Bahdanau, Cho, Bengio, "Neural machine translation by jointly learning to align and
        translate" (ICLR 2015).

    Example:
        >>> from gattn import graphs
        >>> graphs.bipartite([2, 1], [3, 4])
        Graph(num_src=7, num_dst=3, num_edges=10, device='cpu')
    """
    query_sizes = check_sizes("query_sizes", query_sizes)
    key_sizes = check_sizes("key_sizes", key_sizes)
    if len(query_sizes) != len(key_sizes):
        raise ValueError(
            "query_sizes and key_sizes must have the same length; got "
            f"{len(query_sizes)} and {len(key_sizes)}"
        )
    return Graph.from_blocks(Blocks(query_sizes, key_sizes, False), as_device(device))


def check_sizes(name: str, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as a tuple; raise TypeError unless they are integers in a list, tuple or
    range, and ValueError for a negative one.
    """
    is_ints = isinstance(sizes, (list, tuple, range)) and all(
        isinstance(s, int) and not isinstance(s, bool) for s in sizes
    )
    if not is_ints:
        raise TypeError(
            f"{name} must be a list of ints, one per set (call tolist() on a tensor or an "
            f"array); got {sizes!r}"
        )
    if any(size < 0 for size in sizes):
        raise ValueError(f"{name} must be >= 0; got {min(sizes)}")
    return tuple(sizes)


def as_device(device: Device) -> torch.device:
    """Convert a device to a torch.device with an index; None means torch's default device."""
    return torch.empty(0, device=device).device


def _sequences(sizes: Sequence[int], device: Device) -> tuple[Tensor, Tensor]:
    """Return the first index and the end index of the sequence of each token, as two tensors
    [n].
    """
    size = torch.tensor(sizes, dtype=torch.int64, device="cpu")
    end = size.cumsum(0).to(device)
    size = size.to(device)
    tokens = sum(sizes)
    first = torch.repeat_interleave(end - size, size, output_size=tokens)
    return first, torch.repeat_interleave(end, size, output_size=tokens)


def _edges_of_band(size: int, width: int, one_sided: bool) -> int:
    """Return the number of edges in the band graph of one sequence."""
    width = min(width, max(size - 1, 0))
    half = size * width - width * (width + 1) // 2
    return size + (half if one_sided else 2 * half)
