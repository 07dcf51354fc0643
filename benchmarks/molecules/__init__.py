"""Benchmarks of molecule models: the search for the default model, and the comparison with
Chemprop.
"""
