"""Comparison of attributions with exact contributions of atoms to Crippen's logP and the polar
surface area.

    python -m benchmarks.molecules.attributions                        # both data sets and models
    python -m benchmarks.molecules.attributions --data esol --epochs 5 # a trial run

Models are trained on the logP and on the polar surface area that RDKit computes. The weights of the
atoms of the test molecules are compared with RDKit's contributions, by the mean of Pearson's
correlation over the molecules. The logP of a hydrogen is added to its heavy atom, as
in the target; ``heavy`` ignores hydrogens. If all contributions of a molecule are equal, it has no
correlation; such molecules are left out and counted.

Both targets are among the descriptors that the models read, so their predictions are almost exact.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from benchmarks.core import record
from benchmarks.data.datasets import root
from gattn.apps.fitting.tasks import REGRESSION
from gattn.apps.molecules.explain import attribute
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.masking import atoms_of
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import load_molecules, random_split

if TYPE_CHECKING:
    from rdkit.Chem import Mol

DATA = ("chembl2321810", "esol")
MODELS = ("stacked", "attention")
TRUTHS = ("logp", "tpsa")


def contributions(molecule: Mol, truth: str) -> dict[str, np.ndarray]:
    """Compute RDKit's exact contributions [n] of the heavy atoms, with and without those of
    hydrogens.
    """
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors as rd

    if truth == "tpsa":
        return {"exact": np.array(rd._CalcTPSAContribs(molecule))}
    everything = Chem.AddHs(molecule)
    terms = np.array(rd._CalcCrippenContribs(everything))[:, 0]
    heavy = terms[: molecule.GetNumAtoms()]
    exact = heavy.copy()
    for atom in list(everything.GetAtoms())[molecule.GetNumAtoms() :]:
        exact[atom.GetNeighbors()[0].GetIdx()] += terms[atom.GetIdx()]
    return {"exact": exact, "heavy": heavy}


def compare(smiles: Sequence[str], weights: Sequence[Tensor], truth: str) -> dict[str, float]:
    """Return the mean correlation with each exact contribution, and the number of molecules
    without one.
    """
    from rdkit import Chem

    correlations: dict[str, list[float]] = {}
    alike = 0
    for text, atoms in zip(smiles, weights):
        exact = contributions(Chem.MolFromSmiles(text), truth)
        if any(values.std() < 1e-9 for values in exact.values()):
            alike += 1
            continue
        for name, values in exact.items():
            correlations.setdefault(name, []).append(_correlation(atoms.numpy(), values))
    means = {name: float(np.mean(values)) for name, values in correlations.items()}
    return {**means, "molecules": len(smiles) - alike, "left_out": alike}


def _correlation(atoms: np.ndarray, values: np.ndarray) -> float:
    """Return Pearson's correlation, or 0 if all weights are equal."""
    return float(np.corrcoef(atoms, values)[0, 1]) if atoms.std() > 1e-12 else 0.0


def measure(data: str, truth: str, settings: MoleculeSettings, limit: int) -> record.Record:
    """Train models on logP or the surface area, and compare the weights on the test part."""
    from rdkit import Chem

    molecules = load_molecules(data, root(), on_error="skip", download=False)
    inputs = featurise(molecules.smiles).inputs
    y = torch.tensor(
        [[_total(Chem.MolFromSmiles(text), truth)] for text in inputs.molecules.smiles]
    ).double()
    parts, begin = random_split(len(inputs), seed=0), time.perf_counter()
    train, val = (
        FitPart(inputs[rows], y[rows], torch.ones(len(rows))) for rows in (parts.train, parts.val)
    )
    predictor = MoleculePredictor.fit(train, val, REGRESSION, settings)
    seconds, test = time.perf_counter() - begin, parts.test[:limit]
    error = (predictor.predict(inputs[test]).mean - y[test]).square().mean().sqrt()
    return {
        "data": data, "truth": truth, "model": settings.model, "epochs": settings.epochs,
        "ensemble": settings.ensemble, "rmse": float(error), "std": float(y[test].std()),
        "seconds": seconds, "weights": predictor.weights,
        "methods": {"masking": _measure(predictor, inputs[test], truth)},
    }  # fmt: skip


def _measure(predictor: MoleculePredictor, inputs: MoleculeInputs, truth: str) -> dict[str, float]:
    begin = time.perf_counter()
    results = attribute(predictor, inputs, atoms=atoms_of(inputs))
    weights = [one.weights for one in results]
    seconds = time.perf_counter() - begin
    return {**compare(inputs.molecules.smiles, weights, truth), "seconds": seconds}


def _total(molecule: Mol, truth: str) -> float:
    from rdkit.Chem import rdMolDescriptors as rd

    return rd.CalcTPSA(molecule) if truth == "tpsa" else rd.CalcCrippenDescriptors(molecule)[0]


def table(entries: Sequence[record.Record]) -> str:
    """Return a table with a row for each model, data set and property, and the mean."""
    lines = ["| model | data | truth | RMSE | correlation |", "|---" * 5 + "|"]
    correlations = [one["methods"]["masking"]["exact"] for one in entries]
    for one, correlation in zip(entries, correlations):
        cells = f"{one['model']} | {one['data']} | {one['truth']} | {one['rmse']:.3g}"
        lines.append(f"| {cells} | {correlation:.3f} |")
    return "\n".join([*lines, f"| mean | | | | {np.mean(correlations):.3f} |"])


def main(arguments: Sequence[str]) -> int:
    """Train the models, compare the weights, print the table, and append the results to a file."""
    options = _parser().parse_args(arguments)
    environment, entries = record.environment("benchmarks.molecules.attributions", arguments), []
    torch.set_num_threads(options.threads)
    for model in options.model:
        settings = MoleculeSettings(
            model=model, epochs=options.epochs, ensemble=options.ensemble, seed=options.seed
        )
        for data in options.data:
            for truth in TRUTHS:
                entries.append(measure(data, truth, settings, options.molecules))
                print(json.dumps(entries[-1]), file=sys.stderr, flush=True)
                if options.out:
                    record.append(options.out, {**entries[-1], "environment": environment})
    print(table(entries))
    return 0


def _parser() -> argparse.ArgumentParser:
    default = MoleculeSettings()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.attributions", description=main.__doc__
    )
    parser.add_argument(
        "--data",
        nargs="+",
        choices=DATA,
        default=DATA,
        help="data sets to train on; by default all",
    )
    parser.add_argument(
        "--model",
        nargs="+",
        choices=(*MODELS, "gp"),
        default=MODELS,
        help="models to train; by default all",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=default.epochs,
        help="number of training epochs (default: %(default)s)",
    )
    parser.add_argument(
        "--ensemble",
        type=int,
        default=default.ensemble,
        help="number of networks whose predictions are averaged (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=default.seed,
        help="seed of the initial weights of the networks (default: %(default)s)",
    )
    parser.add_argument(
        "--molecules",
        type=int,
        default=1000,
        help="maximum number of test molecules (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=torch.get_num_threads(),
        help="number of threads of each operator (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, help="file to which the results are appended, one JSON object per line"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
