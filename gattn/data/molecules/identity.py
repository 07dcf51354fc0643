"""Canonical SMILES of a molecule, used to compare molecules in splits, overlaps and duplicates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from gattn.data.molecules.smiles import need_rdkit, parse_any_size
from gattn.data.molecules.standardise import largest_fragment, neutral

if TYPE_CHECKING:
    from rdkit.Chem import Mol

    from gattn.data.molecules.dataset import Molecules

UNSTABLE = re.compile(r":\d+\]|\[H\]|->|<-")
"""Regular expression for atom maps, explicit hydrogens and dative bonds. If a molecule has one of
these, RDKit's canonical SMILES may depend on the input SMILES.
"""
READINGS = 4
"""Maximum number of times that a SMILES is parsed and written again until it does not change. In
tests the second time never changed a SMILES.
"""
METAL_STEREO = re.compile(r"@(SP|TB|OH)\d")
AUTOMORPHISMS = 2000
"""Maximum number of atom numberings that are compared for one molecule. An octahedral complex
with six equal ligands has 720.
"""


def molecule_identities(molecules: Sequence[str] | Molecules) -> list[str]:
    """Return the canonical SMILES of each molecule, which is the same for all SMILES of a molecule.

    The text is RDKit's canonical SMILES with stereo, charges and isotopes, but without atom map
    numbers, explicit hydrogens, CXSMILES extensions and names. Salts, tautomers, isotopes and
    stereoisomers have different texts, and a molecule without stereo marks has another text than
    its stereoisomers. A centre in an enhanced stereo group "and" or "or" is treated like a centre
    without a mark. Charges, aromatic rings and metal bonds are normalised only as far as RDKit's
    sanitisation does it.

    Args:
        molecules: ``Molecules`` or a list of SMILES.

    Returns:
        A list of k texts; an empty list for no molecules.

    Raises:
        ValueError: a SMILES cannot be read; see :func:`smiles_to_data`.
        ImportError: RDKit is not installed.

    >>> molecule_identities(["OCC", "[CH3:1][CH2:2][OH:3]", "[H]OCC", "C[CH2][OH] ethanol"])
    ['CCO', 'CCO', 'CCO', 'CCO']
    >>> molecule_identities(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"])
    ['C[C@H](N)C(=O)O', 'C[C@@H](N)C(=O)O', 'CC(N)C(=O)O']
    """
    # The import is inside the function, because the processes that read SMILES need no torch.
    from gattn.data.molecules.dataset import smiles_of

    need_rdkit()
    return [identity(parse_any_size(text)) for text in smiles_of(molecules)]


def identity(molecule: Mol) -> str:
    """Return the canonical text of one molecule; see :func:`molecule_identities`.

    RDKit's canonical SMILES still depends on the input in two cases. First, the molecule may have
    atom maps, explicit hydrogens or dative bonds. The SMILES is then parsed and written again until
    it does not change. Second, the codes of square planar and octahedral stereo centres depend on
    the order of equal ligands. The alphabetically first text over all orders is then returned.

    Args:
        molecule: a sanitised RDKit molecule.

    Returns:
        A SMILES; if it is parsed, the molecule has the same canonical text.
    """
    from rdkit import Chem

    text = Chem.MolToSmiles(molecule)
    if UNSTABLE.search(text):
        text = _repair(molecule)
    if "@" in text and METAL_STEREO.search(text):
        text = _first(text)
    return text


def _repair(molecule: Mol) -> str:
    """Write the canonical SMILES of a copy without atom maps, then parse and write it again until
    it does not change, at most READINGS times; return the last one.
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        plain = Chem.Mol(molecule)
        for atom in plain.GetAtoms():
            atom.SetAtomMapNum(0)
        # RDKit's stereochemistry may depend on the atom map numbers, so the SMILES without them is
        # parsed again.
        text = Chem.MolToSmiles(plain)
        for _ in range(READINGS):
            again = Chem.MolFromSmiles(text)
            last, text = text, text if again is None else Chem.MolToSmiles(again)
            if text == last:
                break
        return text


def _first(text: str) -> str:
    """Return the alphabetically first SMILES among all orders of equivalent ligands at metal
    centres, at most AUTOMORPHISMS; the text itself if there is none.
    """
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        bare = Chem.Mol(molecule)
        Chem.RemoveStereochemistry(bare)
        plan = Chem.MolFromSmiles(Chem.MolToSmiles(bare))
        orders = plan.GetSubstructMatches(bare, uniquify=False, maxMatches=AUTOMORPHISMS)
        # Each match is a tuple with the index of the matching atom in ``plan`` for every atom of
        # the molecule.
        renumberings = (sorted(range(len(order)), key=order.__getitem__) for order in orders)
        texts = (
            Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
            for order in islice(renumberings, AUTOMORPHISMS)
        )
        return min(texts, default=text)


CHARGED = re.compile(r"\.|[+-]\d*\]|\[(?:Li|Na|K|Rb|Cs|Mg|Ca|Ba|Ag|Zn|Al)\]")

NITRO = re.compile(r"O=\[N\+\]\(\[O-\]\)|\[N\+\]\(=O\)\[O-\]")
"""Pattern of a nitro group in canonical SMILES. Its charges are no sign of a salt."""


def parent(text: str) -> str:
    """Return the canonical SMILES of the largest organic fragment of a molecule, with neutralised
    charges.

    Args:
        text: a canonical SMILES from :func:`identity`.

    Returns:
        The canonical SMILES of the fragment. It is ``text`` itself if the molecule has one fragment
        without charges and metals, if it has no carbon, or if RDKit cannot read it or the fragment.

    Raises:
        ImportError: RDKit is not installed and the SMILES has several fragments, a charge or a
            metal.

    >>> parent("CC(=O)[O-].[Na+]"), parent("Cl.NCC"), parent("[Cl-].[Na+]"), parent("CCO")
    ('CC(=O)O', 'CCN', '[Cl-].[Na+]', 'CCO')
    """
    if not CHARGED.search(NITRO.sub("", text)):
        return text
    need_rdkit()
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None or not any(atom.GetAtomicNum() == 6 for atom in molecule.GetAtoms()):
            return text
        molecule = neutral(largest_fragment(molecule))
        again = Chem.MolFromSmiles(Chem.MolToSmiles(molecule))
        return text if again is None else identity(again)


def flat(text: str) -> str:
    """Return the canonical SMILES of a molecule, without stereochemistry.

    A text without stereochemistry, or that RDKit cannot read, is returned unchanged.

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
