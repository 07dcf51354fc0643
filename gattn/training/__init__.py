"""Training code that all models share: loop, metrics, run folders and conformal prediction.

Models of molecules and of nodes are trained, evaluated and saved by the same code. The package
imports nothing; import its modules directly. Their additional dependencies are
installed by ``pip install "gattn[molecules]"``.
"""
