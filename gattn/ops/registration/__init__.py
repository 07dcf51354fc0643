"""Declaration of operators: schemas, shapes, derivatives, backends and checks of their
arguments.
"""
