"""Model inputs of rows that contain several molecules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.row_format import BETWEEN, RowFormat
from gattn.data.molecules.arrays import MoleculeArrays, boundaries
from gattn.data.molecules.dataset import Molecules
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.smiles import parse_any_size

if TYPE_CHECKING:
    from gattn.apps.molecules.inputs import FeaturizedSmiles

ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")
MAPPED = re.compile(r"\[\d*([A-Za-z][a-z]?|\*)[^\]]*:(\d+)\]")
"""Pattern of a bracket atom with an atom map number: its element and the number."""


@dataclass(frozen=True, eq=False)
class ReactionInputs(MoleculeInputs):
    r"""Inputs of a model for k reactions, as condensed graphs of reaction.

    A graph has one
    node for each pair of atoms with the same map number, and one node for every other atom of the
    reactants or products. The features of a node and of an edge are

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
        Graphs with 2 d features of a node and 2 b of an edge.
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
    """Return a key for each edge of one side of the reactions. It is computed from the nodes at
    the edge's ends: [e] int64.
    """
    first = side.ptr[:-1].repeat_interleave(side.edge_ptr.diff())
    source, target = nodes[side.edge_index + first]
    return source * max(count, 1) + target


def _both(reactant: Tensor, product: Tensor, before: Tensor, after: Tensor, count: int) -> Tensor:
    """Return the features of the reactants beside the differences between products and
    reactants: [count, 2 * d].
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
        spare = _hydrogens(graphs[0], len(reactants))
        for parent, hydrogens in sorted(_hydrogens(graphs[1], len(products)).items()):
            for _ in hydrogens:
                pair = spare.get(images[parent], []) if images[parent] < len(reactants) else []
                images.append(pair.pop(0) if pair else node)
                node += images[-1] == node
    return np.array(images, np.int64)


def _hydrogens(graph: MoleculeArrays, atoms: int) -> dict[int, list[int]]:
    """Return the nodes of the hydrogens that were added to each atom, in ascending order."""
    hydrogens: dict[int, list[int]] = {}
    source, target = graph.edge_index
    for hydrogen, parent in sorted(zip(source.tolist(), target.tolist())):
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


PIECE = 1024
"""Number of molecules whose graphs are expanded at once to count their atoms."""


class JoinedRows(NamedTuple):
    """Model inputs of the r valid rows among n rows; see
    :class:`gattn.apps.molecules.inputs.FeaturizedSmiles`.
    """

    row_index: Tensor
    errors: list[str]
    inputs: MoleculeInputs
    canonical: list[str]


@dataclass(frozen=True, eq=False)
class JoinedInputs(MoleculeInputs):
    """Inputs of a model for k rows of c molecules each.

    The graph of a row
    contains all of its molecules, without edges between them. The fingerprints and descriptors of
    the molecules are concatenated.

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
) -> JoinedRows:
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
    return JoinedRows(torch.tensor([*index], dtype=torch.int64), errors, inputs, canonical)


def _split(text: str, row_format: RowFormat) -> list[str] | str:
    """Return the SMILES in the text of a row, or an error message."""
    try:
        return row_format.split(text)
    except ValueError as error:
        return str(error)


def _sizes(inputs: MoleculeInputs) -> Tensor:
    """Return the number of atoms of each of k molecules: [k] int64."""
    pieces = range(0, len(inputs), PIECE)
    counts = [inputs[begin : begin + PIECE].molecules.arrays.ptr.diff() for begin in pieces]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *counts])
