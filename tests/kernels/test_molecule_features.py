"""Kernels that compare count vectors and walk decision trees, against their PyTorch references."""

import pytest
import torch
from torch import Tensor

from gattn.apps.molecules.kernels.features import CountTable, TreeNodes, tree_leaves
from gattn.kernels import cpu

needs_kernels = pytest.mark.skipif(
    not cpu.serves(torch.device("cpu")), reason=cpu.unavailable_reason()
)


def random_counts(rows: int, columns: int, share: float, seed: int) -> Tensor:
    """Return counts [rows, columns] uint8 of which a share is not zero."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 256, (rows, columns), generator=generator, dtype=torch.uint8)
    return counts * (torch.rand(rows, columns, generator=generator) < share)


def random_trees(trees: int, depth: int, features: int) -> TreeNodes:
    """Return trees whose branches end at random depths."""
    generator = torch.Generator().manual_seed(2)
    feature: list[int] = []
    threshold: list[float] = []
    right: list[int] = []

    def grow(level: int) -> None:
        place = len(feature)
        inner = level < depth and torch.rand((), generator=generator) < 0.9
        feature.append(int(torch.randint(features, (), generator=generator)) if inner else -1)
        threshold.append(float(torch.randn((), generator=generator)))
        right.append(0)
        if inner:
            grow(level + 1)
            right[place] = len(feature)
            grow(level + 1)

    roots: list[int] = []
    for _ in range(trees):
        roots.append(len(feature))
        grow(0)
    int32 = torch.int32
    return TreeNodes(
        torch.tensor(feature, dtype=int32), torch.tensor(threshold),
        torch.tensor(right, dtype=int32), torch.tensor(roots),
    )  # fmt: skip


@needs_kernels
# A sum of 16 bits holds 256 counts of 255, so vectors with more counts need several sums.
@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
@pytest.mark.parametrize(("queries", "rows"), [(1, 1), (3, 513), (40, 100), (0, 5), (5, 0)])
def test_tanimoto_kernel_gives_the_same_bits_as_the_reference(
    queries: int, rows: int, share: float
) -> None:
    table = CountTable.of(random_counts(rows, 700, share, 0))
    counts = random_counts(queries, 700, share, 1)
    similarity = table.tanimoto(counts)
    assert similarity.shape == (queries, rows)
    assert torch.equal(similarity, table.tanimoto_reference(counts))


def test_tanimoto_of_largest_counts_does_not_overflow() -> None:
    counts = torch.full((1, 2048), 255, dtype=torch.uint8)
    half = counts.clone()
    half[:, 1024:] = 0
    assert CountTable.of(counts).tanimoto(torch.cat([counts, half])).tolist() == [[1.0], [0.5]]


def test_tanimoto_similarity_of_sliced_counts_with_themselves_is_one() -> None:
    counts = random_counts(6, 40, 0.5, 0)
    table = CountTable.of(counts[:, :20])
    assert torch.equal(table.tanimoto(counts[:, :20]).diagonal(), torch.ones(6))


@pytest.mark.parametrize("counts", [torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.uint8)])
def test_tanimoto_of_counts_of_wrong_dtype_or_width_raises_error(counts: Tensor) -> None:
    table = CountTable.of(torch.zeros(5, 3, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"counts must be \[n, 3\] uint8; got \(2, [34]\)"):
        table.tanimoto(counts)


@needs_kernels
@pytest.mark.parametrize("rows", [0, 1, 8, 150])
def test_tree_leaf_kernel_equals_the_reference(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = random_trees(7, 9, 5)
    x = torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
    x[::4, 2] = torch.nan
    leaves = tree_leaves(nodes, x)
    assert leaves.shape == (rows, 7)
    assert (nodes.feature[leaves] == -1).all()
    monkeypatch.setattr(cpu, "serves", lambda device: False)
    assert torch.equal(tree_leaves(nodes, x), leaves)


@needs_kernels
def test_leaf_of_a_tree_without_splits_is_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = random_trees(3, 0, 1)
    assert tree_leaves(nodes, torch.zeros(2, 0)).tolist() == [[0, 1, 2]] * 2
    monkeypatch.setattr(cpu, "serves", lambda device: False)
    assert tree_leaves(nodes, torch.zeros(2, 0)).tolist() == [[0, 1, 2]] * 2


def test_tanimoto_reference_of_an_empty_table_has_no_columns(own_threads: None) -> None:
    torch.set_num_threads(2)
    table = CountTable.of(torch.zeros(0, 3, dtype=torch.uint8))
    assert table.tanimoto_reference(torch.ones(5, 3, dtype=torch.uint8)).shape == (5, 0)


@needs_kernels
def test_tree_leaves_of_features_of_another_dtype_raise_error() -> None:
    nodes = random_trees(1, 2, 5)
    with pytest.raises(ValueError, match=r"x must be float32; got torch\.float64"):
        tree_leaves(nodes, torch.zeros(1, 5, dtype=torch.float64))
