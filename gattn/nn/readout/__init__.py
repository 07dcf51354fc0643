"""Readouts, which compute one output for each graph of a batch, in any order of the nodes."""
