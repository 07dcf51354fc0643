"""Standardisation of molecules with RDKit: largest fragment, neutral form and canonical
tautomer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdkit.Chem import Mol


def largest_fragment(molecule: Mol) -> Mol:
    """Return the largest organic fragment of a molecule. Metal bonds of salts are cut first.

    A molecule without carbon, such as sodium chloride, is returned unchanged.

    Args:
        molecule: a sanitised RDKit molecule; it is not changed.

    >>> from rdkit.Chem import MolFromSmiles, MolToSmiles
    >>> MolToSmiles(largest_fragment(MolFromSmiles("Cl.NCC")))
    'CCN'
    """
    if not any(atom.GetAtomicNum() == 6 for atom in molecule.GetAtoms()):
        return molecule
    disconnected = _tool("MetalDisconnector").Disconnect(molecule)
    return _tool("LargestFragmentChooser", preferOrganic=True).choose(disconnected)


def neutral(molecule: Mol) -> Mol:
    """Return a molecule with neutralised acids and bases, as far as adding or removing hydrogens
    allows this.

    The charges of a nitro group or of a quaternary ammonium ion do not change.

    Args:
        molecule: a sanitised RDKit molecule; it is not changed.

    >>> from rdkit.Chem import MolFromSmiles, MolToSmiles
    >>> MolToSmiles(neutral(MolFromSmiles("C[NH2+]CC(=O)[O-]")))
    'CNCC(=O)O'
    """
    return _tool("Uncharger").uncharge(molecule)


def tautomer(molecule: Mol) -> Mol:
    """Return RDKit's canonical tautomer, which is the same for all tautomers of a molecule.

    The canonical tautomer is a convention and not the most stable form. Stereo marks stay where
    the canonical tautomer has the atom or double bond that carries them: RDKit's default would
    remove them from each atom that can take part in tautomerism, for example from amino acids.
    RDKit compares at most 1,000 tautomers, so the result for a very large molecule may depend on
    the input.

    Args:
        molecule: a sanitised RDKit molecule; it is not changed.

    >>> from rdkit.Chem import MolFromSmiles, MolToSmiles
    >>> MolToSmiles(tautomer(MolFromSmiles("Oc1ccccn1")))
    'O=c1cccc[nH]1'
    """
    return _enumerator().Canonicalize(molecule)


STEPS: dict[str, Callable[[Any], Any]] = {
    "largest-fragment": largest_fragment,
    "neutral": neutral,
    "tautomer": tautomer,
}
"""Steps of the standardisation by name, in the order in which they are applied."""


def standardise(molecule: Mol, steps: Sequence[str]) -> str:
    """Standardise a molecule and return its SMILES.

    Args:
        molecule: a sanitised RDKit molecule; it is not changed.
        steps: names of :data:`STEPS`. They are applied in the order of that table, whatever their
            order here.

    Returns:
        The canonical SMILES of the result.

    Raises:
        ValueError: a step has another name, or RDKit cannot standardise the molecule.

    >>> from rdkit.Chem import MolFromSmiles
    >>> standardise(MolFromSmiles("[Na+].[O-]c1ccccn1"), ["tautomer", "largest-fragment"])
    '[O-]c1ccccn1'
    >>> standardise(MolFromSmiles("[Na+].[O-]c1ccccn1"), list(STEPS))
    'O=c1cccc[nH]1'
    """
    from rdkit import Chem, rdBase

    if unknown := [step for step in steps if step not in STEPS]:
        raise ValueError(
            f"a step of the standardisation must be one of {', '.join(STEPS)}; got {unknown[0]!r}"
        )
    with rdBase.BlockLogs():
        try:
            for name, apply in STEPS.items():
                if name in steps:
                    molecule = apply(molecule)
            return Chem.MolToSmiles(molecule)
        except (RuntimeError, ValueError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(f"RDKit cannot standardise the molecule: {reason}") from error


@functools.cache
def _enumerator() -> Any:
    """Return RDKit's enumerator of tautomers, set to preserve stereochemistry."""
    tool = _tool("TautomerEnumerator")
    tool.SetRemoveSp3Stereo(False)
    tool.SetRemoveBondStereo(False)
    return tool


@functools.cache
def _tool(name: str, **options: bool) -> Any:
    """Return one of RDKit's tools; creating it takes longer than using it."""
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return getattr(rdMolStandardize, name)(**options)
