"""Folds: every group is in one fold, sizes are balanced, the seed decides the folds."""

import pytest
import torch

from gattn.apps.molecules.folds import FOLDS, assign_folds


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 64, 333])
def test_folds_keep_groups_together_and_are_of_one_size(count: int) -> None:
    groups = torch.arange(count).repeat(2)
    folds = assign_folds(groups, seed=3)
    assert torch.equal(folds[:count], folds[count:])
    sizes = folds[:count].bincount(minlength=FOLDS)
    assert int(sizes.sum()) == count
    assert int(sizes.max() - sizes.min()) <= 1
    assert torch.equal(folds, assign_folds(groups, seed=3))


def test_another_seed_draws_other_folds() -> None:
    groups = torch.arange(64)
    assert not torch.equal(assign_folds(groups, seed=0), assign_folds(groups, seed=1))
