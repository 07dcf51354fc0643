"""Molecules as graphs: a documented featuriser, and data sets from SMILES lists and CSV files.

Nodes are heavy atoms, and every bond is an edge in both directions. RDKit is imported when a
molecule is first read, not with this module.
"""

from __future__ import annotations

import csv
import functools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from gattn.data._files import raw_files
from gattn.data.registry import dataset

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "ATOM_FEATURES",
    "BOND_FEATURES",
    "BadRow",
    "MolGraph",
    "MoleculeError",
    "Molecules",
    "atom_features",
    "batch_molecules",
    "bond_features",
    "load_molecules",
    "mol_graph",
    "read_csv",
    "read_smiles",
]

MAX_ATOMS = 1000
OnError = Literal["raise", "skip"]

ELEMENTS = ("H", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
DEGREES = (0, 1, 2, 3, 4, 5)
CHARGES = (-2, -1, 0, 1, 2)
CHIRALITIES = ("CHI_UNSPECIFIED", "CHI_TETRAHEDRAL_CW", "CHI_TETRAHEDRAL_CCW")
HYDROGENS = (0, 1, 2, 3, 4)
HYBRIDISATIONS = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
ORDERS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREOS = ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")


def _names(field: str, values: Sequence[object]) -> tuple[str, ...]:
    return (*(f"{field}={value}" for value in values), f"{field}=other")


ATOM_FEATURES = (
    *_names("element", ELEMENTS),
    *_names("degree", DEGREES),
    *_names("charge", CHARGES),
    *_names("chirality", CHIRALITIES),
    *_names("hydrogens", HYDROGENS),
    *_names("hybridisation", HYBRIDISATIONS),
    "aromatic",
    "ring",
    "mass/100",
)
"""The name of each column of :func:`atom_features`."""

BOND_FEATURES = (*_names("order", ORDERS), *_names("stereo", STEREOS), "conjugated", "ring")
"""The name of each column of :func:`bond_features`."""


@functools.cache
def _one_hot(values: tuple[object, ...]) -> tuple[dict[object, list[float]], list[float]]:
    """The row of each value, and the row of every other value."""
    rows = [[float(i == j) for j in range(len(values) + 1)] for i in range(len(values) + 1)]
    return dict(zip(values, rows)), rows[-1]


def _encode(value: object, values: tuple[object, ...]) -> list[float]:
    rows, other = _one_hot(values)
    return rows.get(value, other)


def atom_features(atom: Any) -> list[float]:
    """Describe one atom by numbers, named in :data:`ATOM_FEATURES`.

    One-hot with a last place for "other": element, degree (bonds drawn), formal charge,
    chirality, hydrogens (drawn or implied), hybridisation. Then aromatic, in a ring (0 or 1),
    and the atomic mass in units of 100 Da.

    Args:
        atom: an RDKit ``Atom`` of a sanitised molecule.

    Returns:
        ``len(ATOM_FEATURES)`` numbers.

    >>> from rdkit import Chem
    >>> values = atom_features(Chem.MolFromSmiles("CO").GetAtomWithIdx(1))
    >>> [name for name, value in zip(ATOM_FEATURES, values) if value == 1]
    ['element=O', 'degree=1', 'charge=0', 'chirality=CHI_UNSPECIFIED', 'hydrogens=1', \
'hybridisation=SP3']
    """
    return [
        *_encode(atom.GetSymbol(), ELEMENTS),
        *_encode(atom.GetDegree(), DEGREES),
        *_encode(atom.GetFormalCharge(), CHARGES),
        *_encode(atom.GetChiralTag().name, CHIRALITIES),
        *_encode(atom.GetTotalNumHs(), HYDROGENS),
        *_encode(atom.GetHybridization().name, HYBRIDISATIONS),
        float(atom.GetIsAromatic()),
        float(atom.IsInRing()),
        atom.GetMass() / 100,
    ]


def bond_features(bond: Any) -> list[float]:
    """Describe one bond by numbers, named in :data:`BOND_FEATURES`.

    One-hot with a last place for "other": order and stereo. Then conjugated and in a ring.

    Args:
        bond: an RDKit ``Bond`` of a sanitised molecule.

    Returns:
        ``len(BOND_FEATURES)`` numbers.

    >>> from rdkit import Chem
    >>> values = bond_features(Chem.MolFromSmiles("C=C").GetBondWithIdx(0))
    >>> [name for name, value in zip(BOND_FEATURES, values) if value == 1]
    ['order=DOUBLE', 'stereo=STEREONONE']
    """
    return [
        *_encode(bond.GetBondType().name, ORDERS),
        *_encode(bond.GetStereo().name, STEREOS),
        float(bond.GetIsConjugated()),
        float(bond.IsInRing()),
    ]


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


def read_smiles(
    smiles: Sequence[str],
    y: Sequence[float | None] | Tensor | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read a list of SMILES, with one target for each if there is one.

    Args:
        smiles: the texts.
        y: one number a molecule; None and NaN mean that it was not measured.
        on_error: ``"raise"`` reads them all and then reports every bad row in one error;
            ``"skip"`` leaves bad rows out and reports them in ``bad``.
        max_atoms: see :func:`mol_graph`.

    Returns:
        The molecules; an empty list gives none.

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``; its ``bad`` lists them.
        ValueError: as many targets as molecules are needed; no such ``on_error``.

    >>> found = read_smiles(["CCO", "C1CC", "CN(C)(C)(C)C"], on_error="skip")
    >>> len(found), [bad.row for bad in found.bad]
    (1, [1, 2])
    >>> print(found.bad[1])
    row 2: 'CN(C)(C)(C)C': Explicit valence for atom # 1 N, 5, is greater than permitted
    """
    if isinstance(smiles, str):
        raise ValueError(f"smiles must be a list of texts; got the one text {smiles!r}")
    values = None if y is None else [math.nan if value is None else float(value) for value in y]
    if values is not None and len(values) != len(smiles):
        raise ValueError(f"y must hold {len(smiles)} numbers, one a SMILES; got {len(values)}")
    rows = (
        _Row(i, None, text, () if values is None else (values[i],)) for i, text in enumerate(smiles)
    )
    return _featurise(rows, () if y is None else ("y",), on_error, max_atoms, "the list")


def read_csv(
    path: str | os.PathLike[str],
    *,
    smiles: str,
    targets: Sequence[str] = (),
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
) -> Molecules:
    """Read molecules from a CSV file with a header line.

    A target cell that is empty, ``NA`` or ``NaN`` was not measured and becomes NaN. Blank lines
    are not rows. Row numbers count from 0 below the header; the line is the one in the file.

    Args:
        path: the file, UTF-8, comma-separated.
        smiles: the column of SMILES.
        targets: the columns of numbers to predict, a list even if there is one.
        on_error: what to do about a bad SMILES, a row with too few or too many cells, and a
            target that is no finite number; see :func:`read_smiles`.
        max_atoms: see :func:`mol_graph`.

    Returns:
        The molecules with ``y`` [k, t].

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``.
        ValueError: no header, a column that is missing or there twice, broken quoting, a file
            that is not UTF-8.
        FileNotFoundError: no such file.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = path.write_text("smiles,logS\\nCCO,1.1\\nCCC,\\n")
    >>> read_csv(path, smiles="smiles", targets=["logS"]).y
    tensor([[1.1000],
            [   nan]])
    """
    path = Path(path)
    if isinstance(targets, str):
        raise ValueError(f"targets must be a list of columns; got the one text {targets!r}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        try:
            rows = list(_csv_rows(file, path, smiles, tuple(targets)))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a CSV file: {error}") from None
    return _featurise(rows, tuple(targets), on_error, max_atoms, str(path))


@dataclass(frozen=True)
class _Row:
    """A row as it came: its SMILES and targets, or what is wrong with it."""

    row: int
    line: int | None
    text: str
    values: tuple[float, ...] = ()
    problem: str = ""


def _csv_rows(
    file: Iterable[str], path: Path, smiles: str, targets: tuple[str, ...]
) -> Iterator[_Row]:
    reader = csv.reader(file, strict=True)
    header = [name.strip() for name in next(reader, [])]
    for column in (smiles, *targets):
        if header.count(column) != 1:
            raise ValueError(
                f"{path} must have one column {column!r}; it has {', '.join(header) or 'nothing'}"
            )
    place, places = header.index(smiles), [header.index(target) for target in targets]
    row = 0
    for cells in reader:
        if not cells:
            continue
        yield _csv_row(row, reader.line_num, cells, len(header), place, places, targets)
        row += 1


def _csv_row(
    row: int,
    line: int,
    cells: list[str],
    width: int,
    place: int,
    places: list[int],
    targets: tuple[str, ...],
) -> _Row:
    if len(cells) != width:
        problem = f"{len(cells)} cells where the header has {width}"
        return _Row(row, line, ",".join(cells), problem=problem)
    values = []
    for name, at in zip(targets, places):
        value = _number(cells[at])
        if value is None:
            problem = f"{name} must be a finite number or empty; it is {cells[at]!r}"
            return _Row(row, line, cells[place], problem=problem)
        values.append(value)
    return _Row(row, line, cells[place], tuple(values))


_LARGEST = 3.4028234663852886e38  # of fp32, which targets are kept in


def _number(cell: str) -> float | None:
    """The cell's number, NaN where it was not measured, None where it is no number."""
    cell = cell.strip()
    if cell.lower() in ("", "na", "nan"):
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None


def _featurise(
    rows: Iterable[_Row],
    targets: tuple[str, ...],
    on_error: OnError,
    max_atoms: int,
    source: str,
) -> Molecules:
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip"; got {on_error!r}')
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    graphs: list[MolGraph] = []
    kept: list[_Row] = []
    bad: list[BadRow] = []
    for row in rows:
        graph = _graph_or_reason(row, max_atoms)
        if isinstance(graph, MolGraph):
            graphs.append(graph)
            kept.append(row)
        else:
            bad.append(BadRow(row.row, str(row.text), graph, row.line))
    if bad and on_error == "raise":
        raise MoleculeError(bad, source)
    y = torch.tensor([row.values for row in kept], dtype=torch.float32)
    return Molecules(
        tuple(graphs),
        y.reshape(len(kept), len(targets)),
        targets,
        tuple(row.row for row in kept),
        tuple(bad),
    )


def _graph_or_reason(row: _Row, max_atoms: int) -> MolGraph | str:
    if row.problem:
        return row.problem
    try:
        return mol_graph(row.text, max_atoms=max_atoms)
    except ValueError as error:
        return str(error)


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


def load_molecules(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    on_error: OnError = "raise",
    max_atoms: int = MAX_ATOMS,
    download: bool = True,
    verify: bool = True,
) -> Molecules:
    """Load a registered molecule data set.

    Args:
        name: for example ``"esol"``; :func:`gattn.data.dataset_names` lists them.
            ``"chembl2321810"`` lies inside the rdkit package and needs no download.
        root: the data folder; else ``GATTN_DATA``, else the user's cache directory. The file may
            lie in ``<root>/moleculenet/esol/raw`` or, as torch_geometric has it, in
            ``<root>/esol/raw``.
        on_error: see :func:`read_smiles`; some data sets have molecules that RDKit refuses.
        max_atoms: see :func:`mol_graph`.
        download: fetch what is missing, checked against the registry's SHA-256.
        verify: check the files that are there against it too.

    Returns:
        The molecules with the registry's targets.

    Raises:
        MoleculeError: bad rows under ``on_error="raise"``.
        ValueError: no such data set, or a file that is not the registered one.
        FileNotFoundError: a file is missing and ``download`` is false, or rdkit was built without
            its Contrib folder.
        OSError: the download failed.

    >>> found = load_molecules("chembl2321810")
    >>> len(found), found.targets
    (1017, ('Act',))
    """
    record = dataset(name)
    if record.kind != "molecules":
        raise ValueError(f"{record.name!r} holds no molecules; load it with load_citation")
    paths = list(raw_files(record, root, download=download, verify=verify).values())
    if record.package:
        rows: Iterable[_Row] = _joined_rows(*paths)
        return _featurise(rows, record.targets, on_error, max_atoms, str(paths[0]))
    return read_csv(
        paths[0],
        smiles=record.smiles,
        targets=record.targets,
        on_error=on_error,
        max_atoms=max_atoms,
    )


def _joined_rows(structures: Path, activities: Path) -> list[_Row]:
    """Join lines ``SMILES NAME`` with a CSV of ``Name,Act`` by the compound's name."""
    with activities.open(newline="", encoding="utf-8") as file:
        activity = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    rows = []
    for number, line in enumerate(structures.read_text("utf-8").splitlines()):
        smiles, _, name = line.partition(" ")
        value = _number(activity[name]) if name in activity else None
        if value is None:
            problem = f"{activities} gives no number for compound {name!r}"
            rows.append(_Row(number, number + 1, smiles, problem=problem))
        else:
            rows.append(_Row(number, number + 1, smiles, (value,)))
    return rows
