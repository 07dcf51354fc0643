"""Splits of a data set into training, validation and test parts, each with a protocol's name.

A score means something only together with the protocol it was measured under: print
``split.protocol`` beside it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Sized
from dataclasses import dataclass

import torch
from torch import Tensor

from gattn.data.molecules import Molecules, smiles_of
from gattn.data.smiles import need_rdkit

__all__ = ["Split", "random_split", "scaffold_split"]

EIGHT_ONE_ONE = (0.8, 0.1, 0.1)


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Positions of the three parts, int64 and without overlap, and the protocol's name."""

    train: Tensor
    val: Tensor
    test: Tensor
    protocol: str

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{part}: {len(getattr(self, part))}" for part in ("train", "val", "test")
        )
        return f"Split({sizes}; {self.protocol})"


def random_split(
    items: int | Sized, *, seed: int, fractions: tuple[float, float, float] = EIGHT_ONE_ONE
) -> Split:
    """Split at random: a permutation seeded with ``seed``, cut in the order train, val, test.

    Protocol "random 8:1:1 (seed 0)". The same number of items, ``seed`` and ``fractions`` give
    the same split everywhere; torch's global generator is neither read nor moved.

    Args:
        items: what is split (``Molecules``, a list), or how many items there are.
        seed: any whole number from 0.
        fractions: of train, val and test, adding up to 1. The first two parts are rounded to
            whole items, and the test part is the rest.

    Returns:
        The split; a part may be empty where there are few items.

    Raises:
        ValueError: a negative count, or fractions that are no fractions.

    >>> random_split(10, seed=0)
    Split(train: 8, val: 1, test: 1; random 8:1:1 (seed 0))
    """
    count = items if isinstance(items, int) else len(items)
    train, val = _cuts(count, fractions)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    protocol = f"random {_ratio(fractions)} (seed {seed})"
    return Split(order[:train], order[train : train + val], order[train + val :], protocol)


def scaffold_split(
    molecules: Sequence[str] | Molecules, *, fractions: tuple[float, float, float] = EIGHT_ONE_ONE
) -> Split:
    """Split so that no Bemis-Murcko scaffold is in two parts; nothing is drawn at random.

    Protocol "scaffold 8:1:1". Molecules are grouped by scaffold (ring systems and the chains
    between them, without stereo; molecules without a ring form one group). Groups are taken from
    the largest to the smallest, equal ones in order of their first molecule, and each goes whole
    into the training part while that has room, else into validation while that has, else into
    test. So the test part holds the rare scaffolds: scores are worse than on a random split, and
    not comparable with it.

    Args:
        molecules: what was read, or SMILES.
        fractions: of train, val and test, adding up to 1; the most that the first two may hold.

    Returns:
        The split, each part in ascending order.

    Raises:
        ValueError: a SMILES that RDKit cannot read, or fractions that are no fractions.
        ImportError: RDKit is not installed.

    Reference: Bemis and Murcko, The Properties of Known Drugs. 1. Molecular Frameworks, J. Med.
    Chem. 1996 (doi 10.1021/jm9602928).

    >>> four = ["c1ccccc1", "Cc1ccccc1", "C1CC1", "CC"]
    >>> split = scaffold_split(four, fractions=(0.5, 0.25, 0.25))
    >>> split.train.tolist(), split.val.tolist(), split.test.tolist()
    ([0, 1], [2], [3])
    """
    smiles = smiles_of(molecules)
    train_room, val_room = _cuts(len(smiles), fractions)
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for i, text in enumerate(smiles):
        groups[murcko_scaffold(text)].append(i)
    train: list[int] = []
    val: list[int] = []
    test: list[int] = []
    for group in sorted(groups.values(), key=lambda group: (-len(group), group[0])):
        if len(train) + len(group) <= train_room:
            train += group
        elif len(val) + len(group) <= val_room:
            val += group
        else:
            test += group
    return Split(_tensor(train), _tensor(val), _tensor(test), f"scaffold {_ratio(fractions)}")


def murcko_scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold of a molecule as canonical SMILES, empty without a ring.

    >>> murcko_scaffold("CCc1ccccc1")
    'c1ccccc1'
    """
    need_rdkit()
    from rdkit import Chem, rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None:
            raise ValueError(f"RDKit cannot read the SMILES {smiles!r}")
        return MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)


def _tensor(part: list[int]) -> Tensor:
    return torch.tensor(sorted(part), dtype=torch.int64)


def _cuts(count: int, fractions: tuple[float, float, float]) -> tuple[int, int]:
    if count < 0:
        raise ValueError(f"count must not be negative; got {count}")
    if len(fractions) != 3 or min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(f"fractions must be three shares that add up to 1; got {fractions}")
    train = round(count * fractions[0])
    return train, min(round(count * fractions[1]), count - train)


def _ratio(fractions: tuple[float, float, float]) -> str:
    return ":".join(f"{10 * fraction:g}" for fraction in fractions)
