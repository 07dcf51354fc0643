"""Measurement of the errors of molecule models with and without additional inputs.

    python -m benchmarks.molecules.inputs                # every case, a few minutes on one core
    python -m benchmarks.molecules.inputs descriptors --molecules 300 --epochs 10  # a trial run

The molecules are the measured compounds of CHEMBL2321810, which come with RDKit, so that no file is
needed. Each case measures the default model on a test part that is drawn by molecules.

``descriptors``
    The label is made, so that its truth is known: Crippen's logP plus 0.02 (T - 308) TPSA / 100 and
    noise of standard deviation 0.1, for a temperature T of 278 to 338. The effect of T grows with
    the polar surface of the molecule. Compared: SMILES alone, and SMILES with the column T.
``bounded``
    The labels are the measured pIC50. Those above a limit, the 60th percentile, are replaced by the
    limit in the training part, as an assay with a largest concentration reports them. Errors are
    those against the measured values. Compared: labels above the limit left out, the limit taken as
    the value, a bounded loss, and all values measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.core import record
from gattn.data import load_molecules, random_split
from gattn.molecules import MoleculeRegressor

RESULTS = record.RESULTS / "molecule-inputs.jsonl"
TEST_FRACTIONS = (0.75, 0.0, 0.25)
Model = Callable[..., MoleculeRegressor]


def descriptors(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE with and without a column of temperatures, and of the true function."""
    from rdkit.Chem import Crippen, MolFromSmiles, rdMolDescriptors

    smiles = load_molecules("chembl2321810").smiles[:count]
    structures = list(map(MolFromSmiles, smiles))
    logp = np.array(list(map(Crippen.MolLogP, structures)))
    tpsa = np.array(list(map(rdMolDescriptors.CalcTPSA, structures)))
    generator = np.random.default_rng(seed)
    heat = generator.uniform(278, 338, len(smiles))
    truth = logp + 0.02 * (heat - 308) * tpsa / 100
    y = truth + generator.normal(0, 0.1, len(smiles))
    table = pd.DataFrame({"smiles": smiles, "T": heat})
    train, test = _parts(smiles, seed)
    rows = {"SMILES alone": table[["smiles"]], "with the column T": table}
    return {
        **{name: _error(model, x, y, train, test, y[test], seed) for name, x in rows.items()},
        "the true function": float(np.sqrt(np.mean((truth - y)[test] ** 2))),
    }


def bounded(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of four treatments of censored labels."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = molecules.smiles, molecules.y[:, 0].double().numpy()
    train, test = _parts(smiles, seed)
    limit = float(np.quantile(y[train], 0.6))
    above, table = y > limit, pd.DataFrame({"smiles": smiles})
    treatments: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "left out": (np.where(above, np.nan, y), {}),
        "the limit as value": (np.minimum(y, limit), {}),
        "bounded-mse": (
            np.where(above, f">{limit!r}", y.astype(object)), {"loss_function": "bounded-mse"}
        ),
        "all values measured": (y, {}),
    }  # fmt: skip
    return {
        name: _error(model, table, labels, train, test, y[test], seed, **options)
        for name, (labels, options) in treatments.items()
    }


def _parts(smiles: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the training and of the test part, with each molecule in one part."""
    split = random_split(len(smiles), seed=seed, fractions=TEST_FRACTIONS, groups=list(smiles))
    return split.train.numpy(), split.test.numpy()


def _error(
    model: Model, x: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray,
    truth: np.ndarray, seed: int, **options: Any,
) -> float:  # fmt: skip
    """Return the RMSE on the test part of a model that is fitted to the training part."""
    fitted = model(seed=seed, **options).fit(x.iloc[train], y[train])
    return float(np.sqrt(np.mean((fitted.predict(x.iloc[test]) - truth) ** 2)))


CASES: dict[str, Callable[[Model, int, int], dict[str, float]]] = {
    "descriptors": descriptors,
    "bounded": bounded,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen cases, print their errors, and append them to the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.molecules.inputs", description=main.__doc__
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(CASES)}; default all")
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
    parser.add_argument("--record", action="store_true", help=f"append to {RESULTS.name}")
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
            print(f"  {name}: RMSE {np.mean(values):.3f} ({spread})", flush=True)
        if options.record:
            settings = {"molecules": options.molecules, "epochs": options.epochs}
            about = record.environment("benchmarks.molecules.inputs", arguments or sys.argv[1:])
            record.append(RESULTS, {**about, "case": case, **settings, "rmse": errors})


if __name__ == "__main__":
    main()
