"""Message-passing layers with the interface of PyTorch Geometric, in one file per layer."""
