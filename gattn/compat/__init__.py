"""Access to private parts of PyTorch and PyTorch Geometric, in one file for each library."""
