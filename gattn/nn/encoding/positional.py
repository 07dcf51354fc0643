"""Positional encodings of nodes in sequences, on grids and in graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear, Module

from gattn.graph import as_graph
from gattn.graph.cache import cached
from gattn.nn.common.checks import check_at_least
from gattn.nn.common.composite import CompositeModule
from gattn.nn.common.features import dtype_of
from gattn.structure import laplacian_eigenvectors, return_probabilities


class SinusoidalEncoding(Module):
    r"""Sinusoidal encoding of positions, on one or several axes.

    .. math:: p_{2t} = \sin(x\, T^{-2t/d}), \qquad p_{2t+1} = \cos(x\, T^{-2t/d})

    With several axes, the channels are divided equally among the axes, and d is the number of
    channels of one axis.

    Args:
        channels: total number of channels.
        axes: number of axes of a position: 1 for sequences, 2 for images, 3 for volumes.
        max_period: T, the longest period divided by 2 pi, in the unit of the position.

    Shapes:
        - **input:** position [n], or [n, axes]
        - **output:** [n, channels]

    Raises:
        ValueError: for axes < 1, if channels is not a multiple of 2 * axes, or for a position of
            a wrong shape.

    Reference:
        Vaswani et al., "Attention is all you need" (NeurIPS 2017).

    Example:
        >>> import torch
        >>> from gattn.nn import SinusoidalEncoding
        >>> SinusoidalEncoding(16)(torch.arange(5)).shape
        torch.Size([5, 16])
        >>> SinusoidalEncoding(16, axes=2)(torch.cartesian_prod(*[torch.arange(3)] * 2)).shape
        torch.Size([9, 16])
    """

    def __init__(self, channels: int, axes: int = 1, *, max_period: float = 1e4) -> None:
        super().__init__()
        check_at_least(1, axes=axes)
        if channels < 1 or channels % (2 * axes):
            raise ValueError(f"channels must be a multiple of {2 * axes}; got {channels}")
        self.channels = channels
        self.axes = axes
        self.max_period = max_period

    def forward(self, position: Tensor) -> Tensor:
        """Encode positions as sines and cosines.

        Args:
            position: positions [n], or [n, axes] for several axes; integers or floats.

        Returns:
            The encodings [n, channels], in the dtype of position if it is a floating-point dtype,
            else in the default dtype.
        """
        if self.axes == 1 and position.dim() == 1:
            position = position.unsqueeze(1)
        if position.dim() != 2 or position.shape[1] != self.axes:
            raise ValueError(
                f"position must have shape (n, {self.axes}); got {tuple(position.shape)}"
            )
        dtype = position.dtype if position.is_floating_point() else torch.get_default_dtype()
        channels = self.channels // self.axes
        even = torch.arange(0, channels, 2, dtype=torch.float64, device=position.device)
        angle = position.double().unsqueeze(-1) * self.max_period ** -(even / channels)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(dtype)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.channels}, axes={self.axes})"


class LaplacianEncoding(CompositeModule):
    r"""Encoding of nodes by a linear projection of the eigenvectors of the graph Laplacian.

    .. math:: p_i = W (s \odot u_i), \qquad s \in \{-1, 1\}^k

    The sign of an eigenvector is arbitrary, and is fixed by a rule (see
    :func:`gattn.structure.laplacian_eigenvectors`). In training the signs s are drawn at random in
    each forward, so that the model does not depend on them; in evaluation s is 1.

    Args:
        k: number of eigenvectors.
        channels: number of channels of the encoding.

    Shapes:
        - **input:** a graph of n nodes, which may be a batch of graphs
        - **output:** [n, channels]

    Raises:
        ValueError: for k < 1 or channels < 0, or a bipartite graph.

    Reference:
        Dwivedi, Bresson, "A generalization of transformer networks to graphs" (AAAI workshop
        2021).

    Example:
        >>> import torch
        >>> from gattn.nn import LaplacianEncoding
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> LaplacianEncoding(4, 16)(edge_index, 3).shape
        torch.Size([3, 16])
    """

    def __init__(self, k: int, channels: int) -> None:
        super().__init__()
        check_at_least(1, k=k)
        check_at_least(0, channels=channels)
        self.k = k
        self.channels = channels
        self.lin = Linear(k, channels)

    def forward(self, edges: Any, num_nodes: int | None = None) -> Tensor:
        """Encode the nodes of a graph or of a batch of graphs.

        Args:
            edges: a :class:`gattn.Graph`, or edges in any format it accepts. The eigenvectors are
                computed once per :class:`gattn.Graph` or ``edge_index`` tensor.
            num_nodes: number of nodes, n; optional if the edges contain it.

        Returns:
            The encodings of the nodes, [n, channels].
        """
        graph = as_graph(edges, num_nodes)
        vectors = cached(
            graph, ("laplacian", self.k), lambda: laplacian_eigenvectors(graph, k=self.k)
        )
        return self.encode(vectors.to(dtype_of(self.lin)))

    def encode(self, eigenvectors: Tensor) -> Tensor:
        """Encode eigenvectors that are already computed, for example by a transform.

        Args:
            eigenvectors: eigenvectors of the Laplacian, [n, k].

        Returns:
            The encodings of the nodes, [n, channels].
        """
        if self.training:
            flip = torch.rand(self.k, device=eigenvectors.device) < 0.5
            eigenvectors = torch.where(flip, -eigenvectors, eigenvectors)
        return self.lin(eigenvectors)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.k}, {self.channels})"


class RandomWalkEncoding(CompositeModule):
    r"""Encoding of nodes by a linear projection of the return probabilities of random walks.

    .. math:: p_i = W \bigl[(D^{-1} A)^t_{ii}\bigr]_{t = 1 \dots K}

    Args:
        steps: number of steps, K.
        channels: number of channels of the encoding.

    Shapes:
        - **input:** a graph of n nodes, which may be a batch of graphs
        - **output:** [n, channels]

    Raises:
        ValueError: for steps < 1 or channels < 0, or a bipartite graph.

    Reference:
        Dwivedi et al., "Graph neural networks with learnable structural and positional
        representations" (ICLR 2022).

    Example:
        >>> import torch
        >>> from gattn.nn import RandomWalkEncoding
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> RandomWalkEncoding(8, 16)(edge_index, 3).shape
        torch.Size([3, 16])
    """

    def __init__(self, steps: int, channels: int) -> None:
        super().__init__()
        check_at_least(1, steps=steps)
        check_at_least(0, channels=channels)
        self.steps = steps
        self.channels = channels
        self.lin = Linear(steps, channels)

    def forward(self, edges: Any, num_nodes: int | None = None) -> Tensor:
        """Encode the nodes of a graph or of a batch of graphs.

        Args:
            edges: a :class:`gattn.Graph`, or edges in any format it accepts. The probabilities
                are computed once per :class:`gattn.Graph` or ``edge_index`` tensor.
            num_nodes: number of nodes, n; optional if the edges contain it.

        Returns:
            The encodings of the nodes, [n, channels].
        """
        graph = as_graph(edges, num_nodes)
        probabilities = cached(
            graph, ("walk", self.steps), lambda: return_probabilities(graph, steps=self.steps)
        )
        return self.encode(probabilities.to(dtype_of(self.lin)))

    def encode(self, probabilities: Tensor) -> Tensor:
        """Encode return probabilities that are already computed, for example by a transform.

        Args:
            probabilities: return probabilities of each node, [n, steps].

        Returns:
            The encodings of the nodes, [n, channels].
        """
        return self.lin(probabilities)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.steps}, {self.channels})"
