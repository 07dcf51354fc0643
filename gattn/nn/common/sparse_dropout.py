"""SparseDropout: dropout on the entries of a sparse matrix."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from gattn.ops.dropout import dropout
from gattn.ops.sparse_features import sparse_dropout

_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


class SparseDropout(Module):
    r"""Dropout of features that are given as a sparse matrix.

    .. math:: y_{ij} = \frac{m_{ij}}{1 - p} x_{ij}, \qquad m_{ij} \sim \mathrm{Bernoulli}(1 - p)

    Zeros stay zeros whichever mask they draw, so only the stored entries draw one: the same
    distribution as dense dropout, at the cost of the entries. The result shares the indices of x,
    so that writing other entries into x is writing into the result, too. Dense input is dropped as
    by ``torch.nn.Dropout``.

    Args:
        p: probability of dropping an entry.

    Shapes:
        - **input:** x [n, d], a ``torch.sparse`` CSR, CSC or COO matrix, or dense [*]
        - **output:** that of x, in the same layout

    Raises:
        ValueError: where p is no probability, or for another layout.
        TypeError: for x that is not floating.

    Reference:
        Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting"
        (JMLR 2014).

    Example:
        >>> import torch
        >>> from gattn.nn import SparseDropout
        >>> x = torch.eye(3).to_sparse()
        >>> SparseDropout(1.0)(x).to_dense().sum()
        tensor(0.)
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p must be a probability in [0, 1]; got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries in training; x as it is in eval mode.

        Args:
            x: see Shapes.

        Returns:
            The same matrix with entries dropped and the others scaled.
        """
        if x.layout not in _LAYOUTS:
            raise ValueError(f"x must be dense, COO, CSR or CSC; got {x.layout}")
        if not x.is_floating_point():
            raise TypeError(f"x must be floating; got {x.dtype}")
        if not self.training or self.p == 0:
            return x
        return (dropout if x.layout == torch.strided else sparse_dropout)(x, self.p)

    def extra_repr(self) -> str:
        """The settings, for repr."""
        return f"p={self.p}"
