"""Graph and features that the comparisons with PyG share."""

import torch

EDGES = torch.tensor([[1, 3, 0, 1, 2, 0], [0, 0, 1, 1, 2, 4]])
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
