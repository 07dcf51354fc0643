"""Removal of explicit hydrogens, isotopes of hydrogen and atom map numbers from molecules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gattn.data.molecules.smiles_text import strip_blanks, without_maps
from gattn.data.molecules.stereo import configurations, remember

if TYPE_CHECKING:
    from rdkit.Chem import Mol, RemoveHsParameters

HYDROGEN = re.compile(r"\[\d*H(?![a-z])")
"""Pattern of an explicit hydrogen atom in a SMILES. It does not match ``[Hg]`` and ``[Ho]``."""
MAPPED = re.compile(r":\d+\]")


def plain(molecule: Mol, smiles: str) -> Mol:
    """Return a molecule in the form that models read, which is the same for all SMILES of a
    molecule:

    - without atom map numbers, which RDKit also counts as a difference between the branches of a
      stereo centre;
    - without explicit hydrogen atoms, including deuterium, tritium and the hydrogen that defines
      whether a C=N bond is E or Z. They are counted as hydrogens of their neighbour instead. A
      single hydrogen atom, those of H2 and a hydrogen between two atoms remain atoms.

    A configuration that is defined by a hydrogen keeps its label, which
    :func:`gattn.data.molecules.stereo.configurations` reads. A configuration that is only defined
    by an isotope of hydrogen is removed.

    Args:
        molecule: RDKit's molecule; it is not changed.
        smiles: the text of the molecule. Most molecules need no change, which is quickly detected
            from the text.

    Returns:
        The molecule itself, or a copy with fewer atoms in the same order.

    >>> from rdkit import Chem
    >>> for text in ("[2H]OC", "[H]OC", "[CH3:1][OH:2]"):
    ...     print(Chem.MolToSmiles(plain(Chem.MolFromSmiles(text), text)))
    CO
    CO
    CO

    Raises:
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.
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
    """Return the indices of the atoms that :func:`plain` does not remove from a molecule. Raises
    RuntimeError like :func:`plain`.

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
    """Return the position in the SMILES of each atom that :func:`plain` does not remove.

    Args:
        smiles: a SMILES that RDKit can read; text after white space is ignored.
        count: the number of atoms of the molecule that :func:`plain` returns.

    Returns:
        For each remaining atom, the number of atoms before it in the SMILES, with explicit
        hydrogens.

    Raises:
        RuntimeError: RDKit removes another number of atoms if the molecule is not sanitised.

    >>> written_places("[H]OC", 2), written_places("CO", 2)
    ([1, 2], [0, 1])
    """
    if not HYDROGEN.search(smiles):
        return list(range(count))
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        text = without_maps(strip_blanks(smiles).split()[0])
        molecule = Chem.MolFromSmiles(text, sanitize=False)
        for atom in molecule.GetAtoms():
            atom.SetIntProp(_WRITTEN, atom.GetIdx())
            if atom.GetAtomicNum() == 1:
                atom.SetIsotope(0)
        left = Chem.RemoveHs(molecule, _removal())
    places = [atom.GetIntProp(_WRITTEN) for atom in left.GetAtoms()]
    if len(places) != count:
        raise RuntimeError(f"{smiles!r} has {count} atoms without hydrogens, or {len(places)}")
    return places


_WRITTEN = "_gattn_written"


def _removal() -> RemoveHsParameters:
    """Return RDKit's parameters for the removal of explicit hydrogens, including those at C=N
    bonds.
    """
    from rdkit.Chem import RemoveHsParameters

    removal = RemoveHsParameters()
    removal.removeDefiningBondStereo = True
    removal.showWarnings = False
    return removal
