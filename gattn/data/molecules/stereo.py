"""Configurations of stereo centres and double bonds, named so that every writing has the same name.

RDKit's chiral tag says in which sense the neighbours of an atom follow one another in the text. It
changes with the text and says nothing by itself. The labels of the CIP rules (R and S, r and s of
pseudoasymmetric centres, E and Z) depend on the molecule alone.

Reference: Hanson et al., "Algorithmic Analysis of Cahn-Ingold-Prelog Rules of Stereochemistry"
(J. Chem. Inf. Model. 2018), which RDKit's labeller implements.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol
    from rdkit.Chem.rdchem import QueryAtom, StereoGroup

__all__ = [
    "CHIRALITIES",
    "NONE",
    "OTHER",
    "STEREOS",
    "Configurations",
    "atom_configuration",
    "bond_configuration",
    "configurations",
    "relative_centres",
    "remember",
    "without_relative",
]

CHIRALITIES = ("none", "R", "S", "r", "s")
"""Configurations of atoms; any other text stands for one that has no label."""
STEREOS = ("none", "any", "Z", "E", "z", "e")
"""Configurations of bonds; any other text stands for one that has no label."""
NONE, OTHER = "none", "other"

TETRAHEDRAL, PLANAR, ANY = (1, 2), (2, 3, 4, 5), 1
"""RDKit's numbers of the chiral tags of tetrahedral centres (clockwise and counterclockwise), and
of the stereo of double bonds (Z, E, cis and trans; any).
"""

FIRST_STEPS, MOST_STEPS = 500_000, 5_000_000
"""Bounds on the comparisons of the labeller: for the atoms as written, and in canonical order.

Of 2,500 marked molecules of MoleculeNet none needs 50,000, and of 13,000 of ChEMBL 147 do. The
first bound takes about 0.2 s. A molecule that exceeds it is labelled again from its canonical
SMILES with ten times as many, so that the order of the text does not decide whether there are
labels.
"""

_REMEMBERED = "_gattn_configuration"


class Configurations(NamedTuple):
    """The labels of the atoms and bonds of a molecule that have a configuration, by their number.

    Attributes:
        atoms: ``"R"``, ``"S"``, ``"r"`` or ``"s"`` of tetrahedral centres; ``"other"`` of centres
            of other shapes, and of all centres where the labeller exceeds its bound.
        bonds: ``"Z"``, ``"E"``, ``"z"`` or ``"e"``; ``"any"`` where the text says that the
            configuration is unknown; ``"other"`` of axes of chirality, and past the bound.
    """

    atoms: dict[int, str]
    bonds: dict[int, str]


def configurations(molecule: Mol, bonds: Iterable[Bond] | None = None) -> Configurations:
    """Label the stereo centres and double bonds of a molecule, which is not changed.

    A centre of an enhanced group "and" or "or", of which a sample holds both forms or one that is
    unknown, has no label.

    Args:
        molecule: sanitised, with its stereochemistry assigned, as from ``MolFromSmiles``.
        bonds: those that may have a configuration; None for all bonds of the molecule.

    Returns:
        Labels that are the same for every order of atoms and bonds; empty where nothing is marked.

    >>> from rdkit import Chem
    >>> for text in ("C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O", "C[C@@H](N)C(=O)O"):
    ...     print(configurations(Chem.MolFromSmiles(text)).atoms)
    {1: 'S'}
    {1: 'S'}
    {1: 'R'}
    >>> configurations(Chem.MolFromSmiles("F/C=C/F")).bonds
    {1: 'E'}
    """
    if molecule.HasProp(_REMEMBERED):
        return _remembered(molecule)
    centres = [
        (atom.GetIdx(), int(atom.GetChiralTag()))
        for atom in molecule.GetAtomsMatchingQuery(_chiral_atom())
    ]
    some = molecule.GetBonds() if bonds is None else bonds
    marked = [(bond.GetIdx(), kind) for bond in some if (kind := int(bond.GetStereo()))]
    if not centres and not marked:
        return Configurations({}, {})
    relative = relative_centres(molecule)
    tetrahedral = [i for i, tag in centres if tag in TETRAHEDRAL and i not in relative]
    planar = [i for i, kind in marked if kind in PLANAR]
    named = _labels(molecule, relative, tetrahedral, planar)
    atoms = {i: OTHER for i, tag in centres if tag not in TETRAHEDRAL}
    others = {i: "any" if kind == ANY else OTHER for i, kind in marked if kind not in PLANAR}
    return Configurations(atoms | named.atoms, others | named.bonds)


@functools.cache
def _chiral_atom() -> QueryAtom:
    from rdkit.Chem.rdqueries import HasChiralTagQueryAtom

    return HasChiralTagQueryAtom()


def relative_centres(molecule: Mol) -> set[int]:
    """Name the atoms of the enhanced groups "and" and "or" of a CXSMILES, by their number.

    >>> from rdkit import Chem
    >>> relative_centres(Chem.MolFromSmiles("C[C@H](N)C(=O)O |&1:1|"))
    {1}
    """
    return {atom.GetIdx() for group in _relative_groups(molecule) for atom in group.GetAtoms()}


def without_relative(molecule: Mol) -> Mol:
    """Give the molecule without the configurations of its enhanced groups "and" and "or".

    A sample of such a group holds both forms, or one that is unknown: as a sample whose text has no
    stereo mark there.

    Args:
        molecule: sanitised; it is not changed.

    Returns:
        The molecule itself where it has no such group, else a copy.

    >>> from rdkit import Chem
    >>> Chem.MolToSmiles(without_relative(Chem.MolFromSmiles("C[C@H](N)C(=O)O |&1:1|")))
    'CC(N)C(=O)O'
    """
    if not (centres := relative_centres(molecule)):
        return molecule
    from rdkit import Chem

    copy = Chem.RWMol(molecule)
    for number in centres:
        copy.GetAtomWithIdx(number).SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    copy.SetStereoGroups([])  # a group of absolute centres says nothing more than their tags
    Chem.AssignStereochemistry(copy, cleanIt=True, force=True, flagPossibleStereoCenters=True)
    return copy.GetMol()


def atom_configuration(atom: Atom) -> str:
    """Label one atom as :func:`configurations` does; ``"none"`` for one without a configuration."""
    molecule = atom.GetOwningMol()
    if not int(atom.GetChiralTag()) and not molecule.HasProp(_REMEMBERED):
        return NONE
    return configurations(molecule).atoms.get(atom.GetIdx(), NONE)


def bond_configuration(bond: Bond) -> str:
    """Label one bond as :func:`configurations` does; ``"none"`` for one without a configuration."""
    molecule = bond.GetOwningMol()
    if not int(bond.GetStereo()) and not molecule.HasProp(_REMEMBERED):
        return NONE
    return configurations(molecule).bonds.get(bond.GetIdx(), NONE)


def remember(molecule: Mol, labels: Configurations) -> None:
    """Write labels to a molecule, which keeps them when atoms are removed.

    :func:`configurations` reads them in place of computing new ones.

    Args:
        molecule: is changed; its atoms and bonds get a property.
        labels: what :func:`configurations` gave of it.
    """
    for i, label in labels.atoms.items():
        molecule.GetAtomWithIdx(i).SetProp(_REMEMBERED, label)
    for i, label in labels.bonds.items():
        molecule.GetBondWithIdx(i).SetProp(_REMEMBERED, label)
    molecule.SetBoolProp(_REMEMBERED, True)


def _relative_groups(molecule: Mol) -> list[StereoGroup]:
    """The enhanced groups of which a sample holds both forms, or one that is unknown."""
    groups = molecule.GetStereoGroups()
    if not len(groups):
        return []
    from rdkit.Chem import StereoGroupType

    absolute = StereoGroupType.STEREO_ABSOLUTE
    return [group for group in groups if group.GetGroupType() != absolute]


def _remembered(molecule: Mol) -> Configurations:
    from rdkit.Chem.rdqueries import HasPropQueryAtom

    atoms = molecule.GetAtomsMatchingQuery(HasPropQueryAtom(_REMEMBERED))
    bonds = [bond for bond in molecule.GetBonds() if bond.HasProp(_REMEMBERED)]
    return Configurations(
        {atom.GetIdx(): atom.GetProp(_REMEMBERED) for atom in atoms},
        {bond.GetIdx(): bond.GetProp(_REMEMBERED) for bond in bonds},
    )


_CODE = "_CIPCode"
"""The property in which RDKit keeps labels, those of its older algorithm at first."""


def _labels(
    molecule: Mol, relative: set[int], atoms: list[int], bonds: list[int]
) -> Configurations:
    """Label these atoms and bonds; one that the rules do not tell apart has no entry."""
    from rdkit.Chem import ChiralType

    if not atoms and not bonds:
        return Configurations({}, {})
    # A copy: canonical SMILES and fingerprints read the labels that RDKit gave at parsing.
    copy = type(molecule)(molecule)
    for i in atoms:
        copy.GetAtomWithIdx(i).ClearProp(_CODE)
    for i in bonds:
        copy.GetBondWithIdx(i).ClearProp(_CODE)
    for i in relative:
        copy.GetAtomWithIdx(i).SetChiralTag(ChiralType.CHI_UNSPECIFIED)
    if _assign(copy, FIRST_STEPS):
        return Configurations(
            _codes(copy.GetAtomWithIdx, atoms), _codes(copy.GetBondWithIdx, bonds)
        )
    return _canonically(copy, atoms, bonds)


def _canonically(molecule: Mol, atoms: list[int], bonds: list[int]) -> Configurations:
    """Label the molecule of the canonical SMILES, or say ``"other"`` of every atom and bond."""
    from rdkit import Chem

    text = Chem.MolToSmiles(molecule)
    order = molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    place = {atom: new for new, atom in enumerate(order)}
    copy = Chem.MolFromSmiles(text, sanitize=False)
    if copy is None or copy.GetNumAtoms() != molecule.GetNumAtoms():
        raise RuntimeError(f"RDKit wrote the canonical SMILES {text!r} and does not read it back")
    Chem.SanitizeMol(copy)
    Chem.AssignStereochemistry(copy, cleanIt=True, force=True)
    if not _assign(copy, MOST_STEPS):
        return Configurations(dict.fromkeys(atoms, OTHER), dict.fromkeys(bonds, OTHER))

    def bond(number: int) -> Bond:
        old = molecule.GetBondWithIdx(number)
        return copy.GetBondBetweenAtoms(place[old.GetBeginAtomIdx()], place[old.GetEndAtomIdx()])

    return Configurations(
        _codes(lambda number: copy.GetAtomWithIdx(place[number]), atoms), _codes(bond, bonds)
    )


def _assign(molecule: Mol, steps: int) -> bool:
    """Write RDKit's labels to a molecule; False where that takes more than so many comparisons."""
    from rdkit.Chem.rdCIPLabeler import AssignCIPLabels

    try:
        AssignCIPLabels(molecule, maxRecursiveIterations=steps)
    except RuntimeError:  # too many comparisons, or too many copies of atoms
        return False
    return True


def _codes(
    get: Callable[[int], Atom] | Callable[[int], Bond], numbers: list[int]
) -> dict[int, str]:
    things = ((number, get(number)) for number in numbers)
    return {number: thing.GetProp(_CODE) for number, thing in things if thing.HasProp(_CODE)}
