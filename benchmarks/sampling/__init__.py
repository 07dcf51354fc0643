"""Measurement of neighbour sampling on a large graph, compared with the loaders of PyG and DGL.

    python -m benchmarks.sampling.make FOLDER       # the graph and its features, about 1.7 GB
    python -m benchmarks.sampling.measure FOLDER gattn pyg

DGL runs on older versions of torch only: ``measure FOLDER dgl graphbolt`` in an environment that
has them. There and for ``pyg`` nothing of gattn is imported.
"""
