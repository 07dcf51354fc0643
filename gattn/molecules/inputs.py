"""What models of molecules read, made from SMILES: graphs, Morgan counts and descriptors."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from gattn.data.packing import PackedInputs, read_packed
from gattn.data.smiles import MAX_ATOMS, need_rdkit
from gattn.molecules.expanded import ExpandedInputs, MoleculeInputs
from gattn.molecules.packed import InputsView, PackedArrays, decoded, joined
from gattn.molecules.store import fingerprint, locked, read_inputs, write_inputs
from gattn.training.processes import in_order

__all__ = ["Featurised", "MoleculeInputs", "Piece", "Read", "featurise", "make_pieces", "stream"]

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

PIECE = 1024
"""How many texts a process is given at once: a second of work, and little memory."""

FEW = 8192
"""As many texts one process has read before others have started."""


@dataclass(frozen=True, eq=False)
class Read:
    """Which of n texts could be read: r of them.

    Attributes:
        rows: [r] int64, the place of each among the n.
        errors: n texts, why a text could not be read, and "" where it could.
    """

    rows: Tensor
    errors: list[str]


@dataclass(frozen=True, eq=False)
class Piece(Read, Generic[Item, T]):
    """Consecutive items, and the result for those whose SMILES could be read; see :class:`Read`.

    Attributes:
        items: n items, as a row of a table each.
        result: of the r readable molecules.
    """

    items: list[Item]
    result: T


@dataclass(frozen=True, eq=False)
class Featurised(Read):
    """What came of n texts, r of which could be read; see also :class:`Read`.

    Attributes:
        inputs: the r molecules, in order.
        canonical: r texts, equal for equal molecules (:func:`gattn.data.molecule_identities`);
            none where they were not asked for.
    """

    inputs: MoleculeInputs
    canonical: list[str]


def featurise(
    smiles: Sequence[str],
    *,
    max_atoms: int = MAX_ATOMS,
    workers: int = 1,
    cache: str | os.PathLike[str] | None = None,
) -> Featurised:
    """Make a model's inputs from SMILES; one that cannot be read costs its own row.

    Args:
        smiles: n texts.
        max_atoms: larger molecules are errors.
        workers: how many processes share the work; the result is the same. A list that one
            process has read sooner than others start is not shared.
        cache: a file to keep what came of the texts in. It is read where it was made from the
            same texts by the same RDKit and the same features, and made anew where it was not.
            It is written as the texts are read, and mapped: molecules that are more than memory
            holds have to have one.

    Returns:
        The molecules that could be read, packed (:class:`gattn.molecules.packed.InputsView`), and
        why the others could not; no texts give none.

    Raises:
        ValueError: ``max_atoms`` or ``workers`` below 1, one text in place of a list, or a
            ``cache`` that holds something else, which is left alone.
        ImportError: RDKit is not installed.
        OSError: the cache cannot be written.

    >>> found = featurise(["CCO", "C1CC", "OCC"])
    >>> found.rows.tolist(), found.canonical, found.errors[1]
    ([0, 2], ['CCO', 'CCO'], 'not valid SMILES; unclosed ring')
    """
    pieces = read_pieces(smiles, PIECE, max_atoms, workers, canonical=True)
    if cache is None:
        return _featurised(joined(pieces))
    made_from = fingerprint(smiles, max_atoms)
    with locked(cache):
        found = read_inputs(cache, made_from) if Path(cache).exists() else None
        if found is None:
            write_inputs(cache, pieces, made_from)
            found = read_inputs(cache, made_from)
    assert found is not None
    return _featurised(found)


def stream(
    smiles: Iterable[str],
    *,
    chunk: int = PIECE,
    max_atoms: int = MAX_ATOMS,
    workers: int = 2,
    canonical: bool = True,
) -> Iterator[Featurised]:
    """Make a model's inputs piece by piece, in order, whatever the number of texts.

    Args:
        smiles: texts, taken as they are needed.
        chunk: how many texts make one piece.
        max_atoms: larger molecules are errors.
        workers: how many processes share the work; see :func:`featurise`. They read at most
            ``8 * workers`` pieces ahead.
        canonical: whether to write the identities of the molecules, a tenth of the work.

    Yields:
        What came of every ``chunk`` texts; ``rows`` counts within the piece.

    Raises:
        ValueError: ``chunk``, ``max_atoms`` or ``workers`` below 1.
        ImportError: RDKit is not installed.

    >>> [len(piece.inputs) for piece in stream(["C", "CC", "CCC"], chunk=2)]
    [2, 1]
    """
    pieces = read_pieces(smiles, chunk, max_atoms, workers, canonical)
    return (unpack(piece) for piece in pieces)


def make_pieces(
    make: Callable[[MoleculeInputs], T],
    items: Iterable[Item],
    *,
    smiles: Callable[[Item], str] | None = None,
    chunk: int = PIECE,
    max_atoms: int = MAX_ATOMS,
    workers: int = 2,
) -> Iterator[Piece[Item, T]]:
    """Parse SMILES and compute something from them in the same process, piece by piece, in order.

    Args:
        make: computes the result from the readable molecules of a piece; sent to a process once.
        items: read as they are needed; they stay in this process.
        smiles: gives the SMILES of an item; by default the items are SMILES.
        chunk: number of items in a piece.
        max_atoms: larger molecules are errors.
        workers: number of processes; see :func:`featurise`.

    Yields:
        Consecutive items with the result for those that are readable molecules. No items give one
        empty piece, whose result has the shape of the others.

    Raises:
        ValueError: ``chunk``, ``max_atoms`` or ``workers`` below 1, one text in place of a list.
        ImportError: RDKit is not installed.

    >>> [(piece.items, piece.result) for piece in make_pieces(len, ["C", "CC", "("], chunk=2)]
    [(['C', 'CC'], 2), (['('], 0)]
    """
    work = partial(_make, make=make, max_atoms=max_atoms)
    pieces = _share(work, items, smiles, chunk, max_atoms, workers)
    return (Piece(read.rows, read.errors, some, result) for some, (read, result) in pieces)


def _make(
    texts: list[str], *, make: Callable[[MoleculeInputs], T], max_atoms: int
) -> tuple[Read, T]:
    parsed = unpack(read_packed(texts, max_atoms=max_atoms, canonical=False))
    return Read(parsed.rows, parsed.errors), make(parsed.inputs)


def read_pieces(
    smiles: Iterable[str], chunk: int, max_atoms: int, workers: int, canonical: bool
) -> Iterator[PackedInputs]:
    """Yield the pieces of :func:`stream`, packed."""
    read = partial(read_packed, max_atoms=max_atoms, canonical=canonical)
    return (packed for _, packed in _share(read, smiles, None, chunk, max_atoms, workers))


def _share(
    work: Callable[[list[str]], Result],
    items: Iterable[Item], smiles: Callable[[Item], str] | None,
    chunk: int, max_atoms: int, workers: int,
) -> Iterator[tuple[list[Item], Result]]:  # fmt: skip
    """Do the work on the SMILES of every ``chunk`` items, in several processes for many items.

    No items are one piece of none, so that its result has the dimensions of the others.
    """
    if isinstance(items, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {items!r}")
    for name, value in (("chunk", chunk), ("max_atoms", max_atoms), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    need_rdkit()
    remaining = iter(items)
    pieces = iter(lambda: list(itertools.islice(remaining, chunk)), [])
    first = list(itertools.islice(pieces, -(-FEW // chunk) if workers > 1 else 1)) or [[]]
    several = workers > 1 and sum(map(len, first)) >= FEW
    get = cast("Callable[[Item], str]", smiles or (lambda item: item))
    tasks = ((piece, list(map(get, piece))) for piece in itertools.chain(first, pieces))
    if several:
        return in_order(work, tasks, workers)
    return ((piece, work(texts)) for piece, texts in tasks)


def unpack(packed: PackedInputs) -> Featurised:
    """One piece as models read it."""
    inputs = ExpandedInputs(
        packed.molecules.unpack(), packed.counts.unpack(), torch.from_numpy(packed.descriptors)
    )
    rows = torch.tensor(packed.molecules.rows, dtype=torch.int64)
    return Featurised(rows, packed.errors, inputs, packed.canonical)


def _featurised(arrays: PackedArrays) -> Featurised:
    """All of packed arrays, their texts read."""
    everything = np.arange(len(arrays.rows))
    errors = decoded(arrays.errors, arrays.errors_ptr, np.arange(len(arrays.errors_ptr) - 1))
    canonical = decoded(arrays.canonical, arrays.canonical_ptr, everything)
    rows = torch.tensor(arrays.rows)
    return Featurised(rows, errors, InputsView(arrays, everything), canonical)
