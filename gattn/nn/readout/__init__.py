"""Readouts: one output per graph of a batch, which does not depend on the order of the nodes."""
