"""Which items each step and each process gets."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gattn.training.types import Batches, Input

__all__ = ["mixed_seed", "ordered_loader", "shuffled_loader"]


def shuffled_loader(
    part: Batches, batch_size: int, seed: int, rank: int, world: int
) -> DataLoader[tuple[Input, Tensor]]:
    """One process's share of batches whose order is a function of the seed and the epoch."""
    return _loader(part, Order(len(part), batch_size, seed), rank, world)


def ordered_loader(
    part: Batches, batch_size: int, rank: int, world: int
) -> DataLoader[tuple[Input, Tensor]]:
    """One process's share of batches in the order of the items."""
    return _loader(part, Order(len(part), batch_size, None), rank, world)


def mixed_seed(*numbers: int) -> int:
    """Make one seed of several numbers: other numbers, an unrelated seed."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


class Order(Sampler[Tensor]):
    """The batches of an epoch as positions."""

    def __init__(self, items: int, batch_size: int, seed: int | None) -> None:
        self.items, self.batch_size, self.seed, self.epoch = items, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning says which epoch comes."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.items / self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        # A generator: Lightning makes the first iterator before it says which epoch comes.
        positions = torch.arange(self.items)
        if self.seed is not None:
            generator = torch.Generator().manual_seed(mixed_seed(self.seed, self.epoch))
            positions = torch.randperm(self.items, generator=generator)
        yield from positions.split(self.batch_size)


class Share(Dataset[tuple[Input, Tensor]]):
    """What one process computes of each batch."""

    def __init__(self, part: Batches, rank: int, world: int) -> None:
        self.part, self.rank, self.world = part, rank, world

    def __getitem__(self, positions: Tensor) -> tuple[Input, Tensor]:
        mine = positions[self.rank :: self.world]
        if len(mine):
            return self.part.batch(mine)
        # Fewer items than processes: one item takes part without its labels.
        inputs, target = self.part.batch(positions[:1])
        return inputs, torch.full_like(target, math.nan)


def _loader(part: Batches, order: Order, rank: int, world: int) -> DataLoader[tuple[Input, Tensor]]:
    # A loader draws a seed for its workers, though it has none. With a generator of its own it
    # leaves the numbers that dropout draws as they are.
    own = torch.Generator()
    return DataLoader(Share(part, rank, world), sampler=order, batch_size=None, generator=own)
