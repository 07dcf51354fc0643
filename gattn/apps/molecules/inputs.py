"""Computation of model inputs from SMILES: graphs, Morgan counts and descriptors."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.model_inputs import MoleculeInputs, PackedView, join_pieces
from gattn.apps.molecules.row_format import BETWEEN, ONE_MOLECULE, RowFormat
from gattn.apps.runtime.processes import in_order
from gattn.data.molecules.arrays import MoleculeArrays, boundaries
from gattn.data.molecules.dataset import Molecules
from gattn.data.molecules.packing import read_packed
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.smiles import MAX_ATOMS, need_rdkit, parse_any_size

ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")
MAPPED = re.compile(r"\[\d*([A-Za-z][a-z]?|\*)[^\]]*:(\d+)\]")
"""Pattern of a bracket atom with an atom map number: its element and the number."""


@dataclass(frozen=True, eq=False)
class ReactionInputs(MoleculeInputs):
    r"""Inputs of a model for k reactions, as condensed graphs of reaction.

    A graph has one node for each pair of atoms with the same map number, and one node for every
    other atom of the reactants or products. The features of a node and of an edge are

    .. math:: r \,\Vert\, (p - r)

    where r and p are its features in the reactants and in the products, zeros on a side where the
    atom or the bond does not exist.

    The fingerprint contains the counts of the reactants, the increase of each count from the
    reactants to the products, and the decrease of each count. The descriptors are those of the
    reactants, and the differences between the products and the reactants.

    Attributes:
        base: the different sides of all reactions.
        index: [k, 2] int64, the reactants and the products of each reaction.
        images: for each reaction the node of each atom of the products, [n] int64.

    Reference: Hoonakker et al., "Condensed graph of reaction: considering a chemical reaction as
    one single pseudo molecule" (Int. J. Artif. Intell. Tools 2011); Heid and Green, "Machine
    learning of reaction properties via learned representations of the condensed graph of reaction"
    (J. Chem. Inf. Model. 2022), mode "reac_diff".
    """

    base: MoleculeInputs
    index: Tensor
    images: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.index)

    def _take(self, index: Tensor) -> ReactionInputs:
        images = [self.images[i] for i in index.tolist()]
        return ReactionInputs(self.base, self.index[index], images)

    @property
    def molecules(self) -> Molecules:
        """Condensed graphs of the k reactions."""
        reactants, products = (self.base[side].molecules for side in self.index.t())
        images = torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *self.images]))
        smiles = [f"{r}>>{p}" for r, p in zip(reactants.smiles, products.smiles)]
        arrays = condensed(reactants.arrays, products.arrays, images)
        return Molecules(smiles, arrays, torch.empty(len(self), 0), (), tuple(range(len(self))))

    @property
    def counts(self) -> Tensor:
        """Counts of the reactants' environments, increases from the reactants to the products,
        and decreases: [k, 6144] uint8.
        """
        return _changes(*(self.base[side].counts for side in self.index.t()))

    @property
    def pairs(self) -> Tensor:
        """Counts of the reactants' atom pairs, increases and decreases: [k, 6144] uint8."""
        return _changes(*(self.base[side].pairs for side in self.index.t()))

    @property
    def descriptors(self) -> Tensor:
        """Descriptors of the reactants, and the differences between products and reactants: [k,
        2 * d] float32.
        """
        reactants, products = (self.base[side].descriptors for side in self.index.t())
        return torch.cat([reactants, products - reactants], 1)


def _changes(reactants: Tensor, products: Tensor) -> Tensor:
    """Return the counts [k, d] of the reactants, the increases and the decreases: [k, 3 d]."""
    change = products.short() - reactants.short()
    gained, lost = (each.clamp(min=0).to(torch.uint8) for each in (change, -change))
    return torch.cat([reactants, gained, lost], 1)


def condensed(
    reactants: MoleculeArrays, products: MoleculeArrays, images: Tensor
) -> MoleculeArrays:
    """Return the condensed graphs of k reactions; see :class:`ReactionInputs`.

    Args:
        reactants: graphs of the k left sides, with d features of an atom and b of a bond.
        products: graphs of the k right sides.
        images: [m] int64, the node of each atom of the products, within its reaction. The atoms of
            the reactants are the first nodes.

    Returns:
        Graphs with 2 d features of a node and 2 b of an edge. The edges of each graph are ordered
        by source, then by destination.
    """
    atoms, others = reactants.ptr.diff(), products.ptr.diff()
    owner = torch.arange(len(others)).repeat_interleave(others)
    new = (images >= atoms[owner]).long()
    sizes = atoms + torch.zeros_like(atoms).index_add_(0, owner, new)
    ptr = boundaries(sizes)
    before = torch.arange(len(reactants.x)) + (ptr - reactants.ptr)[:-1].repeat_interleave(atoms)
    after = images + ptr[:-1].repeat_interleave(others)
    x = _both(reactants.x, products.x, before, after, int(ptr[-1]))
    keys = [
        _edge_keys(side, nodes, int(ptr[-1]))
        for side, nodes in ((reactants, before), (products, after))
    ]
    edges, place = torch.cat(keys).unique(return_inverse=True)
    first, second = place.split([len(some) for some in keys])
    edge_attr = _both(reactants.edge_attr, products.edge_attr, first, second, len(edges))
    count = max(int(ptr[-1]), 1)
    ends = torch.stack([edges // count, edges % count])
    row = torch.arange(len(sizes)).repeat_interleave(sizes)[ends[0]]
    edge_ptr = boundaries(torch.bincount(row, minlength=len(sizes)))
    return MoleculeArrays(x, ends - ptr[row], edge_attr, ptr, edge_ptr)


def _edge_keys(side: MoleculeArrays, nodes: Tensor, count: int) -> Tensor:
    """Return a key for each edge of one side of the reactions, computed from the nodes at its ends:
    [e] int64. ``nodes`` has the node of each atom of this side, numbered over all ``count`` nodes
    of the condensed graphs.
    """
    first = side.ptr[:-1].repeat_interleave(side.edge_ptr.diff())
    source, target = nodes[side.edge_index + first]
    return source * max(count, 1) + target


def _both(reactant: Tensor, product: Tensor, before: Tensor, after: Tensor, count: int) -> Tensor:
    """Return the features of the reactants beside the differences between products and reactants:
    [count, 2 * d]. ``before`` and ``after`` are the rows of the result for reactants and products;
    a row without one of them has zeros for it.
    """
    width = reactant.shape[1]
    rows = torch.zeros(count, 2 * width)
    rows[before, :width] = reactant
    rows[after, width:] = product
    rows[before, width:] -= reactant
    return rows


def align_sides(
    sides: Sequence[str], inputs: MoleculeInputs, index: Sequence[int], add_h: bool
) -> np.ndarray:
    """Return for each atom of the products its node in the condensed graph: [n] int64.

    An atom of the products has the node of the atom of the reactants with its map number. Atoms
    without a map number, or with a number that is on one side only, have a separate node. The
    hydrogens that ``add_h`` added are paired in order if their neighbours are paired.

    Args:
        sides: the SMILES of the reactants and of the products.
        inputs: parsed molecules.
        index: the indices of the two sides among the parsed molecules.
        add_h: whether the graphs have hydrogens.

    Raises:
        ValueError: a map number is used twice on one side or for different elements, or no atom is
            on both sides.
    """
    reactants, products = map(mapped_atoms, sides)
    atoms: dict[int, int] = {}
    for name, side in (("reactants", reactants), ("products", products)):
        numbers = [number for _, number in side if number]
        if len(set(numbers)) < len(numbers):
            twice = next(number for number in numbers if numbers.count(number) > 1)
            raise ValueError(f"atom map number {twice} is used twice in the {name}")
    atoms = {number: i for i, (_, number) in enumerate(reactants) if number}
    common = [(element, number) for element, number in products if number in atoms]
    if not common:
        raise ValueError(
            "no atom has the same map number in the reactants and in the products: map the atoms "
            "of the reaction first, such as [CH3:1][Br:2]>>[CH3:1][OH:3]"
        )
    for element, number in common:
        other = reactants[atoms[number]][0]
        if other != element:
            raise ValueError(
                f"atom map number {number} is {other} in the reactants, but {element} in the "
                "products"
            )
    graphs = [inputs[[i]].molecules.arrays for i in index] if add_h else []
    node = len(graphs[0].x) if graphs else len(reactants)
    images = []
    for _, number in products:
        images.append(atoms.get(number, node))
        node += number not in atoms
    if graphs:
        bonds = [graph.edge_index.t()[::2].tolist() for graph in graphs]
        spare = added_hydrogens(bonds[0], len(reactants))
        for parent, hydrogens in added_hydrogens(bonds[1], len(products)).items():
            for _ in hydrogens:
                pair = spare.get(images[parent], []) if images[parent] < len(reactants) else []
                images.append(pair.pop(0) if pair else node)
                node += images[-1] == node
    return np.array(images, np.int64)


def added_hydrogens(bonds: Iterable[Sequence[int]], atoms: int) -> dict[int, list[int]]:
    """Return the nodes of the hydrogens that were added to each atom, both in ascending order.

    Args:
        bonds: the two nodes of each bond of a graph with added hydrogens.
        atoms: number of the other nodes, which are the first.

    >>> added_hydrogens([(0, 1), (2, 0), (1, 3), (0, 4)], 2)
    {0: [2, 4], 1: [3]}
    """
    hydrogens: dict[int, list[int]] = {}
    for parent, hydrogen in sorted(sorted(bond) for bond in bonds):
        if hydrogen >= atoms:
            hydrogens.setdefault(parent, []).append(hydrogen)
    return hydrogens


def mapped_atoms(smiles: str) -> list[tuple[str, int]]:
    """Return the element and the atom map number of each atom that a model reads.

    Args:
        smiles: a valid SMILES. Hydrogens that it writes as atoms are left out, because models read
            them as hydrogens of their neighbours.

    Returns:
        A pair for each atom, in order; the element is "" and the number 0 for an atom without a
        map number.

    Raises:
        ValueError: RDKit cannot read the SMILES.

    >>> mapped_atoms("[CH3:2]O[cH:1]"), mapped_atoms("[H:1][O:2]C")
    ([('C', 2), ('', 0), ('C', 1)], [('O', 2), ('', 0)])
    """
    tokens = ATOM.findall(smiles)
    matches = [MAPPED.fullmatch(token) for token in tokens]
    pairs = [(m[1].capitalize(), int(m[2])) if m and int(m[2]) else ("", 0) for m in matches]
    if "[H" not in smiles and not re.search(r"\[\d+H", smiles):
        return pairs
    count = plain(parse_any_size(smiles), smiles).GetNumAtoms()
    return [pairs[place] for place in written_places(smiles, count)]


@dataclass(frozen=True, eq=False)
class JoinedInputs(MoleculeInputs):
    """Inputs of a model for k rows of c molecules each.

    The graph of a row contains all of its molecules, without edges between them. The fingerprints
    and descriptors of the molecules are concatenated.

    Attributes:
        base: the different molecules of all rows.
        index: [k, c] int64, the molecules of each row.
        sizes: [k, c] int64, the number of atoms of each molecule.
    """

    base: MoleculeInputs
    index: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def _take(self, index: Tensor) -> JoinedInputs:
        return JoinedInputs(self.base, self.index[index], self.sizes[index])

    @property
    def molecules(self) -> Molecules:
        """Graphs of the k rows; each graph contains the c molecules of its row."""
        parts = self.base[self.index.flatten()].molecules
        count, arrays = self.index.shape[1], parts.arrays
        sizes = self.sizes
        # Number of nodes of the same row that precede each molecule.
        first = (sizes.cumsum(1) - sizes).flatten()
        edges = arrays.edge_index + first.repeat_interleave(arrays.edge_ptr.diff())
        joined = MoleculeArrays(
            arrays.x, edges, arrays.edge_attr, arrays.ptr[::count], arrays.edge_ptr[::count]
        )
        texts = parts.smiles
        smiles = [BETWEEN.join(texts[i : i + count]) for i in range(0, len(texts), count)]
        return Molecules(smiles, joined, torch.empty(len(self), 0), (), tuple(range(len(self))))

    @property
    def molecule_sizes(self) -> Tensor:
        """Number of atoms of each molecule, [k, c] int64."""
        return self.sizes

    @property
    def counts(self) -> Tensor:
        """Counts of Morgan environments, [k, c * 2048] uint8."""
        return self._joined(self.base[self.index.flatten()].counts)

    @property
    def pairs(self) -> Tensor:
        """Counts of atom pairs within the molecules, [k, c * 2048] uint8."""
        return self._joined(self.base[self.index.flatten()].pairs)

    @property
    def descriptors(self) -> Tensor:
        """Descriptors, [k, c * d] float32."""
        return self._joined(self.base[self.index.flatten()].descriptors)

    def _joined(self, values: Tensor) -> Tensor:
        return values.unflatten(0, self.index.shape).flatten(1)


def join_rows(
    texts: Sequence[str], row_format: RowFormat, read: Callable[[list[str]], FeaturizedSmiles]
) -> FeaturizedSmiles:
    """Compute the inputs of rows with several molecules, or of reactions.

    Each different SMILES is parsed once, because a solvent occurs in many rows.

    Args:
        texts: the texts of n rows.
        row_format: format of the rows.
        read: parses SMILES of single molecules.

    Returns:
        The valid rows, and the reason why each of the others is invalid.
    """
    splits = [_split(text, row_format) for text in texts]
    errors = [part if isinstance(part, str) else "" for part in splits]
    rows = {number: part for number, part in enumerate(splits) if not isinstance(part, str)}
    distinct = list(dict.fromkeys(itertools.chain(*rows.values())))
    parsed, names = read(distinct), row_format.names()
    reasons = dict(zip(distinct, parsed.errors))
    place = {distinct[row]: i for i, row in enumerate(parsed.row_index.tolist())}
    index: dict[int, list[int]] = {}
    images: list[np.ndarray] = []
    for number, parts in rows.items():
        bad = [f"{name}: {reasons[text]}" for name, text in zip(names, parts) if text not in place]
        errors[number] = "; ".join(bad)
        if bad:
            continue
        molecules = [place[text] for text in parts]
        if row_format.reaction:
            try:
                images.append(align_sides(parts, parsed.inputs, molecules, row_format.add_h))
            except ValueError as error:
                errors[number] = str(error)
                continue
        index[number] = molecules
    table = torch.tensor([*index.values()], dtype=torch.int64).reshape(len(index), len(names))
    if row_format.reaction:
        inputs: MoleculeInputs = ReactionInputs(parsed.inputs, table, images)
    else:
        inputs = JoinedInputs(parsed.inputs, table, _sizes(parsed.inputs)[table])
    canonical: list[str] = []
    if parsed.canonical:
        texts_of = ([parsed.canonical[i] for i in some] for some in index.values())
        canonical = list(map(row_format.canonical, texts_of))
    return FeaturizedSmiles(torch.tensor([*index], dtype=torch.int64), errors, inputs, canonical)


def _split(text: str, row_format: RowFormat) -> list[str] | str:
    """Return the SMILES in the text of a row, or an error message."""
    try:
        return row_format.split(text)
    except ValueError as error:
        return str(error)


def _sizes(inputs: MoleculeInputs) -> Tensor:
    """Return the number of atoms of each of k molecules: [k] int64."""
    return torch.cat([some.molecules.arrays.ptr.diff() for some in in_pieces(inputs)])


T = TypeVar("T")
Item = TypeVar("Item")
Row = TypeVar("Row")
Result = TypeVar("Result")
Inputs = TypeVar("Inputs", bound="MoleculeInputs")
PIECE = 1024
"""Number of SMILES that are sent to a process in one message, and of molecules whose inputs are
read at once to limit the memory. Parsing them takes about a second.
"""

FEW = 8192
"""Below this many SMILES, parse in one process: starting workers takes longer."""


def in_pieces(inputs: Inputs, size: int = PIECE) -> Iterator[Inputs]:
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
    rows = (row for piece in in_pieces(inputs) for row in piece.descriptors.numpy())
    keys: list[object] = [hash(row.tobytes()) for row in rows]
    counts = Counter(keys)
    # Few molecules have the same descriptors as another one, and the rest of these is compared.
    alike = [i for i, key in enumerate(keys) if counts[key] > 1]
    contents = (one for piece in in_pieces(inputs[alike]) for one in _contents(piece))
    for i, content in zip(alike, contents, strict=True):
        keys[i] = content
    first: dict[object, int] = {}
    for i, key in enumerate(keys):
        first.setdefault(key, i)
    number = dict(zip(first, range(len(first))))
    index = torch.tensor([number[key] for key in keys], dtype=torch.int64)
    return inputs[[*first.values()]] if len(first) < len(keys) else inputs, index


def _contents(inputs: MoleculeInputs) -> Iterator[bytes]:
    """Yield the SHA-256 of the inputs of each molecule, in order: graph, counts and numbers. Its
    atom pairs need no part of it, because they are counted from its graph.
    """
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
        return join_rows(smiles, row_format, read)
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
    read: Callable[[Item], tuple[str, Sequence[float]]] | None = None,
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
        read: function that returns the SMILES of an item, and the values of its descriptor columns,
            NaN where one is missing; by default the items are SMILES without descriptors.
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
        RuntimeError: a worker process was killed. Errors of ``make`` are raised, too.

    >>> [(piece.items, piece.result) for piece in make_pieces(len, ["C", "CC", "("], chunk=2)]
    [(['C', 'CC'], 2), (['('], 0)]
    """
    get = read or (lambda item: (cast(str, item), ()))
    work = partial(_make, make=make, max_atoms=max_atoms, columns=columns, row_format=row_format)
    pieces = _process_in_chunks(work, items, get, chunk, max_atoms, workers)
    return (
        Piece(parsed.row_index, parsed.errors, some, result) for some, (parsed, result) in pieces
    )


def _make(
    rows: list[tuple[str, Sequence[float]]], *, make: Callable[[MoleculeInputs], T],
    max_atoms: int, columns: int, row_format: RowFormat,
) -> tuple[ParsedSmiles, T]:  # fmt: skip
    """Featurise rows of SMILES and numbers; return their indices and errors, and the result of
    ``make`` for the valid rows. Each row has ``columns`` numbers.
    """
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
    yielded, whose result has the usual number of dimensions. Raises ValueError if the items are one
    text, or for a chunk, a number of atoms or of workers below 1, and ImportError without RDKit.
    The iterator raises the errors of ``work``, and RuntimeError if a process was killed.
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
