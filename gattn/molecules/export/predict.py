"""Predict properties of molecules with an exported model, without gattn and PyTorch.

    pip install numpy onnxruntime rdkit
    python predict.py IN.csv OUT.csv

``gattn molecules export`` writes this file to a folder together with

- ``model.json``: names of targets and classes, and the settings of the featuriser;
- ``arrays.npz``: the Gaussian process and the forest, the weights of the parts, the calibration;
- ``network.onnx``: the networks of the ensemble, if the model has any;
- ``table_reader``: the reader and writer of tables of ``gattn molecules predict``.

From Python:

    from predict import ExportedModel
    model = ExportedModel("FOLDER")
    prediction = model.predict(["CCO", "c1ccccc1"])
    prediction["mean"], prediction["lower"], prediction["upper"], prediction["errors"]

The numbers are those of ``gattn molecules predict`` up to rounding. A CXSMILES extension is an
error here.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import string
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.rdCIPLabeler import AssignCIPLabels

from gattn.data.tables.formats import open_molecules
from gattn.files import check_table_ending, new_file

Array = Any
"""Type of a NumPy array, or of numbers that NumPy converts to one."""

FORMAT = 4
"""Version of the content of the folder."""
BATCH = 256
"""Number of rows that are computed at once, to limit the memory."""
FEW_STEPS, MANY_STEPS = 500_000, 5_000_000
"""Maximum number of comparisons in RDKit's CIP labeller: first in the order of the text, then in
canonical order.
"""
BLANK = string.whitespace + "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
BLANK += "".join(map(chr, range(0x2000, 0x2010))) + "\u2060\xad"
"""White space and invisible characters, which are removed from both ends of a cell."""
MAP = re.compile(r":\d+\]")
LABEL = "_label"


class Molecule(NamedTuple):
    """Molecule with n atoms and b bonds: features of the atoms and bonds, fingerprints, and
    descriptors.
    """

    atoms: Array
    bonds: Array
    ends: Array
    counts: Array
    pairs: Array
    descriptors: Array


class Featuriser:
    """Converter from SMILES to the inputs of the model.

    Args:
        settings: the entry ``featuriser`` of ``model.json``.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.morgan = rdFingerprintGenerator.GetMorganGenerator(
            radius=settings["radius"], fpSize=settings["columns"]
        )
        self.properties = rdMolDescriptors.Properties(settings["properties"])

    def read(self, text: str) -> Molecule:
        """Compute the inputs of one molecule.

        Raises:
            ValueError: the text is not the SMILES of a molecule that the model reads.
        """
        smiles = _without_name(text)
        if self.settings["ignore_stereo"]:
            smiles = re.sub(r"[/\\]|@(?:@|(?:TH|AL|SP|TB|OH)\d+)?", "", smiles)
        with rdBase.BlockLogs():
            molecule = _parse(smiles, self.settings["max_atoms"])
            if self.settings["standardize"]:
                smiles = Chem.MolToSmiles(_standardise(molecule, self.settings["standardize"]))
                molecule = _parse(smiles, self.settings["max_atoms"])
            molecule, labels = _without_hydrogens(molecule, smiles)
            graph = Chem.AddHs(molecule) if self.settings["add_h"] else molecule
            atoms, bonds, ends = self._graph(graph, *labels)
            return Molecule(
                atoms, bonds, ends,
                self._counts(molecule, *labels),
                self._pairs(atoms, bonds, ends),
                self._descriptors(molecule),
            )  # fmt: skip

    def _graph(
        self, molecule: Any, centres: dict[int, str], planes: dict[int, str]
    ) -> tuple[Array, Array, Array]:
        """Return the features of the atoms, the features of the bonds, and the two atoms of each
        bond.
        """
        of_atoms, of_bonds = self.settings["atoms"], self.settings["bonds"]
        atoms = [
            [
                *_one_hot(atom.GetSymbol(), of_atoms["element"]),
                *_one_hot(atom.GetDegree(), of_atoms["degree"]),
                *_one_hot(atom.GetFormalCharge(), of_atoms["charge"]),
                *_one_hot(centres.get(atom.GetIdx(), "none"), of_atoms["chirality"]),
                *_one_hot(atom.GetTotalNumHs(), of_atoms["hydrogens"]),
                *_one_hot(atom.GetHybridization().name, of_atoms["hybridisation"]),
                float(atom.GetIsAromatic()),
                float(atom.IsInRing()),
                atom.GetMass() / 100,
            ]
            for atom in molecule.GetAtoms()
        ]
        bonds = [
            [
                *_one_hot(bond.GetBondType().name, of_bonds["order"]),
                *_one_hot(planes.get(bond.GetIdx(), "none"), of_bonds["stereo"]),
                float(bond.GetIsConjugated()),
                float(bond.IsInRing()),
            ]
            for bond in molecule.GetBonds()
        ]
        ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
        width = sum(len(values) + 1 for values in of_bonds.values()) + 2
        return (
            np.array(atoms, np.float32),
            np.array(bonds, np.float32).reshape(-1, width),
            np.array(ends, np.int64).reshape(-1, 2),
        )

    def _counts(self, molecule: Any, centres: dict[int, str], planes: dict[int, str]) -> Array:
        """Count the Morgan environments of a molecule, with and without configurations:
        [columns]. A count is at most 255.
        """
        codes = list(rdMolDescriptors.GetConnectivityInvariants(molecule))
        for atom, label in centres.items():
            codes[atom] = (codes[atom] + self.settings["centre_codes"][label]) % 2**32
        for number, label in planes.items():
            bond = molecule.GetBondWithIdx(number)
            for atom in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()):
                codes[atom] = (codes[atom] + self.settings["plane_codes"][label]) % 2**32
        counts = np.zeros(self.settings["columns"], np.int64)
        for invariants in ([], codes):
            fingerprint = self.morgan.GetCountFingerprint(molecule, customAtomInvariants=invariants)
            for column, count in fingerprint.GetNonzeroElements().items():
                counts[column] += count
        return np.minimum(counts, 255).astype(np.uint8)

    def _pairs(self, atoms: Array, bonds: Array, ends: Array) -> Array:
        """Count the pairs of heavy atoms that are close to each other: [columns]. A count is at
        most 255. All counts are 0 if the model does not read them.
        """
        width = self.settings["columns"]
        if not self.settings["pairs"]:
            return np.zeros(width, np.uint8)
        heavy = atoms[:, self.settings["atoms"]["element"].index("H")] == 0
        near: list[list[int]] = [[] for _ in atoms]
        for one, other in ends[heavy[ends].all(1)].tolist():
            near[one].append(other)
            near[other].append(one)
        triples: list[tuple[int, int, int]] = []
        for atom in range(len(atoms)):
            seen, layer = {atom}, {atom}
            for steps in range(1, self.settings["pair_distance"] + 1):
                layer = {other for one in layer for other in near[one]} - seen
                seen |= layer
                triples += [(atom, other, steps) for other in layer if other > atom]
        first, second, steps = np.array(triples, np.uint32).reshape(-1, 3).T
        codes = self._pair_codes(atoms, bonds, ends, np.array(list(map(len, near))))
        one, other = codes[first], codes[second]
        # This is the hash function of RDKit's atom pairs, in integers of 32 bits.
        column = np.zeros(len(triples), np.uint32)
        for part in (np.minimum(one, other), steps, np.maximum(one, other)):
            column ^= (
                part + np.uint32(0x9E3779B9) + (column << np.uint32(6)) + (column >> np.uint32(2))
            )
        counts = np.bincount(column % np.uint32(width), minlength=width)
        return np.minimum(counts, 255).astype(np.uint8)

    def _pair_codes(self, atoms: Array, bonds: Array, ends: Array, degrees: Array) -> Array:
        """Return the code of each atom in the hash codes of its pairs: [n] uint32.

        It contains the element, the number of neighbours and the number of pi electrons.
        """
        of_atoms, orders = self.settings["atoms"], self.settings["bonds"]["order"]
        element = atoms[:, : len(of_atoms["element"]) + 1].argmax(1)
        multiple = bonds[:, orders.index("DOUBLE")] + 2 * bonds[:, orders.index("TRIPLE")]
        electrons = np.bincount(ends.ravel(), multiple.repeat(2), len(atoms))
        # The last columns of an atom are its hybridisation, the flag of aromatic atoms, the flag of
        # atoms in rings, and the mass.
        hybridisations = atoms[:, -4 - len(of_atoms["hybridisation"]) : -3]
        electrons[hybridisations[:, of_atoms["hybridisation"].index("SP3")] == 1] = 0
        electrons[atoms[:, -3] == 1] = 1
        codes = np.array(self.settings["element_codes"])[element] << 5
        return (codes | electrons.astype(int) % 3 << 3 | degrees % 7).astype(np.uint32)

    def _descriptors(self, molecule: Any) -> Array:
        rd = rdMolDescriptors
        values = np.array(
            [
                *self.properties.ComputeProperties(molecule),
                rd.CalcNumRotatableBonds(molecule, rd.NumRotatableBondsOptions.NonStrict),
                *rd.CalcCrippenDescriptors(molecule, includeHs=False),
                *rd.SlogP_VSA_(molecule),
                *rd.SMR_VSA_(molecule),
                *rd.PEOE_VSA_(_in_canonical_order(molecule)),
            ],
            np.float32,
        )
        return np.where(np.isfinite(values), values, np.float32(0))


def _without_name(text: str) -> str:
    """Return the SMILES in a cell, without a name after it and without atom map numbers.

    Raises:
        ValueError: the cell is empty, or contains an extension, several molecules or a character
            that SMILES do not have.
    """
    text = text.strip(BLANK)
    if not text:
        raise ValueError("the SMILES is empty")
    if "\n" in text or "\r" in text:
        raise ValueError("the SMILES has several lines: a cell must contain one molecule")
    smiles, *rest = re.split(r"[ \t]+", text, maxsplit=1)
    if rest and rest[0].startswith("|"):
        raise ValueError("an exported model reads no CXSMILES extension")
    if not smiles.isprintable() or re.search(r"\[#|~", smiles):
        raise ValueError(f"not valid SMILES: {smiles!a}")
    smiles = MAP.sub("]", smiles)
    if rest:
        _check_name(smiles, rest[0].split()[0])
    return smiles


def _check_name(smiles: str, word: str) -> None:
    """Raise an error if the word after a SMILES is a second SMILES or continues the first one."""
    with rdBase.BlockLogs():
        if not word.isascii() or _molecule(smiles, sanitize=False) is None:
            return
        if _molecule(word, sanitize=False) is not None:
            raise ValueError(
                f"{word!r} follows the SMILES {smiles!r} and is also valid SMILES: a cell must "
                f"contain one molecule (a mixture is {smiles}.{word}); if it is a name, put it "
                "into another column"
            )
        if _molecule(smiles + word, sanitize=False) is not None:
            raise ValueError(f"the SMILES contains white space between {smiles!r} and {word!r}")


def _molecule(smiles: str, *, sanitize: bool = True) -> Any:
    """Parse a SMILES with RDKit; return None if this fails."""
    try:
        return Chem.MolFromSmiles(smiles, sanitize=sanitize) if smiles.isascii() else None
    except RuntimeError:
        # RDKit raises a RuntimeError if a check in its C++ code fails, for example for an unknown
        # element.
        return None


def _parse(smiles: str, max_atoms: int) -> Any:
    molecule = _molecule(smiles)
    if molecule is None:
        raise ValueError(f"not valid SMILES: {smiles!a}")
    if not 0 < molecule.GetNumAtoms() <= max_atoms:
        raise ValueError(
            f"the molecule must have 1 to {max_atoms} atoms; it has {molecule.GetNumAtoms()}"
        )
    return molecule


def _one_hot(value: object, values: Sequence[object]) -> list[float]:
    """Return the one-hot code of a value. The last column stands for all other values."""
    code = [0.0] * (len(values) + 1)
    code[values.index(value) if value in values else -1] = 1.0
    return code


def _standardise(molecule: Any, steps: Sequence[str]) -> Any:
    if "largest-fragment" in steps and any(a.GetAtomicNum() == 6 for a in molecule.GetAtoms()):
        molecule = rdMolStandardize.MetalDisconnector().Disconnect(molecule)
        chooser = rdMolStandardize.LargestFragmentChooser(preferOrganic=True)
        molecule = chooser.choose(molecule)
    if "neutral" in steps:
        molecule = rdMolStandardize.Uncharger().uncharge(molecule)
    if "tautomer" in steps:
        enumerator = rdMolStandardize.TautomerEnumerator()
        enumerator.SetRemoveSp3Stereo(False)
        enumerator.SetRemoveBondStereo(False)
        molecule = enumerator.Canonicalize(molecule)
    return molecule


def _without_hydrogens(
    molecule: Any, smiles: str
) -> tuple[Any, tuple[dict[int, str], dict[int, str]]]:
    """Remove explicit hydrogen atoms; return the stereo labels of the atoms and of the bonds.

    A configuration that is defined by a hydrogen keeps its label.
    """
    hydrogens = []
    if re.search(r"\[\d*H(?![a-z])", smiles):
        hydrogens = [atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetAtomicNum() == 1]
    if not hydrogens:
        return molecule, _configurations(molecule, smiles)
    molecule = Chem.Mol(molecule)
    for number in hydrogens:
        molecule.GetAtomWithIdx(number).SetIsotope(0)
    Chem.AssignStereochemistry(molecule, cleanIt=True, force=True, flagPossibleStereoCenters=True)
    centres, planes = _configurations(molecule, smiles)
    for number, label in centres.items():
        molecule.GetAtomWithIdx(number).SetProp(LABEL, label)
    for number, label in planes.items():
        molecule.GetBondWithIdx(number).SetProp(LABEL, label)
    molecule = Chem.RemoveHs(molecule, _removal())
    return molecule, (_labels(molecule.GetAtoms(), LABEL), _labels(molecule.GetBonds(), LABEL))


def _removal() -> Any:
    """Return RDKit's parameters for the removal of explicit hydrogens."""
    removal = Chem.RemoveHsParameters()
    removal.removeDefiningBondStereo, removal.showWarnings = True, False
    return removal


def _labels(parts: Any, name: str) -> dict[int, str]:
    return {part.GetIdx(): part.GetProp(name) for part in parts if part.HasProp(name)}


def _configurations(molecule: Any, smiles: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return the CIP labels of the stereo centres and of the double bonds."""
    if not re.search(r"[@/\\]", smiles):
        return {}, {}
    tags = {atom.GetIdx(): int(atom.GetChiralTag()) for atom in molecule.GetAtoms()}
    kinds = {}
    if re.search(r"[/\\]", smiles):
        kinds = {bond.GetIdx(): int(bond.GetStereo()) for bond in molecule.GetBonds()}
    centres = {number: "other" for number, tag in tags.items() if tag > 2}
    planes = {
        i: "any" if kind == 1 else "other" for i, kind in kinds.items() if kind not in range(2, 6)
    }
    planes = {number: label for number, label in planes.items() if kinds[number]}
    atoms = [number for number, tag in tags.items() if tag in (1, 2)]
    bonds = [number for number, kind in kinds.items() if kind in range(2, 6)]
    if not atoms and not bonds:
        return centres, planes
    copy = Chem.Mol(molecule)
    for part in (*map(copy.GetAtomWithIdx, atoms), *map(copy.GetBondWithIdx, bonds)):
        part.ClearProp("_CIPCode")
    if _assign(copy, FEW_STEPS):
        named = _labels(copy.GetAtoms(), "_CIPCode"), _labels(copy.GetBonds(), "_CIPCode")
    else:
        named = _canonical_labels(copy, atoms, bonds)
    centres |= {number: label for number, label in named[0].items() if number in atoms}
    planes |= {number: label for number, label in named[1].items() if number in bonds}
    return centres, planes


def _canonical_labels(
    molecule: Any, atoms: Sequence[int], bonds: Sequence[int]
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the CIP labels after the atoms were reordered as in the canonical SMILES."""
    text = Chem.MolToSmiles(molecule)
    order = molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
    place = {atom: number for number, atom in enumerate(order)}
    copy = Chem.MolFromSmiles(text, sanitize=False)
    Chem.SanitizeMol(copy)
    Chem.AssignStereochemistry(copy, cleanIt=True, force=True)
    if not _assign(copy, MANY_STEPS):
        return dict.fromkeys(atoms, "other"), dict.fromkeys(bonds, "other")
    of_atoms, of_bonds = _labels(copy.GetAtoms(), "_CIPCode"), _labels(copy.GetBonds(), "_CIPCode")
    numbers = {}
    for number in bonds:
        bond = molecule.GetBondWithIdx(number)
        ends = place[bond.GetBeginAtomIdx()], place[bond.GetEndAtomIdx()]
        numbers[number] = copy.GetBondBetweenAtoms(*ends).GetIdx()
    return (
        {number: of_atoms[place[number]] for number in atoms if place[number] in of_atoms},
        {number: of_bonds[other] for number, other in numbers.items() if other in of_bonds},
    )


def _assign(molecule: Any, steps: int) -> bool:
    """Assign CIP labels; return False if this takes more than ``steps`` comparisons."""
    try:
        AssignCIPLabels(molecule, maxRecursiveIterations=steps)
    except RuntimeError:
        return False
    return True


def _in_canonical_order(molecule: Any) -> Any:
    """Renumber atoms in canonical order, because partial charges depend on the order of charged
    atoms of the same element.
    """
    charged = [atom.GetAtomicNum() for atom in molecule.GetAtoms() if atom.GetFormalCharge()]
    if len(charged) == len(set(charged)):
        return molecule
    ranks = list(Chem.CanonicalRankAtoms(molecule, includeChirality=False))
    return Chem.RenumberAtoms(molecule, sorted(range(len(ranks)), key=ranks.__getitem__))


class Inputs(NamedTuple):
    """Inputs of a model for k molecules: arrays for the network, and fingerprints and descriptors
    for the Gaussian process.
    """

    network: dict[str, Array]
    counts: Array
    pairs: Array
    descriptors: Array


def join(molecules: Sequence[Molecule]) -> Inputs:
    """Join k molecules to the inputs of a model."""
    sizes = np.array([len(molecule.atoms) for molecule in molecules], np.int64)
    bonds = np.array([len(molecule.bonds) for molecule in molecules], np.int64)
    ends = np.concatenate([molecule.ends for molecule in molecules])
    ends = ends + (sizes.cumsum() - sizes).repeat(bonds)[:, None]
    network = {
        "atoms": np.concatenate([molecule.atoms for molecule in molecules]),
        "edges": np.stack([ends, ends[:, ::-1]], 1).reshape(-1, 2).T.copy(),
        "bonds": np.concatenate([molecule.bonds for molecule in molecules]).repeat(2, 0),
        "molecule": np.arange(len(molecules)).repeat(sizes),
        "sizes": sizes,
    }
    return Inputs(
        network,
        np.stack([molecule.counts for molecule in molecules]),
        np.stack([molecule.pairs for molecule in molecules]),
        np.stack([molecule.descriptors for molecule in molecules]).astype(float),
    )


class GaussianProcess:
    """Gaussian process on fingerprints and descriptors.

    Args:
        arrays: training fingerprints, descriptors, hyperparameters and the solution of the kernel
            equation. A model without the array ``pairs`` compares no atom pairs.
        groups: the first and the last column of each group of descriptors.
        variance: whether variances are needed.
    """

    def __init__(self, arrays: dict[str, Array], groups: Array, variance: bool) -> None:
        self.arrays, self.groups, self.variance = arrays, groups, variance
        self.kinds = [arrays[name] for name in ("counts", "pairs") if name in arrays]
        self.by_column = [np.ascontiguousarray(counts.T) for counts in self.kinds]
        self.total = [counts.sum(1, dtype=np.float32) for counts in self.kinds]

    @cached_property
    def factors(self) -> list[tuple[Array, Array]]:
        """For each target, its labelled training molecules, and the inverse of the Cholesky
        factor of their kernel matrix.
        """
        parts = self._compare(self.kinds, self.arrays["descriptors"])
        factors = []
        for theta, added in zip(self.arrays["theta"], self.arrays["added"].T):
            rows = np.flatnonzero(np.isfinite(added))
            kernel = _kernel([part[np.ix_(rows, rows)] for part in parts], theta)
            kernel[np.diag_indices(len(rows))] += added[rows]
            factors.append((rows, np.linalg.inv(np.linalg.cholesky(kernel))))
        return factors

    def predict(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return the means [k, t] and the variances [k, t], in the targets' units."""
        arrays, raw = self.arrays, inputs.descriptors
        counts = [inputs.counts, inputs.pairs][: len(self.kinds)]
        z = np.clip((raw - arrays["center"]) / arrays["width"], -arrays["clip"], arrays["clip"])
        parts = self._compare(counts, z)
        kernels = [_kernel(parts, theta) for theta in arrays["theta"]]
        means = np.stack([k @ a for k, a in zip(kernels, arrays["alpha"].T)], 1)
        variances = np.zeros_like(means)
        if self.variance:
            itself = [each.any(1).astype(float) for each in counts]
            for begin, end in self.groups:
                square = (z[:, begin:end] ** 2).sum(1) / max(end - begin, 1)
                itself += [np.zeros_like(square), square]
            for i, (theta, (rows, inverse)) in enumerate(zip(arrays["theta"], self.factors)):
                half = inverse @ kernels[i][:, rows].T
                noise = np.exp(theta[0]) + arrays["jitter"]
                variances[:, i] = _kernel(itself, theta) + noise - (half**2).sum(0)
        scale = arrays["scale"]
        return means * scale + arrays["mean"], np.maximum(variances, 0) * scale**2

    def _compare(self, counts: Sequence[Array], z: Array) -> list[Array]:
        """Compare molecules with the training molecules. The result is the Tanimoto
        similarities, and for each group of descriptors the squared distances and the dot
        products, [k, n] each.
        """
        parts = [_tanimoto(*each) for each in zip(counts, self.by_column, self.total)]
        for begin, end in self.groups:
            some, others = z[:, begin:end], self.arrays["descriptors"][:, begin:end]
            product, features = some @ others.T, max(end - begin, 1)
            squares = (some**2).sum(1)[:, None] + (others**2).sum(1) - 2 * product
            parts += [np.maximum(squares, 0) / features, product / features]
        return parts


def _tanimoto(counts: Array, by_column: Array, total: Array) -> Array:
    """Return the Tanimoto similarities [k, n] of counts [k, d], given the counts [d, n] of the
    training molecules and their sums [n].
    """
    alike = np.empty((len(counts), len(total)), np.float32)
    for row, query in zip(alike, counts):
        columns = np.flatnonzero(query)
        least = np.minimum(by_column[columns], query[columns, None])
        row[:] = least.sum(0, dtype=np.float32)
    sums = counts.sum(1, dtype=np.float32)[:, None] + total
    return (alike / np.maximum(sums - alike, 1)).astype(float)


def _kernel(parts: Sequence[Array], theta: Array) -> Array:
    # For c kinds of counts and g groups of descriptors, there are c + 2 g matrices and 1 + c + 3 g
    # hyperparameters.
    kinds = len(parts) - 2 * (len(theta) - len(parts) - 1)
    scales = np.exp(theta)
    kernel = sum(weight * alike for weight, alike in zip(scales[1:], parts[:kinds]))
    groups = scales[1 + kinds :].reshape(-1, 3)
    for squares, product, group in zip(parts[kinds::2], parts[kinds + 1 :: 2], groups):
        matern, inverse, linear = group
        far = np.sqrt(3 * inverse * squares + 1e-12)
        kernel = kernel + matern * (1 + far) * np.exp(-far) + linear * product
    return kernel


class Forest:
    """Forest of regression trees on descriptors and fingerprints. Its prediction is the mean over
    the trees.

    Args:
        arrays: for each block of targets the nodes of its trees; the left child of a node is the
            next node.
    """

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays

    def predict(self, inputs: Inputs) -> Array:
        """Return the means [k, t] in the targets' units."""
        arrays = self.arrays
        x = np.concatenate([inputs.descriptors, inputs.counts[:, arrays["columns"]]], 1)
        x = x.astype(np.float32)
        result = np.zeros((len(x), len(arrays["mean"])))
        for block in range(int(arrays["block"].max()) + 1):
            values = arrays[f"{block}.value"][self._leaves(x, block)]
            result[:, arrays["block"] == block] = values.astype(float).mean(1)
        return result * arrays["scale"] + arrays["mean"]

    def _leaves(self, x: Array, block: int) -> Array:
        """Return the leaf of each row of x in each of T trees, [k, T]."""
        names = ("feature", "threshold", "right", "roots")
        feature, threshold, right, roots = (self.arrays[f"{block}.{name}"] for name in names)
        node = np.tile(roots, (len(x), 1))
        rows = np.arange(len(x))[:, None]
        while (inner := feature[node] >= 0).any():
            seen = x[rows, np.maximum(feature[node], 0)]
            child = np.where(seen <= threshold[node], node + 1, right[node])
            node = np.where(inner, child, node)
        return node


class ExportedModel:
    """Model in a folder that ``gattn molecules export`` has written.

    Args:
        folder: the folder.
        threads: number of threads of the network; 0 lets onnxruntime choose it.
    """

    def __init__(self, folder: str | Path, threads: int = 0) -> None:
        folder = Path(folder)
        self.facts = json.loads((folder / "model.json").read_text("utf-8"))
        if self.facts["format"] != FORMAT:
            raise ValueError(
                f"{folder} has the format {self.facts['format']}; this program reads {FORMAT}"
            )
        with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
            self.arrays = dict(stored)
        self.featuriser = Featuriser(self.facts["featuriser"])
        self.session = self.kernel = None
        if self.facts["networks"]:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            self.session = onnxruntime.InferenceSession(
                str(folder / "network.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self.names = [each.name for each in self.session.get_inputs()]
        if "gp" in self.facts["parts"]:
            is_regression = self.facts["task"] == "regression"
            self.kernel = GaussianProcess(self._of("gp."), self.arrays["groups"], is_regression)
        self.forest = Forest(self._of("forest.")) if "forest" in self.facts["parts"] else None
        self.bits = np.unpackbits(self.arrays["bits"], axis=1).astype(np.float32)

    def predict(self, smiles: Sequence[str], coverage: float = 0.9) -> dict[str, Any]:
        """Predict n molecules.

        Args:
            smiles: n SMILES.
            coverage: coverage of the intervals or of the sets of classes.

        Returns:
            ``mean`` and ``std`` [n, t]; for a regression ``lower`` and ``upper`` [n, t]; for
            classes ``sets``, [n, c] bool for each target; ``similarity`` [n]; ``errors``, a text
            for each row. Rows with an error are NaN. For several classes t is the number of
            classes of all targets.
        """
        read = [self._read(text) for text in smiles]
        molecules = {i: each for i, each in enumerate(read) if isinstance(each, Molecule)}
        good = list(molecules)
        wide = self.arrays["weights"].shape[1]
        results = {
            "mean": np.full((len(smiles), wide), np.nan),
            "std": np.full((len(smiles), wide), np.nan),
            "similarity": np.full(len(smiles), np.nan),
        }
        for some in (good[i : i + BATCH] for i in range(0, len(good), BATCH)):
            inputs = join([molecules[i] for i in some])
            results["mean"][some], results["std"][some] = self._predict(inputs)
            results["similarity"][some] = self._similarity(inputs.counts)
        mean, std = results["mean"], results["std"]
        if self.facts["task"] == "regression":
            results["lower"], results["upper"] = self._interval(mean, std, coverage)
        else:
            results["sets"] = self._sets(mean, coverage)
        return results | {"errors": [each if isinstance(each, str) else "" for each in read]}

    def _of(self, prefix: str) -> dict[str, Array]:
        """Return the arrays of one part of the model."""
        names = [name for name in self.arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.arrays[name] for name in names}

    def probabilities(self, mean: Array) -> list[Array]:
        """Return the probabilities [n, c] of the classes of each target."""
        counts = [len(names) for names in self.facts["classes"]]
        if self.facts["task"] == "multiclass":
            return np.split(mean, np.cumsum(counts)[:-1], axis=1)
        return [np.stack([1 - column, column], 1) for column in mean.T]

    def _read(self, text: str) -> Molecule | str:
        """Return a molecule, or the reason why it cannot be read."""
        try:
            return self.featuriser.read(text)
        except ValueError as error:
            return str(error)

    def _predict(self, inputs: Inputs) -> tuple[Array, Array]:
        """Return the mean and the standard deviation [k, t], in the targets' units."""
        arrays, count = self.arrays, len(inputs.counts)
        weights = arrays["weights"][:, None]
        members = np.empty((0, count, weights.shape[2]))
        variance = np.zeros(members.shape[1:])
        if self.session is not None:
            feed = {name: inputs.network[name] for name in self.names}
            members = self._in_units(np.asarray(self.session.run(None, feed)[0], dtype=float))
        parts = []
        for name in self.facts["parts"]:
            if name == "gp" and self.kernel is not None:
                mean, variance = self.kernel.predict(inputs)
                parts.append(self._scores(mean))
            elif name == "forest" and self.forest is not None:
                parts.append(self._scores(self.forest.predict(inputs)))
            else:
                parts.append(members.mean(0))
        parts = np.stack(parts)
        mean = (parts * weights).sum(0)
        if self.facts["task"] != "regression":
            mean = mean + arrays["offset"]
            voices = np.concatenate([parts, members])
            return mean, np.sqrt(((voices - voices.mean(0)) ** 2).mean(0))
        sources = [np.broadcast_to(arrays["scale"] ** 2, mean.shape)]
        if self.kernel is not None:
            sources.append(variance)
        sources += [(one - other) ** 2 for one, other in pairwise(parts)]
        if len(members) > 1:
            sources.append(members.var(0, ddof=1))
        std = np.sqrt((np.stack(sources) * arrays["spread"][:, None]).sum(0))
        mean = self._inverse(mean)
        return mean, std / self._slope(mean)

    def _in_units(self, raw: Array) -> Array:
        """Convert the outputs of networks [K, k, t] to means or probabilities, [K, k, t]."""
        if self.facts["task"] == "classification":
            return 1 / (1 + np.exp(-raw))
        if self.facts["task"] == "regression":
            return raw * self.arrays["scale"] + self.arrays["mean"]
        parts = self._split(raw)
        scores = [np.exp(part - part.max(-1, keepdims=True)) for part in parts]
        return np.concatenate([each / each.sum(-1, keepdims=True) for each in scores], -1)

    def _scores(self, mean: Array) -> Array:
        """Convert means of the Gaussian process to probabilities if the labels are classes."""
        if self.facts["task"] == "regression":
            return mean
        mean = np.clip(mean, 0, 1)
        if self.facts["task"] == "classification":
            return mean
        columns = []
        for part in self._split(mean):
            total = part.sum(-1, keepdims=True)
            equal = np.full_like(part, 1 / part.shape[-1])
            columns.append(np.where(total > 0, part / np.maximum(total, 1e-12), equal))
        return np.concatenate(columns, -1)

    def _split(self, outputs: Array) -> list[Array]:
        counts = [len(names) for names in self.facts["classes"]]
        return np.split(outputs, np.cumsum(counts)[:-1], axis=-1)

    def _each(self, values: Array, **functions: Any) -> Array:
        """Apply the function of each target's transform to the column of this target."""
        columns = [
            functions[name](column) if name in functions else column
            for name, column in zip(self.facts["transforms"], values.T)
        ]
        return np.stack(columns, 1)

    def _inverse(self, z: Array) -> Array:
        return self._each(z, log10=lambda v: 10 ** np.clip(v, -300, 300), logit=_sigmoid)

    def _slope(self, y: Array) -> Array:
        """Return the derivative of each target's transform at predictions [k, t]."""
        return self._each(
            y, none=np.ones_like, log10=lambda v: 1 / (v * math.log(10)),
            logit=lambda v: 1 / (v * (1 - v)),
        )  # fmt: skip

    def _interval(self, mean: Array, std: Array, coverage: float) -> tuple[Array, Array]:
        z = self._each(mean, log10=np.log10, logit=lambda y: np.log(y / (1 - y)))
        factor = [_quantile(self.arrays[f"scores.{i}"], coverage) for i in range(mean.shape[1])]
        distance = np.array(factor) * std * self._slope(mean)
        with np.errstate(over="ignore"):  # an infinite end stays infinite
            return tuple(
                self._each(end, log10=lambda v: 10**v, logit=lambda v: 1 / (1 + np.exp(-v)))
                for end in (z - distance, z + distance)
            )  # pyright: ignore[reportReturnType]

    def _sets(self, mean: Array, coverage: float) -> list[Array]:
        sets = []
        for i, chances in enumerate(self.probabilities(mean)):
            bounds = [
                _quantile(self.arrays[f"scores.{i}.{c}"], coverage) for c in range(chances.shape[1])
            ]
            # gattn stores the bounds with the precision of float32.
            inside = 1 - chances <= np.array(bounds, np.float32).astype(float)
            inside[np.arange(len(inside)), chances.argmax(1)] = True
            sets.append(inside)
        return sets

    def _similarity(self, counts: Array) -> Array:
        """Return the highest Tanimoto similarity of each of k molecules to a training molecule,
        [k].
        """
        bits = (counts > 0).astype(np.float32)
        shared = bits @ self.bits
        union = np.maximum(bits.sum(1)[:, None] + self.bits.sum(0) - shared, 1)
        return (shared / union).max(1)


def _sigmoid(z: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(z, -20, 20)))


def _quantile(ascending: Array, coverage: float) -> float:
    """Return the k-th smallest of n scores, where k = ceil((n + 1) coverage); return infinity if
    k exceeds n.
    """
    rank = math.ceil((len(ascending) + 1) * coverage - 1e-9)
    return float(ascending[rank - 1]) if rank <= len(ascending) else math.inf


def output_rows(model: ExportedModel, predicted: dict[str, Any]) -> Iterator[list]:
    """Yield for each row the cells of the columns ``outputs`` of ``model.json``, and the error."""
    facts, chances = model.facts, []
    if facts["task"] != "regression":
        chances = model.probabilities(predicted["mean"])
    spreads = model._split(predicted["std"]) if facts["task"] == "multiclass" else None
    for i, error in enumerate(predicted["errors"]):
        if error:
            yield [*[""] * len(facts["outputs"]), error]
            continue
        cells: list[Any] = []
        for target in range(len(facts["targets"])):
            if not chances:
                names = ("mean", "std", "lower", "upper")
                cells += [f"{predicted[name][i, target]:.8g}" for name in names]
                continue
            classes, chance = facts["classes"][target], chances[target][i]
            best = int(chance.argmax())
            spread = predicted["std"][i, target] if spreads is None else spreads[target][i, best]
            shown = chance[1:] if facts["task"] == "classification" else chance
            chosen = [name for name, is_in in zip(classes, predicted["sets"][target][i]) if is_in]
            cells += [classes[best], *(f"{p:.8g}" for p in shown), f"{spread:.8g}"]
            cells.append("|".join(map(str, chosen)))
        cells.append(f"{predicted['similarity'][i]:.8g}")
        yield [*cells, ""]


def main(arguments: Sequence[str] | None = None) -> None:
    """Predict the rows of a CSV file."""
    parser = argparse.ArgumentParser(description="Predict the molecules of a CSV file.")
    parser.add_argument(
        "table", help="CSV file with a header and the column of SMILES of the training"
    )
    parser.add_argument("out", help="file to write: .csv, .tsv or .csv.gz")
    parser.add_argument("--coverage", type=float, help="coverage of the intervals")
    options = parser.parse_args(arguments)
    model = ExportedModel(Path(__file__).parent)
    coverage = model.facts["coverage"] if options.coverage is None else options.coverage
    if not 0 < coverage < 1:
        parser.error(f"--coverage must be above 0 and below 1; got {coverage:g}")
    added = [*model.facts["outputs"], "error"]
    try:
        check_table_ending(options.out)
        table = open_molecules(options.table, model.facts["smiles"], on_bad_bytes="surrogateescape")
        rows = list(table.rows())
        place = table.place(table.smiles[0])
        predicted = model.predict([row.cells[place] * (not row.problem) for row in rows], coverage)
        problems = zip(rows, predicted["errors"])
        predicted["errors"] = [row.problem or error for row, error in problems]
        with new_file(options.out) as file, table.writer(file, added) as writer:
            for row, more in zip(rows, output_rows(model, predicted)):
                writer.writerow([*row.cells, *more])
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
