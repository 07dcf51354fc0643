"""Training loops, losses, metrics and calibration, which all applications share."""
