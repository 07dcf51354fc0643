"""Neighbour sampling in a graph of ogbn-products' size, beside PyG's loader and DGL's.

    python -m benchmarks.sampling.make FOLDER       # the graph and its features, about 1.7 GB
    python -m benchmarks.sampling.measure FOLDER gattn pyg

DGL runs on older versions of torch only: ``measure FOLDER dgl graphbolt`` in an environment that
has them. There and for ``pyg`` nothing of gattn is imported.
"""
