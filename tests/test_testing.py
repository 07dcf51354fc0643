"""The checks of gattn.testing accept correct functions and reject wrong ones."""

import pytest
import torch
from torch import Tensor, nn

import gattn
from gattn.testing import (
    AwkwardGraph,
    WorstCase,
    assert_batch_independent,
    assert_edge_order_independent,
    assert_permutation_equivariant,
    assert_permutation_invariant,
    awkward_graphs,
)


class Mean(nn.Module):
    """Correct layer, which projects the features and then averages those of the neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(3, 5)
        self.edge = nn.Linear(2, 5)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        graph = gattn.Graph(edge_index, len(x))
        weight = gattn.functional.edge_softmax(x.new_zeros(graph.num_edges, 1), graph)
        messages = self.proj(x)[edge_index[0]]
        if edge_attr is not None:
            messages = messages + self.edge(edge_attr)
        return torch.zeros_like(self.proj(x)).index_add(0, edge_index[1], weight * messages)


class NodeOrderConvolution(nn.Module):
    """Incorrect layer: a convolution over the order of the nodes, with a kernel size above 1."""

    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 5, kernel, padding="same")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x.t()[None])[0].t() if len(x) else x.new_zeros(0, 5)


class ReadsNodeIds(nn.Module):
    """Incorrect layer, which contains an embedding of the number of each node."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x + self.embedding(torch.arange(len(x)))


def last_node(x: Tensor, index: Tensor, dim_size: int) -> Tensor:
    out = x.new_zeros(dim_size, x.shape[1])
    for row, graph in zip(x, index.tolist()):
        out[graph] = row
    return out


def test_equivariant_layer_passes_every_check():
    layer = Mean()
    for edge_dim in (None, 2):
        assert assert_permutation_equivariant(layer, 3, edge_dim=edge_dim).error < 1e-12
        assert assert_edge_order_independent(layer, 3, edge_dim=edge_dim).holds
        assert assert_batch_independent(layer, 3, edge_dim=edge_dim).holds


@pytest.mark.parametrize("layer", [NodeOrderConvolution(), ReadsNodeIds()])
def test_equivariance_check_fails_for_layers_that_depend_on_node_order(layer):
    with pytest.raises(AssertionError, match="permutation equivariance is broken on"):
        assert_permutation_equivariant(layer, 3)


def test_batch_check_fails_for_a_convolution_across_graphs():
    with pytest.raises(AssertionError, match="batch independence is broken on"):
        assert_batch_independent(NodeOrderConvolution(), 3)


def test_invariance_check_fails_for_a_readout_of_the_last_node():
    for sorted_index in (False, True):
        with pytest.raises(AssertionError, match="permutation invariance is broken on"):
            assert_permutation_invariant(last_node, 3, sorted_index=sorted_index)


def test_edge_order_check_fails_for_weights_that_depend_on_position():
    def weighted(x, edge_index):
        weight = torch.arange(edge_index.shape[1], dtype=x.dtype)[:, None]
        return torch.zeros_like(x).index_add(0, edge_index[1], weight * x[edge_index[0]])

    with pytest.raises(AssertionError, match="independence of edge order is broken on"):
        assert_edge_order_independent(weighted, 3)


def test_equivariance_check_fails_for_a_bipartite_layer_that_reads_the_first_source():
    def sum_of_sources(x, edge_index):
        x_src, x_dst = x
        out = x_src.new_zeros(len(x_dst), x_src.shape[1])
        return out.index_add(0, edge_index[1], x_src[edge_index[0]]) + x_dst.sum(1, keepdim=True)

    assert assert_permutation_equivariant(sum_of_sources, (3, 4)).holds
    assert assert_edge_order_independent(sum_of_sources, (3, 4)).holds

    def adds_first_source(x, edge_index):
        return x[1][:, :1] + (x[0][0].sum() if len(x[0]) else 0)

    with pytest.raises(AssertionError, match="bipartite"):
        assert_permutation_equivariant(adds_first_source, (3, 4))


def test_checks_of_equivariance_pass_the_batch_vector_to_a_layer_that_reads_the_batch():
    def centred(x, edge_index, batch):
        count = torch.bincount(batch).clamp(min=1)
        mean = x.new_zeros(len(count), x.shape[1]).index_add(0, batch, x) / count[:, None]
        return x - mean[batch]

    assert assert_batch_independent(centred, 3, batch=True).holds
    assert assert_permutation_equivariant(centred, 3, batch=True).holds


def test_error_of_a_check_reports_at_least_half_of_the_largest_difference():
    graphs = [case for case in awkward_graphs() if case.name in ("complete", "one hub")]
    with pytest.raises(AssertionError) as caught:
        assert_permutation_equivariant(ReadsNodeIds(), 3, cases=graphs)
    report = caught.value.args[0]
    assert isinstance(report, WorstCase)
    assert isinstance(report.case, AwkwardGraph)
    assert not report.holds
    assert report.error > report.tolerance == 1e-10
    assert str(report) == str(caught.value)
    assert "expected" in str(report)
    alone = []
    for graph in graphs:
        with pytest.raises(AssertionError) as caught:
            assert_permutation_equivariant(ReadsNodeIds(), 3, cases=[graph])
        alone.append(caught.value.args[0].error)
    assert report.error >= 0.5 * max(alone)


def test_error_of_a_check_reports_nan_wrong_shapes_and_outputs_that_are_no_tensors():
    with pytest.raises(AssertionError, match="error inf"):
        assert_permutation_equivariant(lambda x, edge_index: x / 0, 3)
    with pytest.raises(AssertionError, match="expected 5 rows, got shape"):
        assert_permutation_equivariant(lambda x, e: x[1:], 3, cases=awkward_graphs()[3:4])
    with pytest.raises(AssertionError, match="must be a tensor; got tuple"):
        assert_permutation_equivariant(lambda x, e: (x, x), 3)


def test_equivariance_check_without_graphs_or_with_a_wrong_bipartite_case_raises_error():
    with pytest.raises(ValueError, match="at least one graph"):
        assert_permutation_equivariant(Mean(), 3, cases=[])
    with pytest.raises(ValueError, match="must be a pair"):
        assert_permutation_equivariant(Mean(), 3, cases=awkward_graphs()[-1:])


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_unusual_graphs_are_valid_and_have_distinct_names(dtype):
    names = [case.name for case in awkward_graphs(dtype=dtype)]
    assert len(set(names)) == len(names) >= 16
    for case in awkward_graphs(dtype=dtype):
        graph = case.graph()
        assert case.edge_index.dtype == case.index.dtype == dtype
        assert graph.size == case.size
        assert graph.num_edges == case.edge_index.shape[1]
        assert len(case.index) == case.size[0]
        assert torch.equal(case.index, case.index.sort().values)
        assert case.bipartite or case.size[0] == case.size[1]
        source, destination = case.edge_index.long()
        if not case.bipartite:
            assert torch.equal(case.index[source], case.index[destination])
