"""Training shared by all models: loop, metrics, run folders, conformal prediction.

Models of molecules and of nodes are trained, evaluated and saved by the same code. Nothing is
imported here: import from the modules. Their dependencies beyond those of gattn's core come with
``pip install "gattn[molecules]"``.
"""
