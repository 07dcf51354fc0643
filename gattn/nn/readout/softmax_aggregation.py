"""Readout that sums rows. Their weights are a softmax over the set, computed for each feature."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

from gattn.compat.pyg import Twin
from gattn.functional import aggregate, edge_softmax
from gattn.graph import Graph
from gattn.nn.common.checks import check_at_least, check_tensor
from gattn.nn.common.recording import is_recording, record
from gattn.nn.readout.base import SegmentReadout


class SoftmaxAggregation(SegmentReadout, pyg.SoftmaxAggregation, Twin):
    r"""Readout that sums the rows of each set. The weights are a softmax over the set, computed for
    each feature.

    .. math:: y_g = \sum_{j \in g} \mathrm{softmax}_{j \in g} (t\, x_j) \odot x_j

    The result lies between the mean and the maximum. The arguments, the parameters and the results
    are the same as in ``torch_geometric.nn.SoftmaxAggregation``; softmax and sum run on the
    kernels.

    Args:
        t: the inverse temperature: 0 gives the mean, and a large t almost the maximum.
        learn: whether t is learned.
        semi_grad: whether backward treats the weights as constants.
        channels: number of features if each has its own t, else 1.

    Shapes:
        - **input:** x [n, d], or with a single t any other shape with n rows in dimension ``dim``;
          integers are converted to floats; index [n] in any order, or ptr [g + 1]
        - **output:** the shape of x with g in place of n; zeros for a set without rows
        - **weights:** the shape of x; they sum to 1 over each set

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: for settings that exclude one another, a number of features other than
            channels, or a dimension that x does not have.

    Reference:
        Li et al., "DeeperGCN: all you need to train deeper GCNs" (2020).

    Example:
        >>> import torch
        >>> from gattn.nn import SoftmaxAggregation
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> SoftmaxAggregation(t=2.0)(x, batch, dim_size=3).shape
        torch.Size([3, 8])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        check_at_least(1, channels=arguments["channels"])

    def reset_parameters(self) -> None:
        """Set t to its initial value."""
        pyg.SoftmaxAggregation.reset_parameters(self)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Compute the weighted sum of the rows of each set, along any dimension: the shape of x
        with g in place of n, and zeros for a set without rows. The weights are passed to the active
        recordings.

        The arguments are those of :class:`SegmentReadout`, but ``dim`` may be any dimension. Raises
        TypeError, ValueError and RuntimeError as :class:`SegmentReadout`, and ValueError for a
        number of features other than ``channels``.
        """
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
        """Return the weight of each element of x; the tensor has the shape of x.

        The arguments and the errors are those of :meth:`forward`.
        """
        rows = self._rows(x, dim)
        weights = super().attention_weights(rows.unsqueeze(-1).flatten(1), index, ptr, dim_size)
        return weights.reshape(rows.shape).movedim(0, dim)

    def _rows(self, x: Tensor, dim: int) -> Tensor:
        """Return x with its rows in the first dimension. Integers are converted to floats, as in
        PyG. Raises TypeError if x is no tensor, and ValueError for a dimension that x does not have
        or that does not fit to one t for each feature.
        """
        check_tensor("x", x)
        if not -x.dim() <= dim < x.dim():
            raise ValueError(f"x must have a dimension {dim}; got shape {tuple(x.shape)}")
        if self.channels > 1 and (x.dim() != 2 or dim not in (0, -2)):
            raise ValueError(
                f"x must have shape (n, {self.channels}) with dim 0 or -2 if each feature has its "
                f"own t; got {tuple(x.shape)} with dim {dim}"
            )
        if not (x.is_floating_point() or x.is_complex()):
            x = x.to(self.t.dtype if isinstance(self.t, Tensor) else torch.get_default_dtype())
        return x.movedim(dim, 0)

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the weighted sum of each feature of x [n, d] over the rows of each segment, [g,
        d], and pass the weights to the active recordings. Raises the errors of :meth:`_weights`.
        """
        alpha = self._weights(x.detach() if self.semi_grad else x, segments, width)
        if is_recording():
            record(alpha, segments)
        return aggregate(alpha, x.unsqueeze(-1), segments).squeeze(-1)

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the weight of each element, [n, d]. Raises ValueError unless x has one feature for
        each learned t, if there are several.
        """
        if self.channels not in (1, x.shape[1]):
            raise ValueError(f"x must have {self.channels} features; got shape {tuple(x.shape)}")
        return edge_softmax((x * self.t).to(x.dtype), segments)
