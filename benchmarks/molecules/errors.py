"""Error of models of labels with different standard errors.

    python -m benchmarks.molecules.errors             # the Gaussian process, several shares
    python -m benchmarks.molecules.errors --stacked   # the default model, with and without errors
    python -m benchmarks.molecules.errors --errors 0.1 0.8

Half of 400 training labels of ESOL get normal noise of one standard deviation, by default 0.2, and
the others of another one, by default 2. The command prints the RMSE on exact labels of 228 other
molecules, as a mean over three draws, without weights and with the weights of
:func:`gattn.apps.molecules.runs.source.error_weights` for several values of its constant.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import numpy as np
import torch

from benchmarks.molecules.parts import load
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs import source

SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
DRAWS = 3
TRAIN, TEST = 400, 228


def main(arguments: list[str]) -> None:
    """Print the RMSE without errors and with each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stacked", action="store_true", help="measure the default model")
    parser.add_argument("--errors", type=float, nargs=2, default=(0.2, 2.0))
    options = parser.parse_args(arguments)
    stacked, (small, large) = options.stacked, options.errors
    torch.set_num_threads(1)
    molecules = load("esol")
    y = molecules.y[:, 0].double().numpy()
    chosen = source.ERROR_OF_EXACT_LABELS
    for share in (None, *((chosen,) if stacked else SHARES)):
        results = []
        for draw in range(DRAWS):
            generator = np.random.default_rng(draw)
            order = generator.permutation(len(y))
            train, test = order[:TRAIN], order[TRAIN : TRAIN + TEST]
            errors = np.where(generator.random(TRAIN) < 0.5, large, small)
            labels = y[train] + errors * generator.normal(size=TRAIN)
            weights = None
            if share is not None:
                source.ERROR_OF_EXACT_LABELS = share
                weights = source.error_weights(labels, errors)
            model = MoleculeRegressor(model="stacked" if stacked else "gp", threads=1)
            model.fit([molecules.smiles[i] for i in train], labels, sample_weight=weights)
            predicted = model.predict([molecules.smiles[i] for i in test])
            results.append(float(np.sqrt(np.mean((predicted - y[test]) ** 2))))
        print(f"{'no errors' if share is None else share}: {statistics.mean(results):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
