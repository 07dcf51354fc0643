"""Message-passing layers with the interface of PyTorch Geometric, one file per layer."""
