"""Tests of a theorem: self-attention is permutation equivariant, and readouts by queries are
permutation invariant.

Both properties are checked in fp64 to 1e-10 for every layer and readout that gattn exports, with
random graphs, features and permutations.
"""

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gattn.testing import (
    AwkwardGraph,
    assert_batch_independent,
    assert_edge_order_independent,
    assert_permutation_equivariant,
    assert_permutation_invariant,
)
from tests.layers import every, layers

WIDTH = 4
ALONG_EDGES = layers(bipartite=False, batch=False, readout=False)
BIPARTITE = layers(bipartite=True)
GLOBAL = layers(batch=True)
READOUTS = layers(readout=True)


@st.composite
def batches(draw):
    """Draw a batch of one to three graphs with up to six nodes and arbitrary edges."""
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=3))
    edges, start = [], 0
    for size in sizes:
        if size:
            node = st.integers(start, start + size - 1)
            edges += draw(st.lists(st.tuples(node, node), max_size=3 * size))
        start += size
    edges = draw(st.permutations(edges))
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    index = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return AwkwardGraph("drawn", edge_index, (start, start), index, len(sizes))


@st.composite
def bipartite_graphs(draw):
    m, n = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    edges = []
    if m and n:
        ends = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
        edges = draw(st.lists(ends, max_size=12))
    edge_index = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous()
    return AwkwardGraph("drawn", edge_index, (m, n), torch.zeros(m).long(), bipartite=True)


SEEDS = st.integers(0, 2**31)
few = settings(max_examples=2, deadline=None, phases=[Phase.generate, Phase.shrink])


@every(ALONG_EDGES | GLOBAL)
@given(case=batches(), seed=SEEDS)
@few
def test_every_layer_is_equivariant_and_independent_of_edge_order_and_batch(layer, case, seed):
    options = {"cases": [case], "seed": seed, "batch": layer.batch}
    options["edge_dim"] = 2 if layer.edge_attr else None
    layer = layer.called(WIDTH)
    assert_permutation_equivariant(layer, WIDTH, **options)
    assert_edge_order_independent(layer, WIDTH, **options)
    assert_batch_independent(layer, WIDTH, **options)


@every(BIPARTITE)
@given(case=bipartite_graphs(), seed=SEEDS)
@few
def test_every_bipartite_layer_is_equivariant_and_independent_of_edge_order(layer, case, seed):
    layer = layer.called(WIDTH)
    assert_permutation_equivariant(layer, (3, WIDTH), cases=[case], seed=seed)
    assert_edge_order_independent(layer, (3, WIDTH), cases=[case], seed=seed)


@every(READOUTS)
@given(case=batches(), seed=SEEDS)
@few
def test_every_readout_is_invariant_and_independent_of_its_batch(layer, case, seed):
    readout = layer.called(WIDTH)
    assert_permutation_invariant(readout, WIDTH, cases=[case], seed=seed)
    assert_batch_independent(readout, WIDTH, readout=True, cases=[case], seed=seed)


@every(ALONG_EDGES)
def test_every_layer_is_equivariant_on_unusual_graphs(layer):
    edge_dim, tolerance = (2, 1e-10) if layer.edge_attr else (None, 0.0)
    layer = layer.called(WIDTH)
    for parameter in layer.parameters():  # Parameters that start at zero could hide an error.
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    assert_permutation_equivariant(layer, WIDTH, edge_dim=edge_dim)
    assert_edge_order_independent(layer, WIDTH, edge_dim=edge_dim, tolerance=tolerance)
    assert_batch_independent(layer, WIDTH, edge_dim=edge_dim)


@every(READOUTS)
def test_every_readout_is_invariant_on_unusual_graphs(layer):
    readout = layer.called(WIDTH)
    assert_permutation_invariant(readout, WIDTH)
    assert_batch_independent(readout, WIDTH, readout=True)


def test_every_layer_of_the_registry_is_tested_for_equivariance_or_invariance():
    """Every layer and readout of the table is tested here."""
    proven = {layer.name for layer in layers().values()}
    tables = ALONG_EDGES, BIPARTITE, GLOBAL, READOUTS
    assert proven == {name for table in tables for name in table}
