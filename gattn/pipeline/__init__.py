"""Stages of a training run that molecules and nodes share: load, split, fit, evaluate, report,
write.

A product (molecules, nodes) implements the stages that depend on its data. The package imports
nothing; import its modules directly.
"""
