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
``weights``
    The labels are the measured pIC50. Noise of standard deviation 1.5 is added to a random half of
    the training part. Compared: equal weights, weights 1 / sigma^2 for an assumed noise of 0.3 of
    the other rows, the noisy rows left out, and no noise.
``classes``
    The classes are three ranges of the measured pIC50, named low, middle and high, with equal
    numbers of molecules. The error is 1 - accuracy. Compared: several classes, one model of 0 and 1
    for each class, and the most frequent class.
``splits``
    The labels are the measured pIC50. Compared: the test parts of four rules, each a quarter of the
    molecules, for the same model. This shows how much the error depends on the rule.
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
from gattn.data import load_molecules, random_split, scaffold_split
from gattn.data.molecules.similarity_splits import butina_split, kennard_stone_split
from gattn.molecules import MoleculeClassifier, MoleculeRegressor

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


def weights(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return test RMSE with and without weights for labels of which a half is noisy."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = molecules.smiles, molecules.y[:, 0].double().numpy()
    train, test = _parts(smiles, seed)
    generator = np.random.default_rng(seed)
    noisy = generator.random(len(y)) < 0.5
    wrong = np.where(noisy, y + generator.normal(0, 1.5, len(y)), y)
    table, sample_weight = pd.DataFrame({"smiles": smiles}), np.where(noisy, 1.5**-2, 0.3**-2)
    truth = y[test]
    return {
        "equal weights": _error(model, table, wrong, train, test, truth, seed),
        "weights 1 / sigma^2": _error(
            model, table, wrong, train, test, truth, seed, sample_weight=sample_weight
        ),
        "noisy rows left out": _error(
            model, table, np.where(noisy, np.nan, y), train, test, truth, seed
        ),
        "no noise": _error(model, table, y, train, test, truth, seed),
    }


def classes(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return 1 - accuracy on the test part of three treatments of three classes."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = np.array(molecules.smiles), molecules.y[:, 0].double().numpy()
    names = np.array(["low", "middle", "high"])
    kinds = names[np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)]
    train, test = _parts(molecules.smiles, seed)
    settings = model(seed=seed).get_params()
    together = MoleculeClassifier(**settings).fit(smiles[train], kinds[train])
    one_by_one = MoleculeClassifier(**settings).fit(smiles[train], (kinds[:, None] == names)[train])
    chosen = names[np.asarray(one_by_one.predict_proba(smiles[test])).argmax(1)]
    counts = [(kinds[train] == name).sum() for name in names]
    guesses = {
        "several classes": together.predict(smiles[test]),
        "0 and 1 for each class": chosen,
        "most frequent class": np.full(len(test), names[int(np.argmax(counts))]),
    }
    return {name: float((guess != kinds[test]).mean()) for name, guess in guesses.items()}


def splits(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return test RMSE on the test part of each rule."""
    molecules = load_molecules("chembl2321810")[:count]
    y, table = molecules.y[:, 0].double().numpy(), pd.DataFrame({"smiles": molecules.smiles})
    rules = {
        "kennard-stone": lambda: kennard_stone_split(molecules, fractions=TEST_FRACTIONS),
        "random": lambda: random_split(molecules, seed=seed, fractions=TEST_FRACTIONS),
        "scaffold": lambda: scaffold_split(molecules, fractions=TEST_FRACTIONS),
        "butina": lambda: butina_split(molecules, fractions=TEST_FRACTIONS),
    }
    errors = {}
    for name, rule in rules.items():
        split = rule()
        train, test = split.train.numpy(), split.test.numpy()
        errors[name] = _error(model, table, y, train, test, y[test], seed)
    return errors


def _parts(smiles: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the training and of the test part, with each molecule in one part."""
    split = random_split(len(smiles), seed=seed, fractions=TEST_FRACTIONS, groups=list(smiles))
    return split.train.numpy(), split.test.numpy()


def _error(
    model: Model, x: pd.DataFrame, y: np.ndarray, train: np.ndarray, test: np.ndarray,
    truth: np.ndarray, seed: int, sample_weight: np.ndarray | None = None, **options: Any,
) -> float:  # fmt: skip
    """Return the RMSE on the test part of a model that is fitted to the training part."""
    factors = None if sample_weight is None else sample_weight[train]
    fitted = model(seed=seed, **options).fit(x.iloc[train], y[train], sample_weight=factors)
    return float(np.sqrt(np.mean((fitted.predict(x.iloc[test]) - truth) ** 2)))


CASES: dict[str, Callable[[Model, int, int], dict[str, float]]] = {
    "descriptors": descriptors,
    "bounded": bounded,
    "weights": weights,
    "classes": classes,
    "splits": splits,
}


ERROR = dict.fromkeys(CASES, "RMSE") | {"classes": "1 - accuracy"}
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
