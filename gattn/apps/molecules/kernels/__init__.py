"""C++ kernels of the molecule model and their references."""
