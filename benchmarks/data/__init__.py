"""Graphs on which the cases run."""
