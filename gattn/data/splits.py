"""Splits of a data set into training, validation and test parts, with the name of the protocol.

A protocol is the rule of a split. Scores under different protocols cannot be compared, so print
``split.protocol`` with each score.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gattn.files import parse_json

PARTS = ("train", "val", "test")
NAMES = {
    **{"train": "train", "training": "train"},
    **{"val": "val", "valid": "val", "validation": "val"},
    **{"test": "test", "testing": "test"},
}
EIGHT_ONE_ONE = (0.8, 0.1, 0.1)


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Indices (int64) of the training, validation and test items of a split, and the name of its
    protocol.

    No item is in two parts.

    Attributes:
        train: [k] indices of the training part.
        val: [v] indices of the validation part.
        test: [t] indices of the test part.
        protocol: the name of the protocol, a text for reports.
        drawn_validation: True if the validation part was drawn from items for training, rather
            than defined by the data or by published results.
        time: the column of times by which the items were split; "" for another split.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    protocol: str
    drawn_validation: bool = False
    time: str = ""

    def __repr__(self) -> str:
        sizes = ", ".join(f"{part}: {len(getattr(self, part))}" for part in PARTS)
        return f"Split({sizes}; {self.protocol})"

    def among(self, rows: Tensor) -> Split:
        """Return the same split for a subset of the items, for example after invalid rows were
        removed.

        Args:
            rows: [r] int64, the indices of the remaining items, each once.

        Returns:
            The split as indices into ``rows``; items that are not in ``rows`` are in no part.

        >>> split = split_by_names(["train", "test", "train", "val"])
        >>> split.among(torch.tensor([0, 2, 3])).train
        tensor([0, 1])
        """
        parts = (self.train, self.val, self.test)
        count = 1 + max((int(part.max()) for part in (rows, *parts) if len(part)), default=-1)
        place = torch.full((count,), -1).index_put_((rows,), torch.arange(len(rows)))
        train, val, test = (place[part][place[part] >= 0] for part in parts)
        return replace(self, train=train, val=val, test=test)


def random_split(
    items: int | Sized,
    *,
    seed: int,
    fractions: tuple[float, float, float] = EIGHT_ONE_ONE,
    groups: Sequence[Hashable] | None = None,
) -> Split:
    """Split items at random into a training, a validation and a test part.

    The items are permuted, and the permutation is cut into the three parts. The protocol is for
    example "random 8:1:1 (seed 0)". With groups, the groups are permuted, and the protocol
    is "random 8:1:1 by group (seed 0)". The same number of items, ``seed`` and ``fractions`` give
    the same split on every machine. torch's global generator is neither used nor changed.

    Args:
        items: the items (``Molecules``, a list), or their number.
        seed: seed of the permutation, a nonnegative integer.
        fractions: fractions of train, val and test, which add up to 1. The sizes of the first two
            parts are rounded to integers, and the test part contains the remaining items.
        groups: a group for each item, for example from :func:`molecule_identities`: items of
            equal groups are in the same part. A cut within a group moves to the nearer end of the
            group.

    Returns:
        The split; a part may be empty if there are few items or groups. Each part is in the order
        of the permutation, and ``drawn_validation`` is True.

    Raises:
        ValueError: the number of items is negative, the fractions are invalid, or the number of
            groups is not the number of items.

    >>> random_split(10, seed=0)
    Split(train: 8, val: 1, test: 1; random 8:1:1 (seed 0))
    >>> random_split(4, seed=0, fractions=(0.5, 0.5, 0), groups=["a", "b", "a", "b"]).train
    tensor([0, 2])
    """
    count = items if isinstance(items, int) else len(items)
    train, val = cuts(count, fractions)
    numbers = number_groups(groups, count)
    sizes = numbers.bincount()
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    middle = torch.empty(len(sizes), dtype=torch.float64)
    in_order = sizes[order].double()
    middle[order] = in_order.cumsum(0) - in_order / 2
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    items = place[numbers].argsort(stable=True)
    part = ((middle > train).long() + (middle > train + val))[numbers][items]
    by = "" if groups is None else " by group"
    protocol = f"random {ratio(fractions)}{by} (seed {seed})"
    train_part, val_part, test_part = (items[part == number] for number in range(3))
    return Split(train_part, val_part, test_part, protocol, drawn_validation=True)


def number_groups(groups: Iterable[Hashable] | None, count: int) -> Tensor:
    """Return the index of the group of each item, [count] int64; groups are numbered in order of
    appearance.

    Args:
        groups: a group for each item; None puts every item into a separate group.
        count: number of items.

    Raises:
        ValueError: the number of groups is not ``count``.

    >>> number_groups(["CCO", "C", "CCO"], 3)
    tensor([0, 1, 0])
    """
    if groups is None:
        return torch.arange(count)
    numbers: dict[Hashable, int] = {}
    # np.fromiter does not create a list of Python integers, which would take several times the
    # memory.
    numbered = np.fromiter((numbers.setdefault(group, len(numbers)) for group in groups), np.int64)
    if len(numbered) != count:
        raise ValueError(f"groups must have {count} values, one for each item; got {len(numbered)}")
    return torch.from_numpy(numbered)


def split_by_groups(
    groups: Iterable[Hashable],
    fractions: tuple[float, float, float],
    protocol: str,
    *,
    largest_trains: bool = False,
) -> Split:
    """Split items so that no group is in two parts. Large groups are put into the training part.

    Groups are assigned in descending order of size; groups of equal size are ordered by their first
    item, the last one first. A group is added to the training part if it fits there, else to the
    validation part if it fits into the two parts together, else to the test part.

    Args:
        groups: the group of each item.
        fractions: fractions of train, val and test; the first two are maxima.
        protocol: the split's name.
        largest_trains: put the largest group into the training part, even if it does not fit.

    Returns:
        The split, each part in ascending order.

    Raises:
        ValueError: the fractions are invalid.

    >>> split_by_groups("aabac", (0.6, 0.2, 0.2), "by letter")
    Split(train: 3, val: 1, test: 1; by letter)
    """
    listed = list(groups)
    train_room, val_room = cuts(len(listed), fractions)
    numbers = number_groups(listed, len(listed))
    members = [
        group.tolist() for group in numbers.argsort(stable=True).split(numbers.bincount().tolist())
    ]
    train: list[int] = []
    val: list[int] = []
    test: list[int] = []
    for group in sorted(members, key=lambda group: (len(group), group[0]), reverse=True):
        if len(train) + len(group) <= train_room or (largest_trains and not train):
            train += group
        elif len(train) + len(val) + len(group) <= train_room + val_room:
            val += group
        else:
            test += group
    first, second, third = (
        torch.tensor(sorted(part), dtype=torch.int64) for part in (train, val, test)
    )
    return Split(first, second, third, protocol)


def split_by_order(
    values: Sequence[float], fractions: tuple[float, float, float], protocol: str
) -> Split:
    """Split items by a value such as a time. The smallest values are for training, and the largest
    for testing.

    Items with equal values are in the same part; a cut within them moves to their nearer end.

    Args:
        values: a number for each item.
        fractions: fractions of train, val and test.
        protocol: the split's name.

    Returns:
        The split, each part in ascending order of the values.

    Raises:
        ValueError: the fractions are invalid.

    >>> split_by_order([2020, 2022, 2021, 2023, 2020], (0.4, 0.4, 0.2), "by year").test
    tensor([3])
    """
    numbers = torch.tensor(values, dtype=torch.float64)
    train, val = cuts(len(numbers), fractions)
    order = numbers.argsort(stable=True)
    _, group, sizes = numbers.unique(return_inverse=True, return_counts=True)
    middle = (sizes.double().cumsum(0) - sizes.double() / 2)[group]
    part = ((middle > train).long() + (middle > train + val))[order]
    train_part, val_part, test_part = (order[part == number] for number in range(3))
    return Split(train_part, val_part, test_part, protocol)


def split_by_names(names: Sequence[str], *, protocol: str = "by name") -> Split:
    """Split items by a column that contains ``train``, ``val`` or ``test`` for each item.

    Args:
        names: the part of each item: ``train`` or ``training``; ``val``, ``valid`` or
            ``validation``; ``test`` or ``testing``, in upper or lower case.
        protocol: the split's name, for example the name of the column.

    Returns:
        The split, each part in ascending order; a part may be empty.

    Raises:
        ValueError: some names are not the name of a part; the message contains their number, the
            first one and its row, counted from 0.

    >>> split_by_names(["train", "Test", "train", "valid"])
    Split(train: 2, val: 1, test: 1; by name)
    """
    parts = [NAMES.get(name.strip().lower(), "") for name in names]
    if wrong := [row for row, part in enumerate(parts) if not part]:
        count, first = f"{len(wrong):,} row{'s' * (len(wrong) > 1)}", names[wrong[0]]
        raise ValueError(
            f"the part of a row must be train, val or test; {count} "
            f"{'have' if len(wrong) > 1 else 'has'} another value; the first is row "
            f"{wrong[0]}: {first!r}"
        )
    rows = {part: [row for row, name in enumerate(parts) if name == part] for part in PARTS}
    train, val, test = (torch.tensor(rows[part], dtype=torch.int64) for part in PARTS)
    return Split(train, val, test, protocol)


def read_positions(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the JSON object in the file of a split, with all its keys.

    The file contains the indices of the items in each part,
    ``{"train": [0, 3], "val": [1], "test": [2]}``, or a list with one such object, which is
    Chemprop's format. An item may be in no part.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not JSON, or has no lists of positions.
    """
    try:
        content = parse_json(Path(path).read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        # This also catches UnicodeDecodeError, a subclass of ValueError.
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict) or not all(isinstance(content.get(p), list) for p in PARTS):
        raise ValueError(f"{path} must contain lists of row indices under train, val and test")
    return content


def split_from_positions(
    positions: Mapping[str, Any], path: str | os.PathLike[str], count: int
) -> Split:
    """Check the indices that :func:`read_positions` returned, and return them as a split, whose
    protocol is the name of the file. Raises ValueError for an index that is out of range, not an
    integer, or listed twice.
    """
    seen: dict[int, str] = {}
    for part in PARTS:
        for position in positions[part]:
            if type(position) is not int or not 0 <= position < count:
                raise ValueError(
                    f"{path}: indices must be whole numbers from 0 to {count - 1}; {part} has "
                    f"{position!r}"
                )
            if position in seen:
                first = seen[position]
                raise ValueError(f"{path}: index {position} is in {first} and in {part}")
            seen[position] = part
    train, val, test = (torch.tensor(positions[part], dtype=torch.int64) for part in PARTS)
    return Split(train, val, test, Path(path).name)


def cuts(count: int, fractions: tuple[float, float, float]) -> tuple[int, int]:
    """Return the sizes of the training and validation parts, rounded to integers. Raises ValueError
    for a negative count, or fractions that do not add up to 1.
    """
    if count < 0:
        raise ValueError(f"count must not be negative; got {count}")
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(f"fractions must be three numbers that add up to 1; got {fractions}")
    train = round(count * fractions[0])
    return train, min(round(count * fractions[1]), count - train)


def ratio(fractions: tuple[float, float, float]) -> str:
    """Format three fractions as a ratio, such as ``"8:1:1"``."""
    return ":".join(f"{10 * fraction:g}" for fraction in fractions)
