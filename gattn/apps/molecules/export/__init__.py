"""Export of trained models to files from which a program predicts without gattn and PyTorch."""
