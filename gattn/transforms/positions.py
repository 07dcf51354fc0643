"""Transforms that store the position of each node in a sequence."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from gattn.structure.waves import waves
from gattn.transforms.structures import store


class AddPosition(BaseTransform):
    r"""Store the index of each node in its graph, as its position in a sequence.

    .. math:: p_i = i

    Use this transform only if the order of the nodes has a meaning, as in sequences. A model that
    reads the attribute is not permutation equivariant.

    Args:
        attr_name: name of the attribute, [n] int64.

    Raises:
        TypeError: data is no homogeneous ``Data``.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> from gattn.transforms import AddPosition
        >>> from torch_geometric.data import Data
        >>> AddPosition()(Data(num_nodes=3)).position
        tensor([0, 1, 2])
    """

    def __init__(self, attr_name: str = "position") -> None:
        self.attr_name = attr_name

    def forward(self, data: Any) -> Any:
        """Store the attribute in a graph and return the graph."""
        return store(data, torch.arange(_nodes(data)), self.attr_name)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"


class AddSinusoidalPE(BaseTransform):
    r"""Store a sinusoidal encoding of the index of each node in its graph, for sequences.

    .. math:: p_{i, 2t} = \sin(i\, T^{-2t/d}), \qquad p_{i, 2t+1} = \cos(i\, T^{-2t/d})

    Args:
        channels: number of features, d; even.
        attr_name: name of the attribute, [n, d]; None appends to ``data.x``.
        max_period: T, the longest period divided by 2 pi, in nodes.

    Raises:
        TypeError: data is no homogeneous ``Data``.
        ValueError: channels is odd.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> from gattn.transforms import AddSinusoidalPE
        >>> from torch_geometric.data import Data
        >>> AddSinusoidalPE(2)(Data(num_nodes=2)).sinusoidal_pe
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """

    def __init__(
        self, channels: int, attr_name: str | None = "sinusoidal_pe", *, max_period: float = 1e4
    ) -> None:
        self.channels = channels
        self.attr_name = attr_name
        self.max_period = max_period

    def forward(self, data: Any) -> Any:
        """Store the attribute in a graph and return the graph."""
        position = torch.arange(_nodes(data))
        return store(data, waves(position, self.channels, self.max_period), self.attr_name)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels})"


def _nodes(data: Any) -> int:
    if not isinstance(data, Data) or data.num_nodes is None:
        raise TypeError(f"data must be a torch_geometric Data with nodes; got {type(data)}")
    return data.num_nodes
