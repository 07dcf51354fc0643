"""Comparison of variants of the stereochemistry features, on a table with stereoisomers.

    python -m benchmarks.molecules.stereo table.csv --smiles SMILES --target RT --log
    python -m benchmarks.molecules.stereo table.csv --target Tm --rows 400 --epochs 2  # a trial run

The atoms and bonds of the network have ``cip`` labels (gattn's), chiral ``tag`` numbers, which
depend on the order of the text, or ``none``. The fingerprint of the kernel ridge counts Morgan
environments ``plain`` (without stereochemistry), with ``cip`` labels of their atoms, ``chiral``
(RDKit's ``includeChirality``), or ``both`` plain ones and those with labels, as gattn does. Rows
with one canonical SMILES are averaged, and all isomers of one constitution lie in one part.

Errors are those of the test part. A pair is two isomers of one constitution: ``pairs`` is the root
mean square error of their difference, ``measured`` the root mean square of the difference itself,
and ``correlation`` that of the predicted with the measured difference, each taken in both
directions.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.core import record
from gattn.data import ATOM_FEATURES, BOND_FEATURES, random_split
from gattn.molecules.fitting import FitPart
from gattn.molecules.inputs import ExpandedInputs, featurise
from gattn.molecules.predictor import MoleculePredictor
from gattn.molecules.settings import MoleculeSettings

if TYPE_CHECKING:
    from rdkit.Chem import Mol

GRAPHS = ("cip", "tag", "none")
COUNTS = ("plain", "chiral", "cip", "both")
VARIANTS = [
    *(("gp", "cip", counts) for counts in COUNTS),
    *(("attention", graph, "both") for graph in GRAPHS),
]
"""Variants: the model, the stereochemistry of the graph, and the kind of Morgan counts."""


class Labelled(NamedTuple):
    """Distinct molecules with the mean label of each.

    Attributes:
        smiles: k canonical texts.
        y: [k, 1] float64.
        groups: [k], one constitution each.
    """

    smiles: list[str]
    y: Tensor
    groups: list[str]


def read(path: Path, smiles: str, target: str, log: bool, rows: int, seed: int) -> Labelled:
    """Read a table with at most a number of rows; constitutions with several stereoisomers are
    chosen first.
    """
    from rdkit import Chem, rdBase

    labels: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with rdBase.BlockLogs(), path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            molecule = Chem.MolFromSmiles(row[smiles])
            if molecule is None or not row[target]:
                continue
            value = float(row[target])
            flat = Chem.MolToSmiles(molecule, isomericSmiles=False)
            labels[flat][Chem.MolToSmiles(molecule)].append(math.log10(value) if log else value)
    order = np.random.default_rng(seed).permutation(len(labels))
    groups = [list(labels.items())[i] for i in order]
    groups.sort(key=lambda group: -min(len(group[1]), 2))
    some, total = [], 0
    for flat, isomers in groups:
        if total < rows:
            some += [(flat, text, float(np.mean(values))) for text, values in isomers.items()]
            total += len(isomers)
    flats, texts, values = zip(*some)
    return Labelled(list(texts), torch.tensor(values).double()[:, None], list(flats))


def inputs_of(smiles: Sequence[str], graph: str, counts: str) -> ExpandedInputs:
    """Compute the inputs of a model with one variant of the stereochemistry features."""
    from rdkit import Chem

    inputs = featurise(smiles).inputs
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    graphs = inputs.molecules
    arrays = graphs.arrays.copy()
    if graph != "cip":
        first = ATOM_FEATURES.index("chirality=none")
        columns = slice(first, ATOM_FEATURES.index("chirality=other") + 1)
        tags = [
            int(a.GetChiralTag()) if graph == "tag" else 0 for m in molecules for a in m.GetAtoms()
        ]
        arrays.x[:, columns] = 0
        arrays.x[torch.arange(len(tags)), first + torch.tensor(tags)] = 1
    if graph == "none":
        first = BOND_FEATURES.index("stereo=none")
        arrays.edge_attr[:, first : BOND_FEATURES.index("stereo=other") + 1] = 0
        arrays.edge_attr[:, first] = 1
    morgan = inputs.counts
    if counts in ("plain", "chiral"):
        morgan = _counts(molecules, chiral=counts == "chiral")
    if counts == "cip":
        morgan = morgan - _counts(molecules, chiral=False)
    return ExpandedInputs(replace(graphs, arrays=arrays), morgan, inputs.descriptors)


def _counts(molecules: Sequence[Mol], *, chiral: bool) -> Tensor:
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(
        radius=2, fpSize=2048, includeChirality=chiral
    )
    rows = [generator.GetCountFingerprintAsNumPy(molecule) for molecule in molecules]
    return torch.from_numpy(np.minimum(np.stack(rows), 255).astype(np.uint8))


def measure(
    labelled: Labelled, variant: tuple[str, str, str], options: argparse.Namespace, seed: int
):
    """Train one variant on one split, and measure its errors on the test part."""
    model, graph, counts = variant
    inputs = inputs_of(labelled.smiles, graph, counts)
    parts = random_split(len(inputs), seed=seed, groups=labelled.groups)
    settings = MoleculeSettings(model=model, epochs=options.epochs, seed=seed)
    begin, y = time.perf_counter(), labelled.y
    predictor = MoleculePredictor.fit(
        FitPart(inputs[parts.train], y[parts.train]), FitPart(inputs[parts.val], y[parts.val]),
        "regression", settings,
    )  # fmt: skip
    seconds, test = time.perf_counter() - begin, parts.test.tolist()
    predicted = dict(zip(test, predictor.predict(inputs[test]).mean[:, 0].tolist()))
    errors = [predicted[i] - float(y[i]) for i in test]
    pairs = [
        (i, j)
        for i, j in itertools.permutations(test, 2)
        if labelled.groups[i] == labelled.groups[j]
    ]
    true = np.array([float(y[i] - y[j]) for i, j in pairs])
    differences = np.array([predicted[i] - predicted[j] for i, j in pairs])
    flat = not len(differences) or differences.std() == 0
    return {
        "model": model, "graph": graph, "counts": counts, "seed": seed, "epochs": options.epochs,
        "molecules": len(inputs), "test": len(test), "test_pairs": len(pairs) // 2,
        "rmse": _root_mean_square(errors), "pairs": _root_mean_square(differences - true),
        "measured": _root_mean_square(true), "seconds": seconds,
        "correlation": 0.0 if flat else float(np.corrcoef(differences, true)[0, 1]),
    }  # fmt: skip


def _root_mean_square(values: Sequence[float] | np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else math.nan


def table(runs: Sequence[record.Record]) -> str:
    """Return a table of the means over splits, with a row for each variant."""
    names = ("rmse", "pairs", "measured", "correlation")
    lines = ["| model | graph | counts | RMSE | pairs | measured | correlation |"]
    lines.append("|---|---|---|---:|---:|---:|---:|")
    for variant in dict.fromkeys((one["model"], one["graph"], one["counts"]) for one in runs):
        some = [one for one in runs if (one["model"], one["graph"], one["counts"]) == variant]
        means = (f"{np.mean([one[name] for one in some]):.3f}" for name in names)
        lines.append(f"| {' | '.join((*variant, *means))} |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Read the table, train every variant, print the means, and record the runs."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    environment = record.environment("benchmarks.molecules.stereo", arguments)
    labelled = read(
        options.csv, options.smiles, options.target, options.log, options.rows, options.seeds[0]
    )
    runs = []
    for seed in options.seeds:
        for variant in VARIANTS:
            if variant[0] in options.models:
                one = measure(labelled, variant, options, seed)
                runs.append(one)
                line = f"{'/'.join(variant)} seed {seed}: RMSE {one['rmse']:.3f}"
                print(f"{line}, {one['seconds']:.0f} s", file=sys.stderr, flush=True)
                if options.out:
                    data = {"data": options.csv.stem, "target": options.target, "log": options.log}
                    record.append(options.out, {**environment, **data, **one})
    print(table(runs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("csv", type=Path, help="CSV file of molecules that contains stereoisomers")
    parser.add_argument(
        "--smiles", default="smiles", help="name of the column of SMILES (default: %(default)s)"
    )
    parser.add_argument("--target", required=True, help="name of the column of measured numbers")
    parser.add_argument(
        "--log", action="store_true", help="predict the logarithm of the measured numbers"
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=10**9,
        help="approximate maximum number of molecules (default: %(default)s)",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=["gp", "attention"],
        help="models to train (default: %(default)s)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=30,
        help="number of epochs for which the network is trained (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[0],
        help="seeds of the splits; each seed gives one split (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, help="file to which the results are appended, one JSON object per line"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
