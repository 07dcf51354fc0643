"""Layers and readouts: the interface of torch_geometric.nn on fused attention."""
