"""One molecule from its SMILES: nodes are heavy atoms, every bond is an edge in both directions."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

from torch_geometric.data import Data

from gattn.data.building import MoleculeBuilder

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["MAX_ATOMS", "mol_graph", "need_rdkit", "parse_or_reason", "parse_smiles"]

MAX_ATOMS = 1000


def mol_graph(smiles: str, *, max_atoms: int = MAX_ATOMS) -> Data:
    """Read one SMILES.

    Args:
        smiles: the text; space around it is dropped, space within it is an error.
        max_atoms: refuse larger molecules, whose cost nobody asked for.

    Returns:
        Data of n >= 1 atoms and e/2 bonds: ``x`` [n, len(ATOM_FEATURES)] float32; ``edge_index``
        [2, e] int64, where bond k is edges 2k (as drawn) and 2k + 1 (the other way), and (2, 0)
        for a single atom; ``edge_attr`` [e, len(BOND_FEATURES)] float32; ``smiles``.

    Raises:
        ValueError: not a molecule, an empty one, or too large a one.
        ImportError: RDKit is not installed.

    >>> mol_graph("c1ccccc1")
    Data(x=[6, 47], edge_index=[2, 12], edge_attr=[12, 14], smiles='c1ccccc1')
    """
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    builder = MoleculeBuilder()
    builder.add(parse_smiles(smiles, max_atoms), smiles)
    return builder.pack().unpack()[0]


def need_rdkit() -> None:
    """Say what to install where RDKit is missing."""
    if importlib.util.find_spec("rdkit") is None:
        raise ImportError('molecules need RDKit: pip install "gattn[molecules]"')


def parse_smiles(smiles: str, max_atoms: int) -> Mol:
    """RDKit's molecule, sanitised, or a ValueError that says what is wrong with the text."""
    need_rdkit()
    from rdkit import Chem, rdBase

    if not isinstance(smiles, str):
        raise ValueError(f"a SMILES must be text; got {type(smiles).__name__}")
    text = smiles.strip()
    if not text:
        raise ValueError("the SMILES is empty")
    if len(text.split()) > 1:
        raise ValueError("the SMILES holds white space")
    if not (text.isascii() and text.isprintable()):
        odd = next(c for c in text if not (c.isascii() and c.isprintable()))
        raise ValueError(f"the SMILES holds {odd!a}")
    # Do not parse what cannot pass: the time that RDKit takes grows with the square of its rings.
    if len(text) > max_atoms:
        _check_length(text, max_atoms)
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


_ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")


def _check_length(text: str, max_atoms: int) -> None:
    """Refuse a text that names more atoms, or has more characters than annotated atoms take."""
    if len(text) > 20 * max_atoms:
        raise ValueError(f"{len(text)} characters are more than max_atoms={max_atoms} can need")
    # Not of hydrogens, which RDKit may leave out.
    atoms = sum(not atom.startswith("[H") for atom in _ATOM.findall(text))
    if atoms > max_atoms:
        raise ValueError(f"{atoms} atoms are more than max_atoms={max_atoms}")


def parse_or_reason(smiles: str, max_atoms: int) -> Mol | str:
    """RDKit's molecule, or what is wrong with the text."""
    try:
        return parse_smiles(smiles, max_atoms)
    except ValueError as error:
        return str(error)


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
