"""Predict with an exported model, without gattn and PyTorch. The network runs in ONNX Runtime, and
the rest in NumPy.

    pip install -e ".[export]"
    python examples/exported_model.py

Trains a small model, exports it to a folder, and predicts a table with the program in the folder,
in a process that imports neither gattn nor PyTorch.
"""

import argparse
import csv
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.export.folder import export_model

NEW = ["CCCCCO", "OCc1ccccc1", "C1CC"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the training")
    parser.add_argument("--ensemble", type=int, default=1, help="number of networks")
    parser.add_argument("--width", type=int, default=32, help="channels of the network")
    options = parser.parse_args()
    ends = ("O", "N", "Cl", "c1ccccc1")
    smiles = ["C" * n + end for n, end in itertools.product(range(1, 11), ends)]
    sizes = [float(n + 6 * (end == ends[-1])) for n, end in itertools.product(range(1, 11), ends)]
    model = MoleculeRegressor(
        epochs=options.epochs, ensemble=options.ensemble, width=options.width, heads=4, layers=2
    ).fit(smiles, sizes)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model.save(folder / "run")
        exported = export_model(folder / "run", folder / "exported")
        with (folder / "in.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["smiles"], *([text] for text in NEW)])
        program = folder / "exported" / "predict.py"
        subprocess.run([sys.executable, program, folder / "in.csv", folder / "out.csv"], check=True)
        with (folder / "out.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    expected = model.predict(NEW[:2])
    for row, value in zip(rows, expected):
        ends_of = f"{float(row['lower']):.2f} to {float(row['upper']):.2f}"
        print(f"{row['smiles']}: {float(row['prediction']):.4f} ({ends_of}); by gattn {value:.4f}")
    print(f"{rows[2]['smiles']}: {rows[2]['error']}")
    differences = [abs(float(row["prediction"]) - value) for row, value in zip(rows, expected)]
    print(json.dumps({"files": exported.files, "difference": max(differences)}))


if __name__ == "__main__":
    main()
