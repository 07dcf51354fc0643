"""The graphs that the cases run on."""
