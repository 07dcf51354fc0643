"""Declaration of operators: schemas, shapes, derivatives, backends and argument checks."""
