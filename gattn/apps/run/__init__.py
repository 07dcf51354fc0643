"""Stages of a training run (load, split, fit, evaluate, report, write), which molecules, nodes and
links share.

A product (molecules, nodes) implements the stages that depend on its data. The package imports
nothing; import its modules directly.
"""
