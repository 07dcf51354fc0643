"""Order of the values in lists: the atoms and bonds of a SMILES, and the nodes of its graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from gattn.data.molecules.arrays import MoleculeArrays
from gattn.data.molecules.plain import written_places
from gattn.data.molecules.smiles_text import strip_blanks, without_maps

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


def graph_entries(arrays: MoleculeArrays, index: int) -> tuple[np.ndarray, int]:
    """Return the two atoms of each of b bonds of a molecule, [b, 2], and the number of atoms."""
    begin, end = arrays.edge_ptr[index : index + 2].tolist()
    first, last = arrays.ptr[index : index + 2].tolist()
    # Bond k has two edges in the graph: edge 2 k in RDKit's direction, and edge 2 k + 1 in the
    # other direction.
    return arrays.edge_index[:, begin:end:2].t().numpy(), last - first


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

    >>> from gattn.data import read_smiles
    >>> graph = read_smiles(["[H]OC"]).arrays
    >>> find_entries("[H]OC", graph, 0, add_h=False).atoms.tolist()
    [-1, 0, 1]
    """
    bonds, nodes = graph_entries(arrays, index)
    heavy = nodes
    if add_h:
        heavy = nodes - _added(bonds, nodes, smiles)
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


def _added(bonds: np.ndarray, nodes: int, smiles: str) -> int:
    """Return the number of hydrogens that were added to a graph. They are its last nodes."""
    from gattn.data.molecules.plain import plain
    from gattn.data.molecules.smiles import parse_any_size

    return nodes - plain(parse_any_size(smiles), smiles).GetNumAtoms() if len(bonds) else 0


def _pair_hydrogens(atoms: np.ndarray, ends: np.ndarray, bonds: np.ndarray, heavy: int) -> None:
    """Assign to each hydrogen of a SMILES the node of a hydrogen at the same atom, in place."""
    spare: dict[int, list[int]] = {}
    for one, other in bonds.tolist():
        parent, hydrogen = min(one, other), max(one, other)
        if hydrogen >= heavy:
            spare.setdefault(parent, []).append(hydrogen)
    for one, other in ends.tolist():
        for entry, neighbour in ((one, other), (other, one)):
            free = spare.get(int(atoms[neighbour]), [])
            if atoms[entry] < 0 and atoms[neighbour] >= 0 and free:
                atoms[entry] = free.pop(0)
