"""SoftmaxAggregation: every feature weighed by its own softmax over the set."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph
from gattn.nn._readout import SegmentReadout
from gattn.nn.checks import check_at_least
from gattn.nn.recording import note, recording


class SoftmaxAggregation(SegmentReadout):
    r"""Sum up each set with a softmax of every feature, between the mean and the maximum.

    .. math:: y_g = \sum_{j \in g} \mathrm{softmax}_{j \in g} (t\, x_j) \odot x_j

    The arguments, the parameters and the results are those of
    ``torch_geometric.nn.SoftmaxAggregation``; softmax and sum run on the kernels.

    Args:
        t: the inverse temperature: 0 gives the mean, infinity the maximum.
        learn: whether t is learned.
        semi_grad: whether the weights count as constants in the backward.
        channels: number of features, if each has its own t; else 1.

    Shapes:
        - **input:** x [n, d], or any other shape with the n rows in dimension ``dim``; index [n],
          in any order, or ptr [g + 1]
        - **output:** the same with g in place of n; zeros for a set without rows
        - **weights:** [n, d]; they sum to one over each set

    Raises:
        TypeError: for a list or an array in the place of a tensor.
        ValueError: for settings that exclude one another, or other features than channels.

    Reference:
        Li et al., "DeeperGCN: all you need to train deeper GCNs" (2020).

    Example:
        >>> import torch
        >>> from gattn.nn import SoftmaxAggregation
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> SoftmaxAggregation(t=2.0)(x, batch, dim_size=3).shape
        torch.Size([3, 8])
    """

    def __init__(
        self, t: float = 1.0, learn: bool = False, semi_grad: bool = False, channels: int = 1
    ) -> None:
        super().__init__()
        check_at_least(1, channels=channels)
        if learn and semi_grad:
            raise ValueError("semi_grad must be off where t is learned; got both")
        if not learn and channels != 1:
            raise ValueError(f"channels must be 1 where t is not learned; got {channels}")
        self.learn = learn
        self.semi_grad = semi_grad
        self.channels = channels
        self._init_t = t
        self.t = Parameter(torch.empty(channels)) if learn else t
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set t to what it was at first."""
        if isinstance(self.t, Parameter):
            self.t.data.fill_(self._init_t)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Sum up the rows of each set, as :class:`SegmentReadout` does, along any dimension."""
        rows = x.movedim(dim, 0)
        out = super().forward(rows.flatten(1), index, ptr, dim_size)
        return out.unflatten(1, rows.shape[1:]).movedim(0, dim)

    def _read(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        alpha = self._weigh(x.detach() if self.semi_grad else x, segments, width)
        if recording():
            note(alpha, segments)
        return aggregate(alpha, x.unsqueeze(-1), segments).squeeze(-1)

    def _weigh(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        if self.channels not in (1, x.shape[1]):
            raise ValueError(f"x must have {self.channels} features; got shape {tuple(x.shape)}")
        return edge_softmax((x * self.t).to(x.dtype), segments)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(learn={self.learn})"
