"""Draw the README's molecule: the contribution of each atom to a predicted activity.

    python -m docs.tools.molecule

trains on 814 of the measured compounds that come with RDKit, draws the other compound whose
contributions have the most equal sums above and below zero, and writes
docs/guide/images/molecule.png. It takes one or two minutes.
"""

from __future__ import annotations

from pathlib import Path

from gattn import data
from gattn.apps.molecules import MoleculeRegressor
from gattn.draw import draw_molecule

PICTURE = Path(__file__).parents[1] / "guide" / "images" / "molecule.png"
EPOCHS = 20


def main() -> None:
    """Train, select a molecule, explain it, and write its drawing to ``PICTURE``."""
    molecules = data.load_molecules("chembl2321810")
    split = data.random_split(molecules, seed=0)
    smiles, y = molecules.smiles, molecules.y[:, 0].double().numpy()
    train, val, test = split.train.tolist(), split.val.tolist(), split.test.tolist()
    model = MoleculeRegressor(epochs=EPOCHS).fit(
        [smiles[i] for i in train],
        y[train],
        validation=([smiles[i] for i in val], y[val]),
        progress=True,
    )
    explained = [each for each in model.explain([smiles[i] for i in test]) if each is not None]
    one = min(explained, key=lambda each: abs(float(each.weights.sum() / each.weights.abs().sum())))
    measured = y[smiles.index(one.smiles)]
    line = (
        f"activity: measured {measured:.3g}, predicted {float(one.prediction):.3g} ± {one.std:.1g}"
    )
    picture = draw_molecule(
        one.smiles, one.weights, lines=[line], label="contribution of an atom", format="png"
    )
    PICTURE.write_bytes(picture)


if __name__ == "__main__":
    main()
