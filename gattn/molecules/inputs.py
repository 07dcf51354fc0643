"""What models of molecules read, made from SMILES: graphs, Morgan counts and descriptors."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from gattn.data.molecules.packing import PackedInputs, read_packed
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit
from gattn.molecules.expanded import ExpandedInputs, MoleculeInputs
from gattn.molecules.packed import InputsView, PackedArrays, decoded, joined
from gattn.molecules.store import fingerprint, locked, read_inputs, write_inputs
from gattn.training.processes import in_order

__all__ = ["Featurised", "MoleculeInputs", "Read", "featurise", "make_pieces", "stream"]

T = TypeVar("T")
Piece = TypeVar("Piece")

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
    smiles: Iterable[str],
    *,
    chunk: int = PIECE,
    max_atoms: int = MAX_ATOMS,
    workers: int = 2,
) -> Iterator[tuple[Read, T]]:
    """Read SMILES and make something of them in the same process, piece by piece and in order.

    Args:
        make: of the readable molecules of a piece; a process is sent it once.
        smiles: texts, taken as they are needed.
        chunk: how many texts make one piece.
        max_atoms: larger molecules are errors.
        workers: how many processes share the work; see :func:`featurise`.

    Yields:
        Which texts of a piece could be read, and what was made of them.

    Raises:
        ValueError: ``chunk``, ``max_atoms`` or ``workers`` below 1.
        ImportError: RDKit is not installed.

    >>> [made for _, made in make_pieces(len, ["C", "CC", "("], chunk=2)]
    [2, 0]
    """
    return _share(partial(_make, make=make, max_atoms=max_atoms), smiles, chunk, max_atoms, workers)


def _make(
    texts: list[str], *, make: Callable[[MoleculeInputs], T], max_atoms: int
) -> tuple[Read, T]:
    found = unpack(read_packed(texts, max_atoms=max_atoms, canonical=False))
    return Read(found.rows, found.errors), make(found.inputs)


def read_pieces(
    smiles: Iterable[str], chunk: int, max_atoms: int, workers: int, canonical: bool
) -> Iterator[PackedInputs]:
    """What :func:`stream` gives, packed."""
    read = partial(read_packed, max_atoms=max_atoms, canonical=canonical)
    return _share(read, smiles, chunk, max_atoms, workers)


def _share(
    work: Callable[[list[str]], Piece],
    smiles: Iterable[str], chunk: int, max_atoms: int, workers: int,
) -> Iterator[Piece]:  # fmt: skip
    """Do the work on every ``chunk`` texts, in several processes where there are many texts.

    No texts are one piece of none, so that what is made of it has its dimensions.
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {smiles!r}")
    for name, value in (("chunk", chunk), ("max_atoms", max_atoms), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    need_rdkit()
    texts = iter(smiles)
    pieces = iter(lambda: list(itertools.islice(texts, chunk)), [])
    first = list(itertools.islice(pieces, -(-FEW // chunk) if workers > 1 else 1)) or [[]]
    shared = workers > 1 and sum(map(len, first)) >= FEW
    pieces = itertools.chain(first, pieces)
    return in_order(work, pieces, workers) if shared else map(work, pieces)


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
