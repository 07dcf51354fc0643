"""Readouts, which compute one output for each graph of a batch, independent of the order of the
nodes.
"""
