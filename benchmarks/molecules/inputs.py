"""Measurement of the errors of molecule models with and without additional inputs.

    python -m benchmarks.molecules.inputs                # every case, a few minutes on one core
    python -m benchmarks.molecules.inputs bounded --molecules 300 --epochs 10  # a trial run

The molecules are the measured compounds of CHEMBL2321810, which come with RDKit, so that no file is
needed. Each case measures the default model on a test part that is drawn by molecules.

``bounded``
    The labels are the measured pIC50. Those above a limit, the 60th percentile, are replaced by the
    limit in the training part, as an assay with a largest concentration reports them. Errors are
    those against the measured values. Compared: labels above the limit left out, the limit taken as
    the value, a bounded loss, and all values measured.
``atoms``
    The labels are lists that RDKit computes: Gasteiger's partial charge and Crippen's contribution
    to logP of every atom, and the difference of the charges of the two atoms of every bond. The
    errors are RMSE over the atoms or bonds of the test part. Compared: the mean of all labels,
    ridge regression on the features of the atom or bond (no attention), the means of equal
    environments (no attention), attention alone, and the model, the weighted mean of the last two.
    The share of the labels inside the intervals for 90 % is a mean over molecules.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.core import record
from gattn.apps.molecules import AtomRegressor, MoleculeRegressor
from gattn.apps.molecules.atoms.labels import Places, read_lists
from gattn.data import load_molecules, random_split

RESULTS = record.RESULTS / "molecule-inputs.jsonl"
TEST_FRACTIONS = (0.75, 0.0, 0.25)
Model = Callable[..., MoleculeRegressor]


def bounded(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of four ways to use censored labels."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = np.array(molecules.smiles), molecules.y[:, 0].double().numpy()
    train, test = _parts(molecules.smiles, seed)
    limit = float(np.quantile(y[train], 0.6))
    above = y > limit
    treatments: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "left out": (np.where(above, np.nan, y), {}),
        "the limit as value": (np.minimum(y, limit), {}),
        "bounded-mse": (
            np.where(above, f">{limit!r}", y.astype(object)), {"loss_function": "bounded-mse"}
        ),
        "all values measured": (y, {}),
    }  # fmt: skip
    errors = {}
    for name, (labels, options) in treatments.items():
        fitted = model(seed=seed, **options).fit(smiles[train], labels[train])
        errors[name] = float(np.sqrt(np.mean((fitted.predict(smiles[test]) - y[test]) ** 2)))
    return errors


def atoms(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of predicted lists of labels with and without attention."""
    from gattn.apps.molecules.runs.measure import measure_intervals, measure_targets

    smiles = load_molecules("chembl2321810").smiles[:count]
    settings = model(seed=seed)
    train, test = _parts(smiles, seed)
    errors: dict[str, float] = {}
    shares = []
    for level, lists in _computed_lists(smiles).items():
        fitted = AtomRegressor(epochs=settings.epochs, threads=1, seed=seed)
        fitted.fit([smiles[i] for i in train], **{level: _rows(lists, train)})
        rows = read_lists(list(zip(*_rows(lists, test).values())), list(lists))
        places = Places(fitted.level_, rows.owners)
        part = fitted.labelled([smiles[i] for i in test], rows.values, places)
        predicted = fitted.predictor_.predict(part.inputs)
        for name, mean in {**predicted.component_means, "model": predicted.mean}.items():
            for target, scores in measure_targets(fitted, part.y, mean).items():
                errors[f"{target}, {name}"] = scores["rmse"]
        shares.append(measure_intervals(fitted, part.y, predicted, 0.9, part.owners)["held"])
    held_share = float(np.mean(shares))
    return dict(sorted(errors.items())) | {"share inside the intervals for 90 %": held_share}


def _rows(lists: dict[str, list[list[float]]], rows: np.ndarray) -> dict[str, list[list[float]]]:
    return {name: [values[i] for i in rows] for name, values in lists.items()}


def _computed_lists(smiles: Sequence[str]) -> dict[str, dict[str, list[list[float]]]]:
    """Return lists of charges, contributions to logP and polarities of the bonds."""
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors, rdPartialCharges

    charge, logp, polarity = [], [], []
    for molecule in map(Chem.MolFromSmiles, smiles):
        rdPartialCharges.ComputeGasteigerCharges(molecule)
        values = [atom.GetDoubleProp("_GasteigerCharge") for atom in molecule.GetAtoms()]
        charge.append(values)
        logp.append([value for value, _ in rdMolDescriptors._CalcCrippenContribs(molecule)])
        ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
        polarity.append([abs(values[i] - values[j]) for i, j in ends])
    return {"atoms": {"charge": charge, "logP": logp}, "bonds": {"polarity": polarity}}


def _parts(smiles: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the training and of the test part, with each molecule in one part."""
    split = random_split(len(smiles), seed=seed, fractions=TEST_FRACTIONS, groups=list(smiles))
    return split.train.numpy(), split.test.numpy()


CASES: dict[str, Callable[[Model, int, int], dict[str, float]]] = {
    "atoms": atoms,
    "bounded": bounded,
}
ERROR = {"atoms": "value", "bounded": "RMSE"}
"""Name of the error that each case returns."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen cases, print their errors, and append them to the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.inputs", description=main.__doc__
    )
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"cases to run: {', '.join(CASES)} (default: all)"
    )
    parser.add_argument(
        "--molecules", type=int, default=400, help="number of molecules (default: %(default)s)"
    )
    parser.add_argument(
        "--epochs", type=int, default=20, help="number of training epochs (default: %(default)s)"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=2,
        help="number of seeds; the results are means over the seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--record", action="store_true", help="append the results to the recorded results"
    )
    options = parser.parse_intermixed_args(arguments)
    if unknown := set(options.cases) - CASES.keys():
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    torch.set_num_threads(1)

    def model(**settings: Any) -> MoleculeRegressor:
        return MoleculeRegressor(epochs=options.epochs, threads=1, **settings)

    for case in options.cases or CASES:
        runs = [CASES[case](model, options.molecules, seed) for seed in range(options.seeds)]
        errors = {name: [run[name] for run in runs] for name in runs[0]}
        print(case)
        for name, values in errors.items():
            spread = ", ".join(f"{value:.3f}" for value in values)
            print(f"  {name}: {ERROR[case]} {np.mean(values):.3f} ({spread})", flush=True)
        if options.record:
            key = "rmse" if ERROR[case] == "RMSE" else "error"
            settings = {"molecules": options.molecules, "epochs": options.epochs}
            about = record.environment("benchmarks.molecules.inputs", arguments or sys.argv[1:])
            record.append(RESULTS, {**about, "case": case, **settings, key: errors})


if __name__ == "__main__":
    main()
