"""Readouts. A readout computes one output for each graph of a batch, independently of the order
of the nodes.
"""
