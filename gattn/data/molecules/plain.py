"""Molecules without habits of writing: hydrogens as atoms, isotopes of hydrogen, atom maps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gattn.data.molecules.smiles_text import strip_blanks
from gattn.data.molecules.stereo import configurations, remember

if TYPE_CHECKING:
    from rdkit.Chem import Mol, RemoveHsParameters

__all__ = ["plain", "plain_atoms", "written_places"]

HYDROGEN = re.compile(r"\[\d*H(?![a-z])")
"""A hydrogen that the text has as an atom; ``[Hg]`` and ``[Ho]`` are none."""
MAPPED = re.compile(r":\d+\]")


def plain(molecule: Mol, smiles: str) -> Mol:
    """Give a molecule the form that models read, which has no trace of these habits of writing:

    - atom map numbers, which RDKit also takes for a difference between branches of a stereo centre;
    - hydrogens as atoms, also deuterium and tritium, and the hydrogen that a C=N bond needs to be
      E or Z: they are counted with the atom that holds them. A hydrogen alone, in H2, or between
      two atoms stays an atom.

    A configuration that a hydrogen defines keeps its label, which
    :func:`gattn.data.molecules.stereo.configurations` reads; one that only an isotope of hydrogen
    defines does not.

    Args:
        molecule: what RDKit read; it is not changed.
        smiles: the text, which tells of most molecules that they need no change.

    Returns:
        The molecule itself, or a copy with fewer atoms in the same order.

    >>> from rdkit import Chem
    >>> for text in ("[2H]OC", "[H]OC", "[CH3:1][OH:2]"):
    ...     print(Chem.MolToSmiles(plain(Chem.MolFromSmiles(text), text)))
    CO
    CO
    CO
    """
    mapped, hydrogens = MAPPED.search(smiles), HYDROGEN.search(smiles)
    if not mapped and not hydrogens:
        return molecule
    from rdkit import Chem, rdBase
    from rdkit.Chem.rdqueries import AtomNumEqualsQueryAtom

    query = AtomNumEqualsQueryAtom(1)
    atoms = list(molecule.GetAtomsMatchingQuery(query)) if hydrogens else []
    if not mapped and not atoms:
        return molecule

    copy = Chem.Mol(molecule)
    for atom in copy.GetAtoms():
        atom.SetAtomMapNum(0)
    for atom in atoms:
        copy.GetAtomWithIdx(atom.GetIdx()).SetIsotope(0)
    Chem.AssignStereochemistry(copy, cleanIt=True, force=True, flagPossibleStereoCenters=True)
    if not atoms:
        return copy
    remember(copy, configurations(copy))
    with rdBase.BlockLogs():
        return Chem.RemoveHs(copy, _removal())


def plain_atoms(molecule: Mol, smiles: str) -> list[int]:
    """Name the atoms of a molecule that :func:`plain` leaves, by their numbers in the molecule.

    >>> from rdkit import Chem
    >>> plain_atoms(Chem.MolFromSmiles("[2H]OC"), "[2H]OC")
    [1, 2]
    """
    if not HYDROGEN.search(smiles):
        return list(range(molecule.GetNumAtoms()))
    numbered = type(molecule)(molecule)
    for atom in numbered.GetAtoms():
        atom.SetIntProp(_WRITTEN, atom.GetIdx())
    return [atom.GetIntProp(_WRITTEN) for atom in plain(numbered, smiles).GetAtoms()]


def written_places(smiles: str, count: int) -> list[int]:
    """Say where the text has each atom that :func:`plain` leaves, hydrogens counted as written.

    Args:
        smiles: a SMILES that RDKit reads; what follows it after white space is not read.
        count: the number of atoms of the plain molecule.

    Returns:
        For each atom of the plain molecule the number of atoms before it in the text.

    Raises:
        RuntimeError: RDKit leaves another number of atoms when it reads the text step by step.

    >>> written_places("[H]OC", 2), written_places("CO", 2)
    ([1, 2], [0, 1])
    """
    if not HYDROGEN.search(smiles):
        return list(range(count))
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(strip_blanks(smiles).split()[0], sanitize=False)
        for atom in molecule.GetAtoms():
            atom.SetIntProp(_WRITTEN, atom.GetIdx())
            atom.SetAtomMapNum(0)
            if atom.GetAtomicNum() == 1:
                atom.SetIsotope(0)
        left = Chem.RemoveHs(molecule, _removal())
    places = [atom.GetIntProp(_WRITTEN) for atom in left.GetAtoms()]
    if len(places) != count:
        raise RuntimeError(f"{smiles!r} has {count} atoms without hydrogens, or {len(places)}")
    return places


_WRITTEN = "_gattn_written"


def _removal() -> RemoveHsParameters:
    """Return the parameters by which RDKit removes every hydrogen that another atom can count."""
    from rdkit.Chem import RemoveHsParameters

    removal = RemoveHsParameters()
    removal.removeDefiningBondStereo = True
    removal.showWarnings = False
    return removal
