from gattn.sampling.batch import Sample, TypedSample
from gattn.sampling.neighbors import NeighborSampler, TypedNeighborSampler

__all__ = ["NeighborSampler", "Sample", "TypedNeighborSampler", "TypedSample"]
