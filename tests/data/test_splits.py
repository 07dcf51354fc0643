"""Tests of splits: they are complete and reproducible, their parts do not overlap, and they can be
chosen by name.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gattn.data import random_split, read_smiles, scaffold_split, split_by_names
from gattn.data.molecules.scaffolds import murcko_scaffold
from gattn.data.splits import read_positions, split_from_positions


@given(
    st.integers(0, 300), st.integers(0, 2**31), st.sampled_from([(0.8, 0.1, 0.1), (0.7, 0.1, 0.2)])
)
def test_random_split_contains_every_row_once(count, seed, fractions):
    split = random_split(count, seed=seed, fractions=fractions)
    parts = torch.cat([split.train, split.val, split.test])
    assert parts.sort().values.tolist() == list(range(count))
    assert abs(len(split.train) - fractions[0] * count) <= 0.5
    assert abs(len(split.val) - fractions[1] * count) <= 0.5


def test_random_split_depends_on_its_seed_and_does_not_change_the_global_generator():
    torch.manual_seed(1)
    first = random_split(100, seed=5)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), drawn)
    assert torch.equal(random_split(100, seed=5).test, first.test)
    assert not torch.equal(random_split(100, seed=6).test, first.test)
    assert first.protocol == "random 8:1:1 (seed 5)"


SMILES = ["CC", "c1ccccc1", "Cc1ccccc1", "CCc1ccccc1", "C1CCCCC1", "C1CC1"]
SMILES += ["OC1CC1", "CCO", "c1ccncc1"]


def test_each_scaffold_is_in_one_split_only():
    split = scaffold_split(SMILES, fractions=(0.5, 0.25, 0.25))
    where = {}
    for part in ("train", "val", "test"):
        for i in getattr(split, part).tolist():
            where.setdefault(murcko_scaffold(SMILES[i]), set()).add(part)
    assert all(len(parts) == 1 for parts in where.values())
    everything = torch.cat([split.train, split.val, split.test])
    assert everything.sort().values.tolist() == list(range(len(SMILES)))
    # The three molecules with benzene's scaffold fill most of the training part. No scaffold with
    # two molecules fits in the rest, but one with a single molecule does.
    assert split.train.tolist() == [1, 2, 3, 8]
    assert split.val.tolist() == [5, 6]
    assert split.protocol == "scaffold 5:2.5:2.5"


def test_molecules_object_has_the_same_splits_as_its_list_of_smiles():
    mols = read_smiles(SMILES)
    drawn = random_split(mols, seed=3), random_split(len(SMILES), seed=3)
    for split, other in ((scaffold_split(mols), scaffold_split(SMILES)), drawn):
        assert torch.equal(split.train, other.train)
        assert torch.equal(split.test, other.test)
        assert mols[split.train].smiles == [SMILES[i] for i in split.train]
    assert repr(scaffold_split(mols)) == "Split(train: 7, val: 1, test: 1; scaffold 8:1:1)"
    with pytest.raises(ValueError, match="list of strings; got a single string 'CC'"):
        scaffold_split("CC")


def test_scaffold_split_warns_if_nearly_all_molecules_have_one_scaffold():
    with pytest.warns(UserWarning, match="19 of 20 molecules have one scaffold, or none"):
        split = scaffold_split(["C" * n for n in range(1, 20)] + ["C1CC1"])
    assert (len(split.train), len(split.test)) == (1, 19)


def test_stereoisomers_have_one_scaffold():
    assert murcko_scaffold("C[C@H]1CC[C@@H](O)CC1") == murcko_scaffold("CC1CCC(O)CC1") == "C1CCCCC1"
    assert murcko_scaffold("CCO") == ""


def test_splits_of_no_molecules_are_empty():
    for split in (random_split(0, seed=0), scaffold_split([])):
        assert len(split.train) == len(split.val) == len(split.test) == 0
        assert split.train.dtype == torch.int64


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_fractions_other_than_three_nonnegative_numbers_of_sum_one_raise_error(fractions):
    with pytest.raises(ValueError, match="three numbers that add up to 1"):
        random_split(10, seed=0, fractions=fractions)
    with pytest.raises(ValueError, match="three numbers"):
        scaffold_split(["C"], fractions=fractions)


def test_split_of_a_negative_count_or_an_invalid_smiles_raises_error():
    with pytest.raises(ValueError, match="must not be negative"):
        random_split(-1, seed=0)
    with pytest.raises(ValueError, match="RDKit cannot read the SMILES 'C1'"):
        scaffold_split(["C1"])


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.integers(0, 2**31))
def test_each_group_is_in_one_split_only(groups, seed):
    split = random_split(len(groups), seed=seed, groups=groups)
    parts = [split.train.tolist(), split.val.tolist(), split.test.tolist()]
    assert sorted(i for part in parts for i in part) == list(range(len(groups)))
    part_groups = [group for part in parts for group in {groups[i] for i in part}]
    assert len(part_groups) == len(set(groups))
    largest = max((groups.count(group) for group in groups), default=0)
    assert abs(len(parts[0]) - 0.8 * len(groups)) <= (largest + 1) / 2


def test_groups_of_one_row_give_the_same_split_as_no_groups():
    alone, grouped = random_split(50, seed=4), random_split(50, seed=4, groups=range(50))
    assert torch.equal(alone.train, grouped.train)
    assert torch.equal(alone.test, grouped.test)
    assert grouped.protocol == "random 8:1:1 by group (seed 4)"
    with pytest.raises(ValueError, match="groups must have 3 values, one for each item; got 2"):
        random_split(3, seed=0, groups=["a", "b"])


def test_split_by_names_reads_training_validation_and_test_from_names():
    split = split_by_names(["train", " TEST", "valid", "Training", "val"], protocol="column:part")
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([0, 3], [2, 4], [1])
    assert split.protocol == "column:part"
    with pytest.raises(ValueError, match="1 row has another value; the first is row 1: ''"):
        split_by_names(["train", ""])


def test_split_file_contains_lists_of_row_indices(tmp_path):
    path = tmp_path / "split.json"
    parts = '{"train": [2, 0], "val": [], "test": [3]}'
    for text in (parts, f"[{parts}]"):
        path.write_text(text)
        split = split_from_positions(read_positions(path), path, 4)
        assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([2, 0], [], [3])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("train", "split.json cannot be read as JSON"),
        ('{"train": [0], "val": [], "test": [], "train": [1]}', "has the key 'train' twice"),
        ("[" * 100_000, "split.json cannot be read as JSON"),
        ("[]", "lists of row indices under train, val and test"),
        ('{"train": [0], "val": [1]}', "lists of row indices under"),
        ('{"train": 0, "val": [1], "test": [2]}', "lists of row indices under"),
        ('{"train": [0], "val": [1], "test": [4]}', "from 0 to 3; test has 4"),
        ('{"train": [-1], "val": [1], "test": [2]}', "train has -1"),
        ('{"train": [0.0], "val": [1], "test": [2]}', "train has 0.0"),
        ('{"train": [true], "val": [1], "test": [2]}', "train has True"),
        ('{"train": [0], "val": [1, 0], "test": [2]}', "index 0 is in train and in val"),
        ('{"train": [0, 0], "val": [1], "test": [2]}', "index 0 is in train and in train"),
    ],
    ids=lambda text: text[:20],
)
def test_invalid_split_file_raises_error_with_its_reason(tmp_path, text, says):
    path = tmp_path / "split.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        split_from_positions(read_positions(path), path, 4)


def test_method_among_maps_a_split_to_indices_of_the_remaining_rows():
    split = split_by_names(["train", "val", "test", "train", "test"]).among(torch.tensor([0, 2, 4]))
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([0], [], [1, 2])
    nothing = split.among(torch.tensor([], dtype=torch.int64))
    assert len(nothing.train) == len(nothing.val) == len(nothing.test) == 0
