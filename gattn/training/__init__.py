"""Training shared by all models: loop, metrics, run folders, conformal prediction.

Models of molecules and of nodes are trained, evaluated and saved by the same code. The package
itself imports nothing; import what you need from its modules. Their additional dependencies are
installed by ``pip install "gattn[molecules]"``.
"""
