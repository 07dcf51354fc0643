"""The layer SparseDropout: dropout for the entries of a sparse matrix."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Module

from gattn.ops.dropout import dropout
from gattn.ops.sparse_features import sparse_dropout

_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


class SparseDropout(Module):
    r"""Dropout for features in a sparse matrix.

    .. math:: y_{ij} = \frac{m_{ij}}{1 - p} x_{ij}, \qquad m_{ij} \sim \mathrm{Bernoulli}(1 - p)

    A zero stays zero with any mask, so only the stored entries draw a random mask. The result has
    the distribution of dense dropout, at a cost that is linear in the stored entries. It shares
    the index tensors of x, so that writing to the indices of x changes the result, too. Dense
    input is treated as in ``torch.nn.Dropout``.

    Args:
        p: probability of dropping an entry.

    Shapes:
        - **input:** x [n, d], a ``torch.sparse`` CSR, CSC or COO matrix, or dense [*]
        - **output:** the shape and the layout of x

    Raises:
        ValueError: if p is not a probability, or for another layout.
        TypeError: if x has no floating-point dtype.

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
        """In training mode, apply dropout to the entries of x. In evaluation mode, return x
        unchanged.

        Args:
            x: see Shapes.

        Returns:
            The matrix with random entries set to zero and the others scaled by 1 / (1 - p).

        Raises:
            ValueError: if x is not dense, COO, CSR or CSC.
            TypeError: if x does not contain floating-point numbers.
        """
        if x.layout not in _LAYOUTS:
            raise ValueError(f"x must be dense, COO, CSR or CSC; got {x.layout}")
        if not x.is_floating_point():
            raise TypeError(f"x must be floating; got {x.dtype}")
        if not self.training or self.p == 0:
            return x
        return (dropout if x.layout == torch.strided else sparse_dropout)(x, self.p)

    def extra_repr(self) -> str:
        """Return the settings of the layer as text for its ``repr``."""
        return f"p={self.p}"
