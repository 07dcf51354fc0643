"""SoftmaxAggregation: every feature weighed by its own softmax over the set."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph
from gattn.nn.common.checks import check_at_least, check_tensor
from gattn.nn.common.recording import is_recording, record
from gattn.nn.readout.base import SegmentReadout


class SoftmaxAggregation(SegmentReadout):
    r"""Sum up each set with a softmax of every feature, between the mean and the maximum.

    .. math:: y_g = \sum_{j \in g} \mathrm{softmax}_{j \in g} (t\, x_j) \odot x_j

    The arguments, the parameters and the results are those of
    ``torch_geometric.nn.SoftmaxAggregation``; softmax and sum run on the kernels.

    Args:
        t: the inverse temperature: 0 gives the mean; the larger it is, the nearer to the maximum.
        learn: whether t is learned.
        semi_grad: whether the weights count as constants in the backward.
        channels: number of features, if each has its own t; else 1.

    Shapes:
        - **input:** x [n, d], or any other shape with the n rows in dimension ``dim`` where one t
          serves all features; integers are taken for numbers; index [n], in any order, or
          ptr [g + 1]
        - **output:** the same with g in place of n; zeros for a set without rows
        - **weights:** those of x; they sum to one over each set

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: for settings that exclude one another, other features than channels, or a
            dimension that x does not have.

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
        rows = self._rows(x, dim)
        out = super().forward(rows.unsqueeze(-1).flatten(1), index, ptr, dim_size)
        return out.reshape(out.shape[0], *rows.shape[1:]).movedim(0, dim)

    def attention_weights(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Weight of each number in x, in its shape, as :class:`SegmentReadout` gives them."""
        rows = self._rows(x, dim)
        weights = super().attention_weights(rows.unsqueeze(-1).flatten(1), index, ptr, dim_size)
        return weights.reshape(rows.shape).movedim(0, dim)

    def _rows(self, x: Tensor, dim: int) -> Tensor:
        """x with its rows first, in floats: integers become those that PyG's come to."""
        check_tensor("x", x)
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"x must have a dimension {dim}; got shape {tuple(x.shape)}")
        if self.channels > 1 and (x.dim() != 2 or dim not in (0, -2)):
            raise ValueError(
                f"x must have shape (n, {self.channels}) with dim 0 or -2, where each feature has "
                f"its own t; got {tuple(x.shape)} with dim {dim}"
            )
        if not (x.is_floating_point() or x.is_complex()):
            x = x.to(self.t.dtype if isinstance(self.t, Tensor) else torch.get_default_dtype())
        return x.movedim(dim, 0)

    def _read(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        alpha = self._weigh(x.detach() if self.semi_grad else x, segments, width)
        if is_recording():
            record(alpha, segments)
        return aggregate(alpha, x.unsqueeze(-1), segments).squeeze(-1)

    def _weigh(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        if self.channels not in (1, x.shape[1]):
            raise ValueError(f"x must have {self.channels} features; got shape {tuple(x.shape)}")
        return edge_softmax((x * self.t).to(x.dtype), segments)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(learn={self.learn})"
