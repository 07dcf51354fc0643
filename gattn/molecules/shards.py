"""Inputs of more molecules than fit into memory: files that are read when they are asked for."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gattn.data.archives import BROKEN, read_archive, write_archive
from gattn.data.molecules import Positions, positions_of
from gattn.data.packing import PackedInputs
from gattn.data.smiles import MAX_ATOMS
from gattn.molecules.inputs import Featurised, MoleculeInputs, read_pieces, unpack
from gattn.molecules.store import read_inputs, write_inputs

__all__ = ["InputShards", "write_shards"]

INDEX = "index.npz"
FORMAT = "gattn shards 1"
HELD = 64
"""How many shards are kept in memory, packed: of 8,192 molecules some 5 MB each."""


class InputShards:
    """Molecules in the files of a folder, taken by position as of ``MoleculeInputs``.

    Batches in random order read from every shard: where there are more than 64, take the positions
    of a few shards at a time.

    Args:
        folder: what :func:`write_shards` wrote.

    Raises:
        FileNotFoundError: no such folder, or one that was not written to its end.
        ValueError: it holds something else.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            header, held = read_archive(self.folder / INDEX)
            if header["format"] != FORMAT:
                raise ValueError(f"its format is {header['format']!r}, not {FORMAT!r}")
            self._made_from, sizes = str(header["made_from"]), held["sizes"].astype(np.int64)
        except BROKEN as error:
            raise ValueError(f"{self.folder} holds no shards, or is broken: {error}") from None
        self._starts = np.concatenate([[0], sizes.cumsum()])
        self._shard = functools.lru_cache(maxsize=HELD)(self._read)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, positions: Positions) -> MoleculeInputs:
        """Take the molecules at these positions (a slice, a list, a tensor or a mask)."""
        where = torch.atleast_1d(torch.as_tensor(positions_of(positions, len(self)))).numpy()
        shards = self._starts.searchsorted(where, side="right") - 1
        order = shards.argsort(kind="stable")
        parts = [
            self._shard(int(shard)).take(where[shards == shard] - self._starts[shard])
            for shard in np.unique(shards)
        ]
        found = unpack(PackedInputs.join(parts)).inputs
        return found[_inverse(torch.from_numpy(order))]

    def pieces(self) -> Iterator[Featurised]:
        """Everything that was read of the texts, shard by shard, with errors and row numbers."""
        return (unpack(self._read(shard)) for shard in range(len(self._starts) - 1))

    def _read(self, shard: int) -> PackedInputs:
        path = _path(self.folder, shard)
        found = read_inputs(path, self._made_from)
        if found is None or len(found.descriptors) != self._starts[shard + 1] - self._starts[shard]:
            raise ValueError(f"{path} is not the shard that belongs there")
        return found


def write_shards(
    folder: str | os.PathLike[str],
    smiles: Iterable[str],
    *,
    per_shard: int = 8192,
    max_atoms: int = MAX_ATOMS,
    workers: int = 1,
    made_from: str = "",
) -> InputShards:
    """Read SMILES into the files of a new folder.

    Args:
        folder: is made; must not exist.
        smiles: texts, taken as they are needed; those that cannot be read are errors of their row.
        per_shard: how many texts a file holds.
        max_atoms: see :func:`gattn.molecules.inputs.featurise`.
        workers: likewise.
        made_from: a name or checksum of the source, which every file then carries.

    Returns:
        The molecules.

    Raises:
        FileExistsError: the folder is there already.
        ValueError: ``per_shard``, ``max_atoms`` or ``workers`` below 1.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "shards"
    >>> shards = write_shards(folder, ["C", "CC", "(", "CCC"], per_shard=2)
    >>> len(shards), shards[[2, 0]].molecules.smiles
    (3, ['CCC', 'C'])
    """
    pieces = read_pieces(smiles, per_shard, max_atoms, workers, True)
    folder = Path(folder)
    folder.mkdir(parents=True)
    sizes = []
    for shard, piece in enumerate(pieces):
        write_inputs(_path(folder, shard), piece, made_from)
        sizes.append(len(piece.descriptors))
    header = {"format": FORMAT, "made_from": made_from}
    write_archive(folder / INDEX, header, {"sizes": np.array(sizes, np.int64)})
    return InputShards(folder)


def _path(folder: Path, shard: int) -> Path:
    return folder / f"{shard:06}.npz"


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).index_put_((order,), torch.arange(len(order)))
