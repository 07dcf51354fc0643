"""Draw the README's molecule: the contribution of each atom to a predicted activity.

    python -m docs.tools.molecule

trains on 814 of the measured compounds that come with RDKit, draws the compound with the highest
predicted activity among the other compounds, and writes docs/guide/images/molecule.png. It takes
one or two minutes.
"""

from __future__ import annotations

from pathlib import Path

from gattn import data
from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.explanations import describe
from gattn.draw import draw_molecule

PICTURE = Path(__file__).parents[1] / "guide" / "images" / "molecule.png"
EPOCHS = 20


def main() -> None:
    """Train, select a molecule, explain and draw it."""
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
    chosen = test[int(model.predict([smiles[i] for i in test]).argmax())]
    (explained,) = model.explain([smiles[chosen]])
    assert explained is not None
    lines = [f"measured {y[chosen]:.3g}", *describe(explained)]
    label = f"{explained.method.replace('_', ' ')}: contribution to the activity"
    picture = draw_molecule(
        smiles[chosen], explained.weights, lines=lines, label=label, format="png"
    )
    PICTURE.write_bytes(picture)


if __name__ == "__main__":
    main()
