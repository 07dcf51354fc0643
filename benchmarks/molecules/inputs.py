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
``pairs``
    Rows contain a solute, one of the molecules, and one of twelve solvents. The label is made:
    -0.2 (a - b)^2 and noise of standard deviation 0.1, for Crippen's logP of the solute a and of
    the solvent b. Compared: the solute alone, and both molecules.
``reactions``
    A reaction replaces a hydrogen of a molecule by F, Cl, OH or NH2 at a random atom. The label is
    made: the change of Crippen's logP and noise of standard deviation 0.05. Compared: the reactants
    alone, the products alone, and the reaction with atom map numbers.
``splits``
    The labels are the measured pIC50. Compared: the test parts of four rules, each a quarter of the
    molecules, for the same model. This shows how much the error depends on the rule.
``atoms``
    The labels are lists that RDKit computes: Gasteiger's partial charge and Crippen's contribution
    to logP of every atom, and the difference of the charges of the two atoms of every bond. The
    errors are RMSE over the atoms or bonds of the test part. Compared: the mean of all labels,
    ridge regression on the features of the atom or bond (no attention), the means of equal
    environments (no attention), attention alone, and the model, the weighted mean of the last two.
    The share of the labels inside the intervals for 90 % is a mean over molecules.
``standardize``
    The labels are the measured pIC50. A random half of the molecules is written as sodium salts of
    an acidic NH or OH group, or as hydrochlorides, as tables from several sources write them.
    Compared: no standardisation, the largest fragment, the largest neutral fragment, and a table
    without salts.
``quantiles``
    The label is made, so that its spread is known: Crippen's logP plus exponential noise, whose
    mean is 2 for molecules with at least the median number of nitrogens, and 0.2 for the others.
    Intervals for 90 % of the squared error and of the quantile loss are compared by the share of
    labels inside, for either noise, by their mean width, and by the interval score: the width, plus
    20 times the distance of a label outside.
``transform``
    The labels are concentrations in nM, 10 ** (9 - pIC50). The errors are the RMSE of log10 of the
    predictions, where a prediction below 0.001 nM counts as 0.001 nM, the mean absolute error in
    nM, and the share of predictions below 0, which are impossible. Compared: no transform and
    log10.
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
from gattn.apps.molecules import AtomRegressor, MoleculeClassifier, MoleculeRegressor
from gattn.data import load_molecules, random_split, scaffold_split
from gattn.data.molecules.similarity_splits import butina_split, kennard_stone_split

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
    """Return the test RMSE of four ways to use censored labels."""
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
    """Return the test RMSE with and without weights, for labels half of which are noisy."""
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
    """Return the error rate (1 - accuracy) on the test part for three ways to predict three
    classes.
    """
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
    """Return the RMSE on the test part for each rule of splitting."""
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


def standardize(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE with and without standardisation of a table of salts and parents."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = molecules.smiles, molecules.y[:, 0].double().numpy()
    train, test = _parts(smiles, seed)
    as_salt = np.random.default_rng(seed).random(len(y)) < 0.5
    mixed = [_salt(text) if salt else text for text, salt in zip(smiles, as_salt)]
    plain, table = pd.DataFrame({"smiles": smiles}), pd.DataFrame({"smiles": mixed})
    steps: dict[str, tuple[str, ...]] = {
        "no standardisation": (),
        "largest-fragment": ("largest-fragment",),
        "largest-fragment, neutral": ("largest-fragment", "neutral"),
    }
    errors = {
        name: _error(model, table, y, train, test, y[test], seed, standardize=some)
        for name, some in steps.items()
    }
    return errors | {"a table without salts": _error(model, plain, y, train, test, y[test], seed)}


def _salt(smiles: str) -> str:
    """Return the sodium salt of an acidic molecule, and the hydrochloride of another molecule."""
    from rdkit.Chem import MolFromSmarts, MolFromSmiles, MolToSmiles

    molecule = MolFromSmiles(smiles)
    acid = MolFromSmarts("[$([NX3;H1]S(=O)=O),$([OX2;H1][C,S]=O)]")
    match = molecule.GetSubstructMatch(acid)
    if not match:
        return f"{smiles}.Cl"
    atom = molecule.GetAtomWithIdx(match[0])
    atom.SetFormalCharge(-1)
    atom.SetNumExplicitHs(0)
    molecule.UpdatePropertyCache()
    return f"{MolToSmiles(molecule)}.[Na+]"


def transform(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the errors of predicted concentrations with and without a transform of the target."""
    molecules = load_molecules("chembl2321810")[:count]
    smiles, y = np.array(molecules.smiles), 10 ** (9 - molecules.y[:, 0].double().numpy())
    train, test = _parts(molecules.smiles, seed)
    results = {}
    for name in ("none", "log10"):
        fitted = model(seed=seed, target_transform=name).fit(smiles[train], y[train])
        predicted = np.asarray(fitted.predict(smiles[test]))
        logarithms = np.log10(np.maximum(predicted, 1e-3)) - np.log10(y[test])
        results |= {
            f"{name}, RMSE of log10": float(np.sqrt(np.mean(logarithms**2))),
            f"{name}, MAE in nM": float(np.mean(np.abs(predicted - y[test]))),
            f"{name}, share below 0": float(np.mean(predicted < 0)),
        }
    return results


def quantiles(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the coverage, the width and the interval score of the intervals for two loss
    functions.
    """
    from rdkit.Chem import Crippen, MolFromSmiles

    smiles = np.array(load_molecules("chembl2321810").smiles[:count])
    structures = list(map(MolFromSmiles, smiles))
    nitrogens = np.array([sum(a.GetAtomicNum() == 7 for a in s.GetAtoms()) for s in structures])
    is_wide = nitrogens >= np.median(nitrogens)
    generator = np.random.default_rng(seed)
    noise = np.where(is_wide, 2.0, 0.2) * generator.standard_exponential(len(smiles))
    y = np.array(list(map(Crippen.MolLogP, structures))) + noise
    train, test = _parts(smiles.tolist(), seed)
    results = {}
    for loss in ("mse", "quantile"):
        fitted = model(seed=seed, loss_function=loss).fit(smiles[train], y[train])
        lower, upper = (np.asarray(end) for end in fitted.predict_interval(smiles[test], 0.9))
        inside = (lower <= y[test]) & (y[test] <= upper)
        outside = np.maximum(lower - y[test], 0) + np.maximum(y[test] - upper, 0)
        results |= {
            f"{loss}, share inside, small noise": float(inside[~is_wide[test]].mean()),
            f"{loss}, share inside, large noise": float(inside[is_wide[test]].mean()),
            f"{loss}, mean width": float((upper - lower).mean()),
            f"{loss}, interval score": float((upper - lower + 20 * outside).mean()),
        }
    return results


def atoms(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of predicted lists of labels with and without attention."""
    from gattn.apps.molecules.atoms.labels import read_cells
    from gattn.apps.molecules.atoms.values import Values
    from gattn.apps.molecules.runs.measure import measure_coverage, measure_targets

    smiles = load_molecules("chembl2321810").smiles[:count]
    cells = read_cells(_computed_lists(smiles))
    settings = model(seed=seed)
    fitted = AtomRegressor(epochs=settings.epochs, threads=1, seed=seed)
    labelled = fitted.read(smiles, cells)
    train, test = _parts(smiles, seed)
    inner = np.random.default_rng(seed).permutation(train)
    val, rest = (torch.from_numpy(part) for part in np.split(inner, [len(inner) // 10]))
    fitted.fit_labelled(labelled[rest], labelled[val])
    part = labelled[torch.from_numpy(test)]
    predicted = fitted.predictor_.predict(part.inputs)
    means = {**predicted.parts, "model": predicted.mean.rows}
    errors = {
        f"{target}, {name}": scores["rmse"]
        for name, mean in means.items()
        for target, scores in measure_targets(fitted, part.y, Values(mean, part.y.ptr)).items()
    }
    held_share = measure_coverage(fitted, part.y, predicted, 0.9)["held"]
    return dict(sorted(errors.items())) | {"share inside the intervals for 90 %": held_share}


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
    return {"atom": {"charge": charge, "logP": logp}, "bond": {"polarity": polarity}}


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


SOLVENTS = (
    "O", "CO", "CCO", "CC#N", "CC(C)=O", "CS(C)=O", "C1CCOC1", "ClCCl", "ClC(Cl)Cl", "Cc1ccccc1",
    "CCCCCC", "CCCCCCCC",
)  # fmt: skip


def pairs(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of models with and without the solvent, and of the true function."""
    from rdkit.Chem import Crippen, MolFromSmiles

    smiles = load_molecules("chembl2321810").smiles[:count]
    generator = np.random.default_rng(seed)
    solvents = generator.choice(SOLVENTS, len(smiles))
    a, b = (
        np.array([Crippen.MolLogP(MolFromSmiles(text)) for text in texts])
        for texts in (smiles, solvents.tolist())
    )
    truth = -0.2 * (a - b) ** 2
    y = truth + generator.normal(0, 0.1, len(smiles))
    table = pd.DataFrame({"solute": smiles, "solvent": solvents})
    train, test = _parts(smiles, seed)
    alone = _error(model, table[["solute"]], y, train, test, y[test], seed)
    both = _error(model, table, y, train, test, y[test], seed, molecules_per_row=2)
    return {
        "the solute alone": alone,
        "solute and solvent": both,
        "the true function": float(np.sqrt(np.mean((truth - y)[test] ** 2))),
    }


def reactions(model: Model, count: int, seed: int) -> dict[str, float]:
    """Return the test RMSE of models that read the reactants, the products, or the whole
    reaction.
    """
    generator = np.random.default_rng(seed)
    smiles = load_molecules("chembl2321810").smiles[:count]
    rows, changes = zip(*(_substitution(text, generator) for text in smiles))
    truth = np.array(changes)
    y = truth + generator.normal(0, 0.05, len(truth))
    sides = [row.split(">>") for row in rows]
    train, test = _parts(smiles, seed)
    inputs = {
        "the reactants alone": ([left for left, _ in sides], {}),
        "the products alone": ([right for _, right in sides], {}),
        "the reaction": (list(rows), {"reaction": True}),
    }
    errors = {
        name: _error(model, pd.DataFrame({"rows": x}), y, train, test, y[test], seed, **options)
        for name, (x, options) in inputs.items()
    }
    return {**errors, "the true function": float(np.sqrt(np.mean((truth - y)[test] ** 2)))}


def _substitution(smiles: str, generator: np.random.Generator) -> tuple[str, float]:
    """Return a reaction that replaces a hydrogen of a molecule, and its change of logP."""
    from rdkit import Chem
    from rdkit.Chem import Crippen

    molecule = Chem.MolFromSmiles(smiles)
    sites = [
        a.GetIdx() for a in molecule.GetAtoms() if a.GetTotalNumHs() and not a.GetNumExplicitHs()
    ]
    site = int(generator.choice(sites))
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    product = Chem.RWMol(molecule)
    product.AddAtom(Chem.Atom(int(generator.choice([7, 8, 9, 17]))))
    product.AddBond(site, molecule.GetNumAtoms(), Chem.BondType.SINGLE)
    centre = product.GetAtomWithIdx(site)
    centre.SetNumExplicitHs(0)
    centre.SetNoImplicit(False)
    Chem.SanitizeMol(product)
    change = Crippen.MolLogP(product) - Crippen.MolLogP(molecule)
    return f"{Chem.MolToSmiles(molecule)}>>{Chem.MolToSmiles(product)}", change


CASES: dict[str, Callable[[Model, int, int], dict[str, float]]] = {
    "atoms": atoms,
    "descriptors": descriptors,
    "bounded": bounded,
    "weights": weights,
    "classes": classes,
    "pairs": pairs,
    "reactions": reactions,
    "quantiles": quantiles,
    "splits": splits,
    "standardize": standardize,
    "transform": transform,
}


ERROR = dict.fromkeys(CASES, "RMSE")
ERROR |= {"classes": "1 - accuracy", "transform": "value", "atoms": "value", "quantiles": "value"}
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
