"""What training needs and no model: the loop, metrics, run folders, intervals that keep a promise.

Models of molecules and of nodes are trained, judged and kept by the same code. Nothing is imported
here: take what you need from its module. What the modules need beyond gattn's core comes with
``pip install "gattn[molecules]"``.
"""
