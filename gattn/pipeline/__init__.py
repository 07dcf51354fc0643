"""The stages of a run, the same for every product: load, split, fit, evaluate, report, write.

A product (molecules, nodes) adds what is special to it. Nothing is imported here: import what you
need from its module.
"""
