"""Private parts of PyTorch and PyTorch Geometric that gattn uses, one file for each."""
