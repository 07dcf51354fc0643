"""Tests of Partition: every node has one owner, and METIS cuts few edges."""

import sys

import pytest
import torch

from gattn.distributed import Partition


def test_parts_of_a_contiguous_partition_differ_by_at_most_one_node():
    assert Partition.contiguous(10, 4).bounds == (0, 3, 6, 8, 10)
    assert Partition.contiguous(2, 4).bounds == (0, 1, 2, 2, 2)
    assert Partition.contiguous(0, 2).bounds == (0, 0, 0)
    partition = Partition.contiguous(10, 4)
    assert (partition.num_nodes, partition.num_parts) == (10, 4)
    assert partition.nodes(1).tolist() == [3, 4, 5]


def two_cliques(n=20):
    """Two complete graphs joined by one edge, their nodes shuffled."""
    pairs = torch.combinations(torch.arange(n))
    pairs = torch.cat([pairs, pairs + n, torch.tensor([[0, n]])])
    names = torch.randperm(2 * n, generator=torch.Generator().manual_seed(0))
    return names[pairs.t()], names


def test_metis_partition_separates_two_cliques():
    pytest.importorskip("pymetis")
    edge_index, names = two_cliques()
    partition = Partition.metis(edge_index, 40, 2)
    parts = [set(partition.nodes(r).tolist()) for r in range(2)]
    cliques = [set(names[:20].tolist()), set(names[20:].tolist())]
    assert parts in (cliques, cliques[::-1])
    again = Partition.metis(edge_index, 40, 2)
    assert torch.equal(again.order, partition.order)
    assert Partition.metis(edge_index, 40, 1).bounds == (0, 40)


def test_missing_pymetis_raises_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match=r"pip install gattn\[partition\]"):
        Partition.metis(torch.tensor([[0], [1]]), 2, 2)


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: Partition((0, 3, 2)), "must ascend"),
        (lambda: Partition((1, 3)), "must ascend from 0"),
        (lambda: Partition((0, 3), torch.arange(2)), r"order must have shape \(3,\)"),
        (lambda: Partition.contiguous(3, 0), "num_parts must be >= 1"),
        (lambda: Partition.contiguous(-1, 2), "num_nodes must be >= 0"),
        (lambda: Partition.from_parts(torch.tensor([0, 2]), 2), "got 2 for node 1"),
        (lambda: Partition.from_parts(torch.tensor([0.5]), 2), "an integer for each node"),
    ],
)
def test_invalid_bounds_order_counts_or_parts_of_a_partition_raise_error(create, message):
    with pytest.raises(ValueError, match=message):
        create()
