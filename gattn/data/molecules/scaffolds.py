"""Splits of molecules by Bemis-Murcko scaffold."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from gattn.data.molecules.dataset import Molecules, smiles_of
from gattn.data.molecules.smiles import need_rdkit, parse_any_size
from gattn.data.splits import EIGHT_ONE_ONE, Split, cuts, ratio, split_by_groups


def scaffold_split(
    molecules: Sequence[str] | Molecules, *, fractions: tuple[float, float, float] = EIGHT_ONE_ONE
) -> Split:
    """Split molecules by Bemis-Murcko scaffold, so that no scaffold is in two parts.

    The split is deterministic, and its protocol is "scaffold 8:1:1". Molecules are grouped by
    scaffold (ring systems and the chains between them, without stereo); molecules without a ring
    form one group. The groups are assigned as a whole, in descending order of size; groups of
    equal size are ordered by their first molecule, the last one first. A group is added to the
    training part if it fits there, else to the validation part if it fits into the two parts
    together, else to the test part. This is DeepChem's convention, which most published results
    follow. The test part therefore contains the rare scaffolds, and scores are worse than with a
    random split and cannot be compared with it.

    Args:
        molecules: ``Molecules`` or a list of SMILES.
        fractions: fractions of train, val and test, which add up to 1; the first two are maxima.

    Returns:
        The split, each part in ascending order. If one group has more molecules than the training
        and validation parts may contain together, it is in the test part, and a warning says so
        if there are other molecules.

    Raises:
        ValueError: RDKit cannot read a SMILES, or the fractions are invalid.
        ImportError: RDKit is not installed.

    Reference: Bemis and Murcko, The Properties of Known Drugs. 1. Molecular Frameworks, J. Med.
    Chem. 1996 (doi 10.1021/jm9602928); Wu et al., MoleculeNet, Chem. Sci. 2018.

    >>> four = ["c1ccccc1", "Cc1ccccc1", "C1CC1", "CC"]
    >>> split = scaffold_split(four, fractions=(0.5, 0.25, 0.25))
    >>> split.train.tolist(), split.val.tolist(), split.test.tolist()
    ([0, 1], [3], [2])
    """
    smiles = smiles_of(molecules)
    scaffolds = [murcko_scaffold(text) for text in smiles]
    most = max(Counter(scaffolds).values(), default=0)
    if sum(cuts(len(smiles), fractions)) < most < len(smiles):
        warnings.warn(
            f"{most:,} of {len(smiles):,} molecules have one scaffold, or none, and are the "
            "test part, because they do not fit into another part: use a random split for "
            "such a table",
            stacklevel=2,
        )
    return split_by_groups(scaffolds, fractions, f"scaffold {ratio(fractions)}")


def murcko_scaffold(smiles: str) -> str:
    """Return a molecule's Bemis-Murcko scaffold as canonical SMILES, or "" if it has no ring.

    Raises:
        ValueError: RDKit cannot read the SMILES.
        ImportError: RDKit is not installed.

    >>> murcko_scaffold("CCc1ccccc1")
    'c1ccccc1'
    """
    need_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    with rdBase.BlockLogs():
        molecule = parse_any_size(smiles)
        return MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)
