"""The one rule for which texts are the same molecule: splits, overlaps and duplicates go by it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.smiles import need_rdkit, parse_any_size

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["IDENTITY", "flat", "identity", "molecule_identities", "parent"]

IDENTITY = "identity 2"
"""The version of the rule, for caches."""

UNSTABLE = re.compile(r":\d+\]|\[H\]|->|<-")
"""Atom maps, hydrogens and dative bonds, by which a canonical SMILES may depend on the text."""
READINGS = 4
"""A text is read again at most so often; of all molecules tried the second time changed nothing."""
METAL_STEREO = re.compile(r"@(SP|TB|OH)\d")
AUTOMORPHISMS = 2000
"""Bound on the atom numberings compared for one molecule; an octahedron of like ligands has 720."""


def molecule_identities(molecules: Sequence[str] | Molecules) -> list[str]:
    """Give each molecule a text that is the same for every way to write it.

    The text is RDKit's canonical SMILES with stereo, charges and isotopes, without atom map
    numbers, written-out hydrogens, CXSMILES extensions and names. Two molecules are the same where
    their texts are. So salts, tautomers, isotopes and stereoisomers are molecules apart, and one
    without stereo marks is another one than each of its stereoisomers. A centre of an enhanced
    group "and" or "or" counts as one without a mark. RDKit brings charges,
    aromatic rings and metal bonds into one form only where its sanitisation does.

    Args:
        molecules: molecules from :func:`read_smiles` and its kin, or SMILES.

    Returns:
        k texts; no molecules give none.

    Raises:
        ValueError: a SMILES that cannot be read; see :func:`smiles_to_data`.
        ImportError: RDKit is not installed.

    >>> molecule_identities(["OCC", "[CH3:1][CH2:2][OH:3]", "[H]OCC", "C[CH2][OH] ethanol"])
    ['CCO', 'CCO', 'CCO', 'CCO']
    >>> molecule_identities(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"])
    ['C[C@H](N)C(=O)O', 'C[C@@H](N)C(=O)O', 'CC(N)C(=O)O']
    """
    need_rdkit()
    return [identity(parse_any_size(text)) for text in smiles_of(molecules)]


def identity(molecule: Mol) -> str:
    """Give the text of one molecule; see :func:`molecule_identities`.

    RDKit's canonical SMILES is the same for nearly all writings. What it leaves open is closed
    here: atom maps, hydrogens and dative bonds (the text is read again until it does not change),
    and the numbers of square and octahedral stereo, which depend on the order of equal ligands (the
    first text of all orders is taken).

    Args:
        molecule: RDKit's, sanitised.

    Returns:
        SMILES that give the same text when they are read.
    """
    from rdkit import Chem

    text = Chem.MolToSmiles(molecule)
    if UNSTABLE.search(text):
        text = _repair(molecule)
    if "@" in text and METAL_STEREO.search(text):
        text = _first(text)
    return text


def _repair(molecule: Mol) -> str:
    """The canonical SMILES of the molecule without atom maps, read again until it is stable."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        plain = Chem.Mol(molecule)
        for atom in plain.GetAtoms():
            atom.SetAtomMapNum(0)
        # Reading also perceives the stereo again, which depended on the maps.
        text = Chem.MolToSmiles(plain)
        for _ in range(READINGS):
            again = Chem.MolFromSmiles(text)
            last, text = text, text if again is None else Chem.MolToSmiles(again)
            if text == last:
                break
        return text


def _first(text: str) -> str:
    """The first of the texts that a molecule of metal stereo has, over its automorphisms."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        bare = Chem.Mol(molecule)
        Chem.RemoveStereochemistry(bare)
        plan = Chem.MolFromSmiles(Chem.MolToSmiles(bare))
        orders = plan.GetSubstructMatches(bare, uniquify=False, maxMatches=AUTOMORPHISMS)
        # An order names, for each atom of the molecule, its place in the plan.
        renumberings = (sorted(range(len(order)), key=order.__getitem__) for order in orders)
        texts = (
            Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
            for order in islice(renumberings, AUTOMORPHISMS)
        )
        return min(texts, default=text)


CHARGED = re.compile(r"\.|[+-]\d*\]|\[(?:Li|Na|K|Rb|Cs|Mg|Ca|Ba|Ag|Zn|Al)\]")

NITRO = re.compile(r"O=\[N\+\]\(\[O-\]\)|\[N\+\]\(=O\)\[O-\]")
"""A nitro group as canonical SMILES write it: its charges are no salt's."""


def parent(text: str) -> str:
    """Give the identity of a molecule's largest organic fragment, with its charges neutralised.

    Args:
        text: an identity.

    Returns:
        The identity of the parent; that of the molecule itself where it has no second fragment, no
        charge and no metal, and where no fragment holds carbon.

    >>> parent("CC(=O)[O-].[Na+]"), parent("Cl.NCC"), parent("[Cl-].[Na+]"), parent("CCO")
    ('CC(=O)O', 'CCN', '[Cl-].[Na+]', 'CCO')
    """
    if not CHARGED.search(NITRO.sub("", text)):
        return text
    need_rdkit()
    from rdkit import Chem, rdBase
    from rdkit.Chem.MolStandardize import rdMolStandardize

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None or not any(atom.GetAtomicNum() == 6 for atom in molecule.GetAtoms()):
            return text
        molecule = rdMolStandardize.MetalDisconnector().Disconnect(molecule)
        molecule = rdMolStandardize.LargestFragmentChooser(preferOrganic=True).choose(molecule)
        molecule = rdMolStandardize.Uncharger().uncharge(molecule)
        again = Chem.MolFromSmiles(Chem.MolToSmiles(molecule))
        return text if again is None else identity(again)


def flat(text: str) -> str:
    """Give the identity of a molecule without its stereo.

    >>> flat("C[C@H](N)C(=O)O"), flat("C/C=C/C"), flat("CCO")
    ('CC(N)C(=O)O', 'CC=CC', 'CCO')
    """
    if not re.search(r"[@/\\]", text):
        return text
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            return text
        Chem.RemoveStereochemistry(molecule)
        again = Chem.MolFromSmiles(Chem.MolToSmiles(molecule))
        return text if again is None else identity(again)
