"""Splits: whole, without overlap, repeatable, and named."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gattn.data import random_split, read_smiles, scaffold_split
from gattn.data.splits import murcko_scaffold


@given(
    st.integers(0, 300), st.integers(0, 2**31), st.sampled_from([(0.8, 0.1, 0.1), (0.7, 0.1, 0.2)])
)
def test_a_random_split_is_whole(count, seed, fractions):
    split = random_split(count, seed=seed, fractions=fractions)
    parts = torch.cat([split.train, split.val, split.test])
    assert parts.sort().values.tolist() == list(range(count))
    assert abs(len(split.train) - fractions[0] * count) <= 0.5
    assert abs(len(split.val) - fractions[1] * count) <= 0.5


def test_a_random_split_depends_on_its_seed_alone():
    torch.manual_seed(1)
    first = random_split(100, seed=5)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), drawn)
    assert torch.equal(random_split(100, seed=5).test, first.test)
    assert not torch.equal(random_split(100, seed=6).test, first.test)
    assert first.protocol == "random 8:1:1 (seed 5)"


SMILES = [
    "CC",
    "c1ccccc1",
    "Cc1ccccc1",
    "CCc1ccccc1",
    "C1CCCCC1",
    "C1CC1",
    "OC1CC1",
    "CCO",
    "c1ccncc1",
]


def test_a_scaffold_is_in_one_part_only():
    split = scaffold_split(SMILES, fractions=(0.5, 0.25, 0.25))
    where = {}
    for part in ("train", "val", "test"):
        for i in getattr(split, part).tolist():
            where.setdefault(murcko_scaffold(SMILES[i]), set()).add(part)
    assert all(len(parts) == 1 for parts in where.values())
    everything = torch.cat([split.train, split.val, split.test])
    assert everything.sort().values.tolist() == list(range(len(SMILES)))
    # Benzene's three fill most of the training part: no pair fits whole, a single one does.
    assert split.train.tolist() == [1, 2, 3, 4]
    assert split.val.tolist() == [0, 7]
    assert split.protocol == "scaffold 5:2.5:2.5"


def test_what_was_read_is_split_like_its_texts():
    mols = read_smiles(SMILES)
    for split, other in (
        (scaffold_split(mols), scaffold_split(SMILES)),
        (random_split(mols, seed=3), random_split(len(SMILES), seed=3)),
    ):
        assert torch.equal(split.train, other.train)
        assert torch.equal(split.test, other.test)
        assert mols[split.train].smiles == [SMILES[i] for i in split.train]
    assert repr(scaffold_split(mols)) == "Split(train: 7, val: 1, test: 1; scaffold 8:1:1)"
    with pytest.raises(ValueError, match="list of texts; got the one text 'CC'"):
        scaffold_split("CC")


def test_a_scaffold_split_is_deterministic():
    parts = [scaffold_split(SMILES) for _ in range(2)]
    assert torch.equal(parts[0].test, parts[1].test)


def test_stereo_does_not_make_a_scaffold():
    assert murcko_scaffold("C[C@H]1CC[C@@H](O)CC1") == murcko_scaffold("CC1CCC(O)CC1") == "C1CCCCC1"
    assert murcko_scaffold("CCO") == ""


def test_nothing_to_split():
    for split in (random_split(0, seed=0), scaffold_split([])):
        assert len(split.train) == len(split.val) == len(split.test) == 0
        assert split.train.dtype == torch.int64


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_fractions_are_checked(fractions):
    with pytest.raises(ValueError, match="three shares that add up to 1"):
        random_split(10, seed=0, fractions=fractions)
    with pytest.raises(ValueError, match="three shares"):
        scaffold_split(["C"], fractions=fractions)


def test_inputs_are_checked():
    with pytest.raises(ValueError, match="must not be negative"):
        random_split(-1, seed=0)
    with pytest.raises(ValueError, match="RDKit cannot read the SMILES 'C1'"):
        scaffold_split(["C1"])
