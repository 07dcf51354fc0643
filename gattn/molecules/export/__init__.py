"""Export of trained models to files with which they predict without gattn and PyTorch."""
