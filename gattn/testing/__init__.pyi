from gattn.testing.cases import AwkwardGraph, awkward_graphs, random_graphs
from gattn.testing.properties import (
    WorstCase,
    assert_batch_independent,
    assert_edge_order_independent,
    assert_permutation_equivariant,
    assert_permutation_invariant,
)

__all__ = [
    "AwkwardGraph",
    "WorstCase",
    "assert_batch_independent",
    "assert_edge_order_independent",
    "assert_permutation_equivariant",
    "assert_permutation_invariant",
    "awkward_graphs",
    "random_graphs",
]
