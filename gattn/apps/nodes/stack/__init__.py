"""Stacked model of nodes: several models whose predictions are combined with weights."""
