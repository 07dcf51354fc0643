"""Computation of model inputs from SMILES: graphs, Morgan counts and descriptors."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor

from gattn.apps.molecules.joined import join_rows
from gattn.apps.molecules.model_inputs import (
    MoleculeInputs,
    PackedView,
    join_pieces,
)
from gattn.apps.molecules.row_format import ONE_MOLECULE, RowFormat
from gattn.apps.runtime.processes import in_order
from gattn.data.molecules.packing import read_packed
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit

T = TypeVar("T")
Item = TypeVar("Item")
Row = TypeVar("Row")
Result = TypeVar("Result")
Inputs = TypeVar("Inputs", bound="MoleculeInputs")
PIECE = 1024
"""Number of SMILES that are sent to a process in one message. Parsing them takes about a second."""

FEW = 8192
"""Below this many SMILES, parse in one process: starting workers takes longer."""


def in_pieces(inputs: Inputs, size: int) -> Iterator[Inputs]:
    """Yield the inputs in chunks of at most ``size`` molecules; empty inputs yield one empty
    chunk.
    """
    if len(inputs) <= size:
        yield inputs
        return
    for begin in range(0, len(inputs), size):
        yield inputs[begin : begin + size]


def distinct_inputs(inputs: Inputs) -> tuple[Inputs, Tensor]:
    """Remove repeated molecules from the inputs, such as two salts of one acid that are
    standardised.

    Dense products of PyTorch may round the rows of a batch differently. If each distinct molecule
    is predicted once, equal molecules have equal predictions.

    Args:
        inputs: k molecules.

    Returns:
        The first of each group of equal molecules, in order, and the index [k] int64 of each
        molecule's group.
    """
    rows = (row for piece in in_pieces(inputs, PIECE) for row in piece.descriptors.numpy())
    keys: list[object] = [hash(row.tobytes()) for row in rows]
    counts = Counter(keys)
    # Few molecules have the same descriptors as another one, and the rest of these is compared.
    alike = [i for i, key in enumerate(keys) if counts[key] > 1]
    contents = (one for piece in in_pieces(inputs[alike], PIECE) for one in _contents(piece))
    for i, content in zip(alike, contents, strict=True):
        keys[i] = content
    first: dict[object, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    number = dict(zip(first, range(len(first))))
    index = torch.tensor([number[key] for key in keys], dtype=torch.int64)
    return inputs[[*first.values()]] if len(first) < len(keys) else inputs, index


def _contents(inputs: MoleculeInputs) -> Iterator[bytes]:
    """Yield a hash of the inputs of each molecule. Its atom pairs are counted from its graph."""
    arrays, sizes = inputs.molecules.arrays, inputs.molecule_sizes
    rows = [inputs.counts, inputs.descriptors, inputs.extra_descriptors]
    rows += [] if sizes is None else [sizes]
    for i in range(len(inputs)):
        content = hashlib.sha256()
        for part in (*arrays.one(i), *(each[i] for each in rows)):
            content.update(repr(part.shape).encode())
            content.update(part.contiguous().numpy().tobytes())
        yield content.digest()


@dataclass(frozen=True, eq=False)
class ParsedSmiles:
    """Result of parsing n SMILES: the indices of the r valid SMILES, and the errors of all other
    SMILES.

    Attributes:
        row_index: [r] int64, the index of each valid SMILES among the n.
        errors: n texts, the reason why a SMILES could not be parsed, or "" if it is valid.
    """

    row_index: Tensor
    errors: list[str]


@dataclass(frozen=True, eq=False)
class Piece(ParsedSmiles, Generic[Item, T]):
    """Chunk of consecutive items, with the result for the items whose SMILES are valid.

    See also :class:`ParsedSmiles`.

    Attributes:
        items: n items, such as rows of a table.
        result: the result for the r readable molecules.
    """

    items: list[Item]
    result: T


@dataclass(frozen=True, eq=False)
class FeaturizedSmiles(ParsedSmiles):
    """Model inputs of the r valid molecules among n SMILES; see also :class:`ParsedSmiles`.

    Attributes:
        inputs: the r molecules, in order.
        canonical: r texts, equal for equal molecules (:func:`gattn.data.molecule_identities`);
            empty if they were not requested.
    """

    inputs: MoleculeInputs
    canonical: list[str]


def featurise(
    smiles: Sequence[str],
    *,
    max_atoms: int = MAX_ATOMS,
    workers: int = 1,
    row_format: RowFormat = ONE_MOLECULE,
    canonical: bool = True,
) -> FeaturizedSmiles:
    """Compute the inputs of a model from SMILES; invalid SMILES are listed with the reason.

    Args:
        smiles: n texts.
        max_atoms: larger molecules are errors.
        workers: number of processes that share the work; the result is the same. Short lists are
            parsed by one process, because starting other processes takes longer.
        row_format: content of a text: one molecule, several, or a reaction.
        canonical: whether to compute the texts that are equal for equal molecules.

    Returns:
        The valid molecules, packed (:class:`gattn.apps.molecules.model_inputs.PackedView`), and the
        reason why each of the others is invalid. An empty list gives empty inputs.

    Raises:
        ValueError: ``max_atoms`` or ``workers`` is below 1, or ``smiles`` is one text instead of a
            list.
        ImportError: RDKit is not installed.

    >>> parsed = featurise(["CCO", "C1CC", "OCC"])
    >>> parsed.row_index.tolist(), parsed.canonical, parsed.errors[1]
    ([0, 2], ['CCO', 'CCO'], 'not valid SMILES; unclosed ring')
    """
    if row_format.joined:
        check_is_list(smiles)
        read = partial(
            featurise, max_atoms=max_atoms, workers=workers, row_format=row_format.part,
            canonical=canonical,
        )  # fmt: skip
        return FeaturizedSmiles(*join_rows(smiles, row_format, read))
    if not isinstance(smiles, str):
        smiles = row_format.prepare(smiles)
    packed = partial(
        read_packed, max_atoms=max_atoms, canonical=canonical, add_h=row_format.add_h,
        standardize=row_format.standardize,
    )  # fmt: skip
    pieces = _process_in_chunks(packed, smiles, lambda text: text, PIECE, max_atoms, workers)
    joined = join_pieces([piece for _, piece in pieces])
    rows = torch.tensor(joined.molecules.rows, dtype=torch.int64)
    return FeaturizedSmiles(rows, joined.errors, PackedView.of(joined), joined.canonical)


def check_is_list(smiles: object) -> None:
    """Raise a ValueError if one text was passed instead of a list of SMILES."""
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of strings; got a single string {smiles!r}")


def make_pieces(
    make: Callable[[MoleculeInputs], T],
    items: Iterable[Item],
    *,
    smiles: Callable[[Item], str] | None = None,
    descriptors: Callable[[Item], Sequence[float]] | None = None,
    columns: int = 0,
    chunk: int = PIECE,
    max_atoms: int = MAX_ATOMS,
    workers: int = 2,
    row_format: RowFormat = ONE_MOLECULE,
) -> Iterator[Piece[Item, T]]:
    """Parse SMILES and compute a result from them in worker processes, chunk by chunk and in order.

    Args:
        make: function that computes the result from the valid molecules of a piece; sent to each
            process once.
        items: consumed lazily; they stay in this process.
        smiles: function that returns the SMILES of an item; by default the items are SMILES.
        descriptors: function that returns the values of an item's descriptor columns, NaN where
            one is missing; None if there are no such columns.
        columns: number of descriptor columns.
        chunk: number of items in a piece.
        max_atoms: larger molecules are errors.
        workers: number of processes; see :func:`featurise`.
        row_format: content of the text of an item: one molecule, several, or a reaction.

    Yields:
        Consecutive items, with the result for those whose SMILES are valid. If there are no items,
        one empty piece, whose result has the usual number of dimensions.

    Raises:
        ValueError: ``chunk``, ``max_atoms`` or ``workers`` is below 1, or a single string was
            passed instead of a list.
        ImportError: RDKit is not installed.

    >>> [(piece.items, piece.result) for piece in make_pieces(len, ["C", "CC", "("], chunk=2)]
    [(['C', 'CC'], 2), (['('], 0)]
    """
    get = cast("Callable[[Item], str]", smiles or (lambda item: item))
    values = descriptors or (lambda item: ())
    work = partial(_make, make=make, max_atoms=max_atoms, columns=columns, row_format=row_format)
    pieces = _process_in_chunks(
        work, items, lambda item: (get(item), values(item)), chunk, max_atoms, workers
    )
    return (
        Piece(parsed.row_index, parsed.errors, some, result) for some, (parsed, result) in pieces
    )


def _make(
    rows: list[tuple[str, Sequence[float]]], *, make: Callable[[MoleculeInputs], T],
    max_atoms: int, columns: int, row_format: RowFormat,
) -> tuple[ParsedSmiles, T]:  # fmt: skip
    texts = [text for text, _ in rows]
    piece = featurise(texts, max_atoms=max_atoms, row_format=row_format, canonical=False)
    inputs = piece.inputs
    if columns:
        values = torch.tensor([list(numbers) for _, numbers in rows], dtype=torch.float64)
        inputs = inputs.described(values.reshape(len(rows), columns)[piece.row_index])
    return ParsedSmiles(piece.row_index, piece.errors), make(inputs)


def _process_in_chunks(
    work: Callable[[list[Row]], Result], items: Iterable[Item], get: Callable[[Item], Row],
    chunk: int, max_atoms: int, workers: int,
) -> Iterator[tuple[list[Item], Result]]:  # fmt: skip
    """Divide the items into chunks, and yield each chunk with the result of ``work`` for it.

    ``get`` returns the value of an item that ``work`` reads: its SMILES, and its descriptors if it
    has any.

    Many items are distributed to several processes. If there are no items, one empty piece is
    yielded, whose result has the usual number of dimensions.
    """
    check_is_list(items)
    for name, value in (("chunk", chunk), ("max_atoms", max_atoms), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    need_rdkit()
    remaining = iter(items)
    pieces = iter(lambda: list(itertools.islice(remaining, chunk)), [])
    first = list(itertools.islice(pieces, -(-FEW // chunk) if workers > 1 else 1)) or [[]]
    several = workers > 1 and sum(map(len, first)) >= FEW
    tasks = ((piece, list(map(get, piece))) for piece in itertools.chain(first, pieces))
    if several:
        return in_order(work, tasks, workers)
    return ((piece, work(texts)) for piece, texts in tasks)
