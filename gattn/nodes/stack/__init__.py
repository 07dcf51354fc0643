"""Stacked model of nodes: several models whose predictions are combined by weights."""
