"""CIP labels of stereo centres and double bonds. They do not depend on the order of the atoms.

RDKit's chiral tag is the sense (clockwise or counterclockwise) in which the neighbours of an atom
follow one another in the text, so it changes with the text. The labels of the CIP rules (R and S, r
and s for pseudoasymmetric centres, E and Z) depend only on the molecule.

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

CHIRALITIES = ("none", "R", "S", "r", "s")
"""Labels of the configurations of atoms; ``OTHER`` stands for a configuration without a label."""
STEREOS = ("none", "any", "Z", "E", "z", "e")
"""Labels of the configurations of bonds; ``OTHER`` stands for a configuration without a label."""
NONE, OTHER = "none", "other"

TETRAHEDRAL, PLANAR, ANY = (1, 2), (2, 3, 4, 5), 1
"""RDKit's numbers for the chiral tags of tetrahedral centres, and for the stereo of double bonds.
"""

FIRST_STEPS, MOST_STEPS = 500_000, 5_000_000
"""Maximum number of comparisons in RDKit's labeller: first in the order of the text, then in
canonical order.

None of 2,500 molecules of MoleculeNet with stereo marks needs 50,000 comparisons; 147 of 13,000
molecules of ChEMBL do. The first bound takes about 0.2 s. A molecule that exceeds it is labelled
again in the order of its canonical SMILES with the second bound, so that the order of the text does
not decide whether the molecule has labels.
"""

_REMEMBERED = "_gattn_configuration"


class Configurations(NamedTuple):
    """Stereo labels of the atoms and bonds of a molecule, by atom index and by bond index.

    Attributes:
        atoms: ``"R"``, ``"S"``, ``"r"`` or ``"s"`` for tetrahedral centres; ``"other"`` for centres
            of other shapes, and for all centres if the labeller exceeds its bound.
        bonds: ``"Z"``, ``"E"``, ``"z"`` or ``"e"`` for double bonds; ``"any"`` if the text marks
            the configuration as unknown; ``"other"`` for axes of chirality, and for all bonds if
            the labeller exceeds its bound.
    """

    atoms: dict[int, str]
    bonds: dict[int, str]


def configurations(molecule: Mol, bonds: Iterable[Bond] | None = None) -> Configurations:
    """Compute the CIP labels of the stereo centres and double bonds of a molecule.

    A centre in an enhanced stereo group "and" or "or" has no label, because a sample contains both
    forms or an unknown one.

    Args:
        molecule: a sanitised molecule with assigned stereochemistry, as ``MolFromSmiles`` returns
            it; it is not changed.
        bonds: the bonds that may have a configuration; None for all bonds of the molecule.

    Returns:
        Labels, which do not depend on the order of atoms and bonds; empty without stereo marks.
        Labels that :func:`remember` stored are returned for all bonds.

    Raises:
        RuntimeError: RDKit cannot read the canonical SMILES that it wrote.

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
    """Return the indices of the atoms in the enhanced stereo groups "and" and "or" of a CXSMILES.

    >>> from rdkit import Chem
    >>> relative_centres(Chem.MolFromSmiles("C[C@H](N)C(=O)O |&1:1|"))
    {1}
    """
    return {atom.GetIdx() for group in _relative_groups(molecule) for atom in group.GetAtoms()}


def without_relative(molecule: Mol) -> Mol:
    """Remove the configurations of the atoms in the enhanced stereo groups "and" and "or".

    A sample with such a group contains both forms or an unknown one, which is the same as for a
    SMILES without a stereo mark at these atoms.

    Args:
        molecule: a sanitised molecule; it is not changed.

    Returns:
        A copy, or the molecule itself if it has no such group.

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
    # No information is lost: stereo groups of type "absolute" only repeat the chiral tags.
    copy.SetStereoGroups([])
    Chem.AssignStereochemistry(copy, cleanIt=True, force=True, flagPossibleStereoCenters=True)
    return copy.GetMol()


def atom_configuration(atom: Atom) -> str:
    """Return the label of one atom (:func:`configurations`), or ``"none"`` if it has none. Raises
    RuntimeError as :func:`configurations`.
    """
    molecule = atom.GetOwningMol()
    if not int(atom.GetChiralTag()) and not molecule.HasProp(_REMEMBERED):
        return NONE
    return configurations(molecule).atoms.get(atom.GetIdx(), NONE)


def bond_configuration(bond: Bond) -> str:
    """Return the label of one bond (:func:`configurations`), or ``"none"`` if it has none. Raises
    RuntimeError as :func:`configurations`.
    """
    molecule = bond.GetOwningMol()
    if not int(bond.GetStereo()) and not molecule.HasProp(_REMEMBERED):
        return NONE
    return configurations(molecule).bonds.get(bond.GetIdx(), NONE)


def remember(molecule: Mol, labels: Configurations) -> None:
    """Store stereo labels as properties of a molecule's atoms and bonds. They are preserved when
    atoms are removed.

    :func:`configurations` then returns the stored labels instead of computing new ones.

    Args:
        molecule: the molecule, which is changed.
        labels: the result of :func:`configurations` for this molecule.
    """
    for i, label in labels.atoms.items():
        molecule.GetAtomWithIdx(i).SetProp(_REMEMBERED, label)
    for i, label in labels.bonds.items():
        molecule.GetBondWithIdx(i).SetProp(_REMEMBERED, label)
    molecule.SetBoolProp(_REMEMBERED, True)


def _relative_groups(molecule: Mol) -> list[StereoGroup]:
    """Return the enhanced stereo groups of the types "and" and "or"."""
    groups = molecule.GetStereoGroups()
    if not len(groups):
        return []
    from rdkit.Chem import StereoGroupType

    absolute = StereoGroupType.STEREO_ABSOLUTE
    return [group for group in groups if group.GetGroupType() != absolute]


def _remembered(molecule: Mol) -> Configurations:
    """Return the configurations of atoms and bonds that are stored as properties of the
    molecule.
    """
    from rdkit.Chem.rdqueries import HasPropQueryAtom

    atoms = molecule.GetAtomsMatchingQuery(HasPropQueryAtom(_REMEMBERED))
    bonds = [bond for bond in molecule.GetBonds() if bond.HasProp(_REMEMBERED)]
    return Configurations(
        {atom.GetIdx(): atom.GetProp(_REMEMBERED) for atom in atoms},
        {bond.GetIdx(): bond.GetProp(_REMEMBERED) for bond in bonds},
    )


_CODE = "_CIPCode"
"""Name of RDKit's property for the CIP label. The parser sets it by an older algorithm."""


def _labels(
    molecule: Mol, relative: set[int], atoms: list[int], bonds: list[int]
) -> Configurations:
    """Compute the CIP labels of the given atoms and bonds. Those that are not stereogenic are left
    out. Centres in ``relative`` have no chirality in the computation. The molecule is not changed.
    Raises RuntimeError as :func:`_canonically`.
    """
    from rdkit.Chem import ChiralType

    if not atoms and not bonds:
        return Configurations({}, {})
    # The CIP labels are assigned to a copy of the molecule, because RDKit's canonical SMILES and
    # fingerprints must use the labels that its parser assigned.
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
    """Compute the CIP labels of these atoms and bonds after the atoms were reordered as in the
    canonical SMILES; return them by the indices of ``molecule``. All labels are ``"other"`` if the
    labeller exceeds :data:`MOST_STEPS`. Raises RuntimeError if RDKit cannot read the SMILES that it
    wrote.
    """
    from rdkit import Chem

    text = Chem.MolToSmiles(molecule)
    order = molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    place = {atom: new for new, atom in enumerate(order)}
    copy = Chem.MolFromSmiles(text, sanitize=False)
    if copy is None or copy.GetNumAtoms() != molecule.GetNumAtoms():
        raise RuntimeError(f"RDKit wrote the canonical SMILES {text!r} but cannot read it")
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
    """Assign CIP labels to the atoms and bonds of a molecule, in place, with RDKit; return False if
    this takes more than ``steps`` comparisons.
    """
    from rdkit.Chem.rdCIPLabeler import AssignCIPLabels

    try:
        AssignCIPLabels(molecule, maxRecursiveIterations=steps)
    except RuntimeError:
        # RDKit raises a RuntimeError if the CIP labeller exceeds its limit of iterations or copies
        # too many atoms.
        return False
    return True


def _codes(
    get: Callable[[int], Atom] | Callable[[int], Bond], numbers: list[int]
) -> dict[int, str]:
    """Return the CIP label of each atom or bond that has one, by its number. ``get`` returns the
    atom or bond with a number.
    """
    things = ((number, get(number)) for number in numbers)
    return {number: thing.GetProp(_CODE) for number, thing in things if thing.HasProp(_CODE)}
