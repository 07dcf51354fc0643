"""Pipeline of a training run, common to all products: load, split, fit, evaluate, report, write.

A product (molecules, nodes) implements the stages that depend on its data. The package itself
imports nothing; import what you need from its modules.
"""
