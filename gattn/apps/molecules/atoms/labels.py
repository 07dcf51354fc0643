"""Labels of atoms and bonds: lists of values in the order of a SMILES, and nodes of its graph."""

from __future__ import annotations

import ast
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import added_hydrogens
from gattn.apps.tables.numbers import is_missing
from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.plain import plain, written_places
from gattn.data.molecules.smiles import parse_any_size
from gattn.data.molecules.smiles_text import strip_blanks, without_maps

Item: TypeAlias = "float | int | str | None"
"""Value of an atom or bond: a number, a class, a limit such as ``"<1"``, or None if it is missing.
"""

NAN = re.compile(r"\b[nN]a[nN]\b")
BARE = re.compile(r"\[([^\[\]()'\"]+)\]")
"""Pattern of a list as NumPy prints it."""


class ListLabels(NamedTuple):
    """Labels of the atoms or bonds of n rows, one after another.

    Attributes:
        values: r labels of t targets.
        owners: [r] int64, ascending, the row of each label.
        problems: for each row the reason why its lists cannot be used, or "".
    """

    values: list[tuple[Item, ...]]
    owners: np.ndarray
    problems: list[str]


def read_lists(rows: Sequence[Sequence[object]], names: Sequence[str]) -> ListLabels:
    """Read the lists of t targets of n rows.

    Args:
        rows: for each row a cell for each target.
        names: names of the targets.

    Returns:
        The values of all rows, [m] tuples of t items; the row of each; and for each row the reason
        why its lists cannot be read, or "". Such a row has no values.

    >>> read_lists([["[1, null]", "[3, 4]"], ["[5]", ""]], ["a", "b"]).values
    [(1, 3), (None, 4), (5, None)]
    """
    values: list[tuple[Item, ...]] = []
    owners: list[int] = []
    problems: list[str] = []
    for row, cells in enumerate(rows):
        try:
            lists = _lists(cells, names)
        except ValueError as error:
            problems.append(str(error))
            continue
        problems.append("")
        values += zip(*lists)
        owners += [row] * max(map(len, lists))
    return ListLabels(values, np.array(owners, np.int64), problems)


def _lists(cells: Sequence[object], names: Sequence[str]) -> list[list[Item]]:
    """Return the lists of a row, one for each column; ``names`` are those of the columns. A missing
    list is filled with missing values. Raises ValueError for a cell that is no list, and for lists
    of different lengths.
    """
    lists: list[list[Item] | None] = []
    try:
        lists.extend(map(read_list, cells))
    except ValueError as error:
        raise ValueError(f"{names[len(lists)]}: {error}") from None
    sizes = {name: len(values) for name, values in zip(names, lists) if values is not None}
    if len({*sizes.values()}) > 1:
        shown = ", ".join(f"{size} values of {name}" for name, size in sizes.items())
        raise ValueError(f"the lists of a row must have equal lengths; it has {shown}")
    size = max(sizes.values(), default=0)
    return [[None] * size if values is None else values for values in lists]


def read_list(cell: object) -> list[Item] | None:
    """Return the values in a cell such as ``[0.1, -0.2]``, in order.

    Args:
        cell: text in JSON, in Python or as NumPy prints it; or a list, a tuple or an array.

    Returns:
        The values, None where a value is missing; None if the cell is empty.

    Raises:
        ValueError: the cell is not a list, or a value is neither a number nor a text.

    >>> read_list('[0.1, null, "<2"]')
    [0.1, None, '<2']
    """
    convert = getattr(cell, "tolist", None)
    values = cell if convert is None else convert()
    if isinstance(cell, str):
        values = None if is_missing(cell) else _parsed(cell.strip())
    if values is None or values != values:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"expected a list such as [0.1, 0.2]; got {_excerpt(cell)}")
    return [_item(value, cell) for value in values]


def _parsed(text: str) -> object:
    """Convert the text of a value, usually a list, written as in JSON or in Python, or of a list of
    texts without quotes and commas, as NumPy prints it; another text is returned unchanged.
    """
    for read in (json.loads, lambda text: ast.literal_eval(NAN.sub("None", text))):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(text)
    bare = BARE.fullmatch(text)
    return re.split(r"[\s,;]+", bare[1].strip()) if bare else text


def _item(value: object, cell: object) -> Item:
    """Convert an item of a list of labels to a number or a text; None for a missing label. A number
    beyond float64 becomes infinite. Raises ValueError for an item of another type.
    """
    if value is None or value != value or (isinstance(value, str) and is_missing(value)):
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (int, float)):
        # Python's integers have no limit.
        if abs(value) > sys.float_info.max:
            return math.inf if value > 0 else -math.inf
        return value
    raise ValueError(f"expected numbers or texts in a list; got {value!r} in {_excerpt(cell)}")


def _excerpt(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."


WRITTEN = re.compile(r"\[\d*H(?![a-z])")
"""Pattern of a hydrogen that a SMILES contains as an atom; it does not match ``[Hg]``."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Indices of the nodes and bonds of a graph to which the values in the lists of a molecule
    belong.

    Attributes:
        atoms: [a] int64, the node of each entry of a list of atoms, -1 for a hydrogen that is no
            node.
        bonds: [b] int64, the bond of the graph of each entry of a list of bonds; -1 for the bond of
            such a hydrogen.
        nodes: number of nodes of the graph.
        heavy: number of nodes without hydrogens that were added.
        edges: number of bonds of the graph.
    """

    atoms: np.ndarray
    bonds: np.ndarray
    nodes: int
    heavy: int
    edges: int


def find_entries(smiles: str, arrays: MoleculeArrays, index: int, *, add_h: bool) -> Entries:
    """Return the nodes and bonds to which the values in a molecule's lists belong.

    The entries are the atoms that the SMILES writes, in its order, with the hydrogens that it
    writes as atoms, and the bonds in RDKit's order. If the graph has hydrogens (``add_h``) and the
    SMILES writes none, the hydrogens follow the other atoms in RDKit's order.

    Args:
        smiles: a valid SMILES.
        arrays: graphs of molecules.
        index: the molecule among them.
        add_h: whether hydrogens are nodes of the graph.

    Raises:
        ValueError: RDKit cannot read the SMILES.

    >>> from gattn.data import read_smiles
    >>> graph = read_smiles(["[H]OC"]).arrays
    >>> find_entries("[H]OC", graph, 0, add_h=False).atoms.tolist()
    [-1, 0, 1]
    """
    begin, end = arrays.edge_ptr[index : index + 2].tolist()
    # Bond k has two edges in the graph: edge 2 k in RDKit's direction, and edge 2 k + 1 in the
    # other direction.
    bonds = arrays.edge_index[:, begin:end:2].t().numpy()
    nodes = heavy = int(arrays.ptr[index + 1] - arrays.ptr[index])
    if add_h and len(bonds):
        # The hydrogens that were added to the graph are its last nodes.
        heavy = plain(parse_any_size(smiles), smiles).GetNumAtoms()
    if not WRITTEN.search(smiles):
        return Entries(np.arange(nodes), np.arange(len(bonds)), nodes, heavy, len(bonds))
    from rdkit import Chem, rdBase

    text = without_maps(strip_blanks(smiles).split()[0])
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text, sanitize=False)
    atoms = np.full(molecule.GetNumAtoms(), -1)
    atoms[written_places(smiles, heavy)] = np.arange(heavy)
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()])
    ends = ends.reshape(-1, 2).astype(np.int64)
    if add_h:
        _pair_hydrogens(atoms, ends, bonds, heavy)
    number = {frozenset(pair): i for i, pair in enumerate(bonds.tolist())}
    bond_of = [number.get(frozenset(atoms[list(pair)].tolist()), -1) for pair in ends.tolist()]
    return Entries(atoms, np.array(bond_of, np.int64), nodes, heavy, len(bonds))


def place_values(count: int, level: str, entries: Entries) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions in a list of values that belong to the graph, and their nodes or bonds.

    Args:
        count: number of values in the list.
        level: ``"atom"`` or ``"bond"``.
        entries: the entries of the molecule.

    Returns:
        Positions and nodes or bonds, [m] int64 each; entries that are not nodes of the graph are
        left out.

    Raises:
        ValueError: the list has a wrong length.
    """
    places, without = entries.atoms, entries.heavy
    if level == "bond":
        # The bonds of the added hydrogens are the last ones.
        places, without = entries.bonds, entries.edges - (entries.nodes - entries.heavy)
    if count != len(places):
        if count != without:
            extra = f", or {without} without hydrogens" if without != len(places) else ""
            raise ValueError(
                f"its list has {count} values, and the molecule has {len(places)} {level}s{extra}"
            )
        # The list of labels has no values for the added hydrogens, which are the last nodes and
        # bonds of the graph.
        places = places[(places >= 0) & (places < without)]
    positions = np.flatnonzero(places >= 0)
    return positions, places[positions]


def _pair_hydrogens(atoms: np.ndarray, ends: np.ndarray, bonds: np.ndarray, heavy: int) -> None:
    """Assign to each hydrogen of a SMILES the node of a hydrogen at the same atom; ``atoms`` is
    changed in place. ``ends`` and ``bonds`` are the bonds of the SMILES and of the graph, whose
    first ``heavy`` nodes are no added hydrogens.
    """
    spare = added_hydrogens(bonds.tolist(), heavy)
    for one, other in ends.tolist():
        for entry, neighbour in ((one, other), (other, one)):
            free = spare.get(int(atoms[neighbour]), [])
            if atoms[entry] < 0 and atoms[neighbour] >= 0 and free:
                atoms[entry] = free.pop(0)


class Places(NamedTuple):
    """Level of the labels of a table, and the row of each label.

    Attributes:
        level: ``"atom"`` or ``"bond"``.
        owners: [r] int64, ascending, the row of the table of each label.
    """

    level: str
    owners: np.ndarray


def first_rows(arrays: MoleculeArrays, level: str) -> Tensor:
    """Return the first atom or bond of each of k molecules, and their number: [k + 1] int64."""
    # A bond has two edges in the graph.
    return arrays.ptr if level == "atom" else arrays.edge_ptr // 2


def labels_of_graphs(
    y: Tensor, places: Places, rows: Sequence[int], smiles: Sequence[str],
    arrays: MoleculeArrays, *, add_h: bool,
) -> tuple[Tensor, list[str]]:  # fmt: skip
    """Return the labels of the atoms or bonds of graphs.

    Args:
        y: [r, t] float64, the labels in the order of the lists.
        places: what they belong to.
        rows: the row of each of k graphs in the table.
        smiles: SMILES of the graphs.
        arrays: the graphs.
        add_h: whether hydrogens are nodes of the graph.

    Returns:
        [n, t] float64 for n atoms or bonds of the graphs, with NaN for missing labels; and for each
        graph the reason why its lists cannot be used, or "".

    Raises:
        ValueError: RDKit cannot read a SMILES.
    """
    ptr = first_rows(arrays, places.level)
    labels = torch.full((int(ptr[-1]), y.shape[1]), math.nan, dtype=torch.float64)
    begins, ends = (np.searchsorted(places.owners, rows, side) for side in ("left", "right"))
    problems = [""] * len(rows)
    for i, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist())):
        if begin == end:
            continue
        entries = find_entries(smiles[i], arrays, i, add_h=add_h)
        try:
            positions, nodes = place_values(end - begin, places.level, entries)
        except ValueError as error:
            problems[i] = str(error)
            continue
        labels[ptr[i] + torch.from_numpy(nodes)] = y[begin + torch.from_numpy(positions)]
    return labels, problems


def list_rows(
    level: str, smiles: Sequence[str], arrays: MoleculeArrays, *, add_h: bool
) -> Iterator[np.ndarray]:
    """Yield for each of k graphs the row of the predictions of each entry of its list, [m] int64;
    -1 for an entry that is not in the graph. ``level`` is "atom" or "bond", ``smiles`` are those of
    the graphs, and ``add_h`` states whether hydrogens are nodes. Raises ValueError if RDKit cannot
    read a SMILES.
    """
    ptr = first_rows(arrays, level).tolist()
    for i, text in enumerate(smiles):
        entries = find_entries(text, arrays, i, add_h=add_h)
        places = entries.atoms if level == "atom" else entries.bonds
        yield np.where(places >= 0, places + ptr[i], -1)


def join_cells(columns: Sequence[Sequence[str]], rows: Iterator[np.ndarray]) -> list[list[str]]:
    """Combine the cells of atoms or bonds to lists in JSON, one for each molecule and column.

    ``rows`` has, for each molecule, the index of the cell of each entry of its list, -1 for null.
    Cells that are NaN or infinite become null, too.

    >>> join_cells([["0.5", "nan"], ["red", "1"]], iter([np.array([0, -1, 1])]))
    [['[0.5, null, null]', '["red", null, 1]']]
    """
    values = [[*map(_value, column), "null"] for column in columns]
    return [
        [f"[{', '.join(column[row] for row in some)}]" for column in values]
        for some in (each.tolist() for each in rows)
    ]


def _value(cell: str) -> str:
    """Return a cell as JSON: a finite number, null for another number, or a text."""
    if cell in ("nan", "inf", "-inf"):
        return "null"
    try:
        return cell if isinstance(json.loads(cell), (int, float)) else json.dumps(cell)
    except ValueError:
        return json.dumps(cell, ensure_ascii=False)
