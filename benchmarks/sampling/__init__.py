"""Measurement of neighbour sampling on a large graph, compared with the loaders of PyG and DGL.

    python -m benchmarks.sampling.make FOLDER       # the graph and its features, about 1.7 GB
    python -m benchmarks.sampling.measure FOLDER gattn pyg

DGL needs an older version of torch. Run ``measure FOLDER dgl graphbolt`` in an environment with
both. For these two and for ``pyg``, no module of gattn is imported.
"""
