"""Conversion of one SMILES to a graph. Its nodes are heavy atoms, and each bond gives two edges."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

from gattn.data.molecules.building import MoleculeBuilder
from gattn.data.molecules.plain import plain
from gattn.data.molecules.smiles_text import check_single, likeness, split_text, strip_blanks
from gattn.data.molecules.stereo import without_relative

if TYPE_CHECKING:
    from rdkit.Chem import Mol
    from torch_geometric.data import Data

MAX_ATOMS = 1000


def smiles_to_data(smiles: str, *, max_atoms: int = MAX_ATOMS) -> Data:
    """Convert one SMILES to a graph.

    Args:
        smiles: the text. A CXSMILES extension (``|...|``) after the SMILES is parsed. A name, atom
            map numbers and surrounding white space are ignored. A second SMILES is an error.
        max_atoms: raise an error for larger molecules, which would take much time and memory.

    Returns:
        Data of n >= 1 atoms and e/2 bonds: ``x`` [n, len(ATOM_FEATURES)] float32; ``edge_index``
        [2, e] int64, where bond k becomes the edges 2k (in RDKit's direction) and 2k + 1 (the
        reverse), of shape (2, 0) for a single atom; ``edge_attr`` [e, len(BOND_FEATURES)]
        float32; ``smiles``.

    Raises:
        ValueError: the text is not a molecule, or the molecule is empty or too large.
        ImportError: RDKit is not installed.
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

    >>> smiles_to_data("c1ccccc1")
    Data(x=[6, 49], edge_index=[2, 12], edge_attr=[12, 14], smiles='c1ccccc1')
    """
    if max_atoms < 1:
        raise ValueError(f"max_atoms must be at least 1; got {max_atoms}")
    builder = MoleculeBuilder()
    builder.add(plain(parse_smiles(smiles, max_atoms), smiles), smiles)
    return builder.pack().unpack()[0]


def need_rdkit() -> None:
    """Raise an ImportError with installation advice if RDKit is not installed."""
    if importlib.util.find_spec("rdkit") is None:
        raise ImportError('molecules need RDKit: pip install "gattn[molecules]"')


def parse_smiles(smiles: str, max_atoms: int) -> Mol:
    """Parse the text of a table cell to a sanitised molecule without atom map numbers.

    Args:
        smiles: a SMILES, optionally followed by a CXSMILES extension and a name, which is ignored.
        max_atoms: raise an error for larger molecules.

    Returns:
        RDKit's molecule; its atoms are in the order of the text.

    Raises:
        ValueError: the text is not SMILES (the message contains a guess of what it is) or contains
            a second SMILES, its extension describes more than one molecule, or the molecule is
            empty or too large.
        ImportError: RDKit is not installed.

    >>> parse_smiles("[CH3:1][OH:2] methanol", 10).GetNumAtoms()
    2
    """
    need_rdkit()
    from rdkit import rdBase

    if not isinstance(smiles, str):
        raise ValueError(f"a SMILES must be text; got {type(smiles).__name__}")
    text = strip_blanks(smiles)
    if not text:
        raise ValueError("the SMILES is empty")
    # A SMILES that is too long is rejected before it is parsed, because the time of RDKit's parser
    # grows with the square of the number of rings.
    if len(text) > max_atoms:
        _check_length(re.split(r"[ \t]", text, maxsplit=1)[0], max_atoms)
    with rdBase.BlockLogs():
        core, extension = split_text(text, _syntax)
        molecule = _parse(core, extension, text)
        if extension:
            check_single(molecule, extension)
            molecule = without_relative(molecule)
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        raise ValueError("the molecule has no atoms")
    if atoms > max_atoms:
        raise ValueError(f"{atoms} atoms are more than max_atoms={max_atoms}")
    return molecule


def parse_any_size(smiles: str) -> Mol:
    """Parse the text of a table cell to a molecule of any size.

    Raises:
        ValueError: the text cannot be parsed; the message contains the text and the reason.
        ImportError: RDKit is not installed.
    """
    try:
        return parse_smiles(smiles, max(len(str(smiles)), 1))
    except ValueError as error:
        raise ValueError(f"RDKit cannot read the SMILES {smiles!r}: {error}") from None


def _parse(core: str, extension: str, text: str) -> Mol:
    """Parse a SMILES and its extension with RDKit; raise ValueError with the reason if this fails.
    ``text`` is the whole cell, from which the reason may be guessed.
    """
    from rdkit import Chem

    try:
        molecule = Chem.MolFromSmiles(f"{core} {extension}" if extension else core)
        if molecule is not None:
            return _without_doubt(molecule) if extension else molecule
        if not extension or Chem.MolFromSmiles(core) is None:
            raise ValueError(_complaint(core, text))
    except RuntimeError as error:
        # RDKit raises a RuntimeError if a check in its C++ code fails, for example for an unknown
        # element.
        raise ValueError(str(error).strip().splitlines()[0]) from error
    raise ValueError(f"RDKit cannot read the CXSMILES extension {extension!r}")


def _without_doubt(molecule: Mol) -> Mol:
    """Remove the mark "unknown stereo" from the double bonds of a molecule, because it means the
    same as no mark, and return the molecule itself, which is changed.
    """
    from rdkit.Chem import BondStereo

    for bond in molecule.GetBonds():
        if bond.GetStereo() == BondStereo.STEREOANY:
            bond.SetStereo(BondStereo.STEREONONE)
    return molecule


def _syntax(text: str) -> Mol | None:
    """Parse a SMILES without chemistry checks; return None if its syntax is wrong."""
    from rdkit import Chem

    try:
        return Chem.MolFromSmiles(text, sanitize=False)
    except RuntimeError:
        # RDKit raises a RuntimeError if a check in its C++ code fails.
        return None


_ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")


def _check_length(text: str, max_atoms: int) -> None:
    """Raise ValueError if a SMILES has more than ``max_atoms`` atoms, of which explicit hydrogens
    are not counted, or more than 20 characters for each of ``max_atoms``.
    """
    if len(text) > 20 * max_atoms:
        raise ValueError(f"a text of {len(text)} characters is too long for max_atoms={max_atoms}")
    # Explicit hydrogen atoms are not counted, because RDKit removes most of them.
    atoms = sum(not atom.startswith("[H") for atom in _ATOM.findall(text))
    if atoms > max_atoms:
        raise ValueError(f"{atoms} atoms are more than max_atoms={max_atoms}")


def parse_or_reason(smiles: str, max_atoms: int) -> Mol | str:
    """Parse a SMILES; return the molecule, or the message of the error. Raises ImportError without
    RDKit.
    """
    try:
        return parse_smiles(smiles, max_atoms)
    except ValueError as error:
        return str(error)


def _complaint(core: str, text: str) -> str:
    """Return the reason why RDKit rejected a SMILES, or a guess which kind of text it is."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(core, sanitize=False)
    if molecule is None:
        likely = likeness(text, _syntax, Chem.MolFromSmarts)
        return f"not valid SMILES: {likely}" if likely else "not valid SMILES" + _syntax_error(core)
    problems = [problem.Message() for problem in Chem.DetectChemistryProblems(molecule)]
    return "; ".join(problems) or "RDKit cannot sanitise the molecule"


def _syntax_error(text: str) -> str:
    """Return the errors that RDKit's parser logs for a SMILES, without time stamps and each after
    "; ". The text is empty for a version of RDKit whose log cannot be read.
    """
    from rdkit import Chem, rdBase

    if not hasattr(rdBase, "CaptureErrorLog"):
        # RDKit before 2026 has no CaptureErrorLog, so the reason why it rejected a SMILES is
        # unknown.
        return ""
    with rdBase.CaptureErrorLog() as log:
        Chem.MolFromSmiles(text, sanitize=False)
    lines = [line.partition("SMILES Parse Error: ")[2] for line in log.messages.splitlines()]
    messages = [re.sub(r" (while parsing|for input):.*|:$", "", line) for line in lines if line]
    return "".join(f"; {line}" for line in messages if not line.startswith("Failed parsing"))
