"""Splits by Butina cluster, compared with a plain implementation."""

import pytest
import torch

from gattn.data import load_molecules, morgan_fingerprints
from gattn.data.molecules import similarity_splits
from gattn.data.molecules.similarity_splits import butina_clusters, butina_split
from gattn.data.splits import split_by_order


@pytest.fixture(scope="module")
def smiles():
    return sorted(load_molecules("chembl2321810").smiles[:80])


@pytest.fixture(scope="module")
def distances(smiles):
    """Distances [n, n] of the molecules, from sets of bits."""
    sets = [set(row.nonzero().flatten().tolist()) for row in morgan_fingerprints(smiles)]
    return [[1 - len(a & b) / len(a | b) for b in sets] for a in sets]


def plain_clusters(distances, limit):
    """Return the clusters of the algorithm's definition, each as a set."""
    left, clusters = set(range(len(distances))), []
    while left:
        near = {i: {j for j in left if distances[i][j] <= limit} for i in left}
        centre = max(left, key=lambda i: (len(near[i]), i))
        clusters.append(near[centre])
        left -= near[centre]
    return clusters


@pytest.mark.parametrize("limit", [0.35, 0.65])
def test_sizes_of_butina_clusters_equal_those_of_the_reference(smiles, distances, limit):
    numbers = butina_clusters(smiles, distance=limit)
    sizes = torch.tensor(numbers).bincount().tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes == sorted(map(len, plain_clusters(distances, limit)), reverse=True)
    for number in set(numbers):
        members = [i for i, each in enumerate(numbers) if each == number]
        assert any(all(distances[i][j] <= limit + 1e-6 for j in members) for i in members)


def test_each_butina_cluster_is_in_one_split_only(smiles, monkeypatch):
    monkeypatch.setattr(similarity_splits, "BLOCK", 7)
    split, numbers = butina_split(smiles), torch.tensor(butina_clusters(smiles))
    parts = [set(numbers[part].tolist()) for part in (split.train, split.val, split.test)]
    assert len(set.union(*parts)) == sum(map(len, parts))
    assert sorted(torch.cat([split.train, split.val, split.test]).tolist()) == list(range(80))
    assert split.protocol == "Butina 8:1:1"


def test_butina_split_does_not_depend_on_the_order_of_molecules(smiles):
    smiles = [*smiles[:40], *("C" * n for n in range(1, 9)), *("C" * n + "O" for n in range(1, 9))]
    order = torch.randperm(len(smiles), generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = [smiles[i] for i in order]
    assert butina_clusters(shuffled) == [butina_clusters(smiles)[i] for i in order]
    first, second = butina_split(smiles), butina_split(shuffled)
    for part in ("train", "val", "test"):
        members = [smiles[i] for i in getattr(first, part).tolist()]
        assert sorted(members) == sorted(shuffled[i] for i in getattr(second, part).tolist())


def test_butina_clusters_of_no_molecules_are_empty_and_too_many_raise_error(smiles, monkeypatch):
    assert butina_clusters([]) == []
    monkeypatch.setattr(similarity_splits, "MOST_COMPARED", 3)
    with pytest.raises(ValueError, match="at most 3 molecules; got 80: use scaffold or random"):
        butina_clusters(smiles)


def test_rows_of_equal_time_are_in_one_split():
    split = split_by_order([3, 1, 2, 2, 2, 5, 4, 4, 0, 9], (0.5, 0.3, 0.2), "by time")
    assert split.train.tolist() == [8, 1, 2, 3, 4]
    assert split.val.tolist() == [0, 6, 7]
    assert split.test.tolist() == [5, 9]
