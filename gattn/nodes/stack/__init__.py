"""Stacked model of nodes: the component models, and the weights that combine them."""
