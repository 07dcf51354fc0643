"""Molecules as graphs: nodes are heavy atoms, and every bond is an edge in both directions.

RDKit is imported when a molecule is first read, not with this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gattn.data.features import ATOM_FEATURES, BOND_FEATURES, atom_features, bond_features

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_ATOMS = 1000


@dataclass(frozen=True, eq=False)
class MolGraph:
    """One molecule of n >= 1 atoms and e/2 bonds.

    Attributes:
        smiles: the text it was read from.
        x: [n, len(ATOM_FEATURES)] float32.
        edge_index: [2, e] int64; bond k is edges 2k (as drawn) and 2k + 1 (the other way).
        edge_attr: [e, len(BOND_FEATURES)] float32.
    """

    smiles: str
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor

    def __repr__(self) -> str:
        atoms, bonds = len(self.x), len(self.edge_attr) // 2
        return f"MolGraph({self.smiles!r}, atoms={atoms}, bonds={bonds})"

    def to_data(self, y: Tensor | None = None) -> Data:
        """Turn it into a PyG ``Data`` with the same field names.

        Args:
            y: [1, t] targets, kept as they are.

        Returns:
            Data with ``x``, ``edge_index``, ``edge_attr``, ``smiles``, and ``y`` where given.

        >>> mol_graph("CCO").to_data().num_edges
        4
        """
        from torch_geometric.data import Data  # here, since it is slow to import

        data = Data(self.x, self.edge_index, self.edge_attr, smiles=self.smiles)
        if y is not None:
            data.y = y
        return data


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read: its number from 0, its line in a file, and why."""

    row: int
    text: str
    reason: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"row {self.row}" + (f" (line {self.line})" if self.line is not None else "")
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"{where}: {text!r}: {self.reason}"


class MoleculeError(ValueError):
    """Some rows could not be read; ``bad`` holds every one of them."""

    def __init__(self, bad: Sequence[BadRow], source: str = "the list") -> None:
        self.bad = tuple(bad)
        shown = "\n".join(f"  {row}" for row in self.bad[:10])
        more = f"\n  and {len(self.bad) - 10} more" if len(self.bad) > 10 else ""
        super().__init__(
            f'{len(self.bad)} bad row(s) in {source} (on_error="skip" leaves them out):\n'
            f"{shown}{more}"
        )


@dataclass(frozen=True, eq=False)
class Molecules:
    """The molecules that could be read, and a report on those that could not.

    Attributes:
        graphs: the k molecules.
        y: [k, t] float32; NaN where a target is missing.
        targets: the t names of ``y``'s columns.
        rows: the row, from 0, that each molecule came from.
        bad: the rows left out; always empty under ``on_error="raise"``.
    """

    graphs: tuple[MolGraph, ...]
    y: Tensor
    targets: tuple[str, ...]
    rows: tuple[int, ...]
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def smiles(self) -> list[str]:
        """The molecules' SMILES, in order."""
        return [graph.smiles for graph in self.graphs]

    def select(self, index: Iterable[int]) -> Molecules:
        """Keep the molecules at these positions, in this order.

        >>> from gattn.data import read_smiles
        >>> read_smiles(["C", "CC", "CCC"]).select([2, 0]).smiles
        ['CCC', 'C']
        """
        kept = [int(i) for i in index]
        return Molecules(
            tuple(self.graphs[i] for i in kept),
            self.y[kept],
            self.targets,
            tuple(self.rows[i] for i in kept),
            self.bad,
        )

    def labelled(self) -> Molecules:
        """Keep the molecules of which every target was measured.

        >>> from gattn.data import read_smiles
        >>> read_smiles(["C", "CC"], [1.5, None]).labelled().smiles
        ['C']
        """
        return self.select(self.y.isfinite().all(1).nonzero().flatten().tolist())

    def to_data_list(self) -> list[Data]:
        """Turn every molecule into a PyG ``Data`` with ``y`` [1, t] where there are targets."""
        y = self.y if self.targets else [None] * len(self)
        return [g.to_data(None if t is None else t.unsqueeze(0)) for g, t in zip(self.graphs, y)]


def mol_graph(smiles: str, *, max_atoms: int = MAX_ATOMS) -> MolGraph:
    """Read one SMILES.

    Args:
        smiles: the text; space around it is dropped, space within it is an error.
        max_atoms: refuse larger molecules, whose cost nobody asked for.

    Returns:
        The graph; a single atom has ``edge_index`` of shape (2, 0).

    Raises:
        ValueError: not a molecule, an empty one, or too large a one.

    >>> graph = mol_graph("c1ccccc1")
    >>> graph.x.shape[0], graph.edge_index.shape[1]
    (6, 12)
    """
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    molecule = _parse(smiles, max_atoms)
    atoms = [atom_features(atom) for atom in molecule.GetAtoms()]
    edges: list[tuple[int, int]] = []
    bonds: list[list[float]] = []
    for bond in molecule.GetBonds():
        i, j = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        edges += [(i, j), (j, i)]
        bonds += [bond_features(bond)] * 2
    return MolGraph(
        smiles.strip(),
        torch.tensor(atoms, dtype=torch.float32),
        torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t().contiguous(),
        torch.tensor(bonds, dtype=torch.float32).reshape(-1, len(BOND_FEATURES)),
    )


def _parse(smiles: str, max_atoms: int) -> Any:
    from rdkit import Chem, rdBase

    if not isinstance(smiles, str):
        raise ValueError(f"a SMILES must be text; got {type(smiles).__name__}")
    text = smiles.strip()
    if not text:
        raise ValueError("the SMILES is empty")
    if len(text.split()) > 1:
        raise ValueError("the SMILES holds white space")
    # Even a fully annotated atom takes less than 20 characters; do not parse what cannot pass.
    if len(text) > 20 * max_atoms:
        raise ValueError(f"{len(text)} characters are more than max_atoms={max_atoms} can need")
    try:
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(text)
            if molecule is None:
                raise ValueError(_complaint(text))
    except RuntimeError as error:  # a condition that RDKit checks in C++, as of an element
        raise ValueError(str(error).strip().splitlines()[0]) from error
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        raise ValueError("the molecule has no atoms")
    if atoms > max_atoms:
        raise ValueError(f"{atoms} atoms are more than max_atoms={max_atoms}")
    return molecule


def _complaint(text: str) -> str:
    """Say what RDKit has against a SMILES; its own log is silenced."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(text, sanitize=False)
    if molecule is None:
        return "not valid SMILES" + _syntax_error(text)
    problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    return "; ".join(problems) or "RDKit cannot sanitise it"


def _syntax_error(text: str) -> str:
    """What RDKit's parser logged, without time stamps and without the text itself."""
    from rdkit import Chem, rdBase

    if not hasattr(rdBase, "CaptureErrorLog"):  # RDKit before 2026
        return ""
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text, sanitize=False)
    said = [line.partition("SMILES Parse Error: ")[2] for line in log.messages.splitlines()]
    told = [re.sub(r" (while parsing|for input):.*|:$", "", line) for line in said if line]
    return "".join(f"; {line}" for line in told if not line.startswith("Failed parsing"))


def batch_molecules(graphs: Sequence[MolGraph] | Molecules) -> Data:
    """Join molecules into one graph without edges between them.

    Faster than PyG's ``Batch`` and with the same names; nothing is padded.

    Args:
        graphs: g molecules, as a list or as what was read.

    Returns:
        Data with ``x``, ``edge_index`` and ``edge_attr`` of all atoms and bonds, ``batch`` [n],
        the molecule of each atom, and ``ptr`` [g + 1], where each molecule's atoms begin. No
        molecule gives no atoms.

    Raises:
        TypeError: for anything but molecules.

    >>> batch = batch_molecules([mol_graph("CC"), mol_graph("O")])
    >>> batch.batch, batch.ptr
    (tensor([0, 0, 1]), tensor([0, 2, 3]))
    """
    from torch_geometric.data import Data  # here, since it is slow to import

    graphs = graphs.graphs if isinstance(graphs, Molecules) else graphs
    for graph in graphs:
        if not isinstance(graph, MolGraph):
            raise TypeError(f"graphs must hold MolGraph objects; got {type(graph).__name__}")
    atoms = torch.tensor([len(graph.x) for graph in graphs], dtype=torch.int64)
    bonds = torch.tensor([len(graph.edge_attr) for graph in graphs], dtype=torch.int64)
    ptr = torch.cat([atoms.new_zeros(1), atoms.cumsum(0)])
    x = [torch.empty(0, len(ATOM_FEATURES)), *(graph.x for graph in graphs)]
    attr = [torch.empty(0, len(BOND_FEATURES)), *(graph.edge_attr for graph in graphs)]
    edges = [torch.empty(2, 0, dtype=torch.int64), *(graph.edge_index for graph in graphs)]
    return Data(
        x=torch.cat(x),
        edge_index=torch.cat(edges, 1) + ptr[:-1].repeat_interleave(bonds),
        edge_attr=torch.cat(attr),
        batch=torch.arange(len(graphs)).repeat_interleave(atoms),
        ptr=ptr,
    )
