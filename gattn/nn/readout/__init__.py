"""Readouts: one output for each graph of a batch, whatever the order of its nodes."""
