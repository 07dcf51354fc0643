"""Train and measure the model ``bbb`` of the blood-brain barrier, which gattn ships.

    pip install qc-b3db                                         # the data, CC0 1.0
    python -m benchmarks.molecules.bbb --run RUN                # train, measure on the external set
    python -m benchmarks.molecules.bbb --run RUN --ship         # and write the shipped files

The package ``qc-b3db`` contains B3DB: 7,807 molecules with a class, BBB+ (enters the brain) or
BBB-, and an external set of 175 molecules that its authors collected later. A training molecule
whose constitution (formula and bonds, without stereochemistry) is in the external set is left out
of the training, so that the external molecules are new to the model. The rest is divided by
scaffolds into training, validation and test parts: the molecules of a scaffold are in one part.
The sets of classes are then calibrated on scaffolds that are new to the model, like the external
molecules.

Only four external molecules are BBB-. The area under the ROC curve of the external set is therefore
printed with its standard error (Hanley and McNeil, 1982).
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gattn.apps.molecules.pretrained import FILES, folder_of
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.runs.evaluate import evaluate_table
from gattn.apps.molecules.runs.predict import read_threshold
from gattn.apps.molecules.runs.stages import train_run
from gattn.apps.molecules.settings import MoleculeSettings

NAME, CLASS = "bbb", "class"
TABLES = {"train": "B3DB_classification.tsv", "external": "B3DB_classification_external.tsv"}
MODEL = MoleculeSettings(kernel_rows=2000)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "bbb.md"
"""Page of the guide that contains the model card."""
TEMPLATE = Path(__file__).with_name("bbb_card.md")


def main(arguments: Sequence[str]) -> None:
    """Train the model, measure it on the external set, and write its files if requested."""
    parser = argparse.ArgumentParser("python -m benchmarks.molecules.bbb", description=main.__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of the training run")
    parser.add_argument("--ship", action="store_true", help="write the files that gattn ships")
    options = parser.parse_args(arguments)
    run = options.run.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        # The model card contains the path of the table, which must not depend on this machine.
        os.chdir(scratch)
        train, external, left_out = write_tables(Path())
        print(f"{left_out} training molecules have the constitution of an external molecule")
        settings = RunSettings(
            data=str(train), target=(CLASS,), task="classification", split="scaffold", model=MODEL
        )
        metrics = train_run(settings, run, progress=True, log=print)
        measured = evaluate_table(run, external, log=print)
        os.chdir(run)
    summary = summarise(metrics, measured, left_out)
    summary["test"]["domain"] = read_threshold(run)
    print(json.dumps(summary, indent=1))
    if options.ship:
        ship(run, summary)


def write_tables(folder: Path) -> tuple[Path, Path, int]:
    """Write the tables for training and for the external measurement.

    Returns:
        The two files, and the number of training molecules that were left out.
    """
    rows = {part: read_b3db(name) for part, name in TABLES.items()}
    external = {constitution(row) for row in rows["external"]}
    train = [row for row in rows["train"] if constitution(row) not in external]
    parts = {"train": train, "external": rows["external"]}
    for part, some in parts.items():
        lines = [(row["SMILES"], row["BBB+/BBB-"]) for row in some]
        with open(folder / f"b3db_{part}.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("smiles", CLASS), *lines])
    return folder / "b3db_train.csv", folder / "b3db_external.csv", len(rows["train"]) - len(train)


def read_b3db(name: str) -> list[dict[str, str]]:
    """Read a table of the package. The package is not imported, because its import reads 80 MB of
    tables.
    """
    package = importlib.util.find_spec("B3DB")
    if package is None or package.origin is None:
        raise SystemExit("the data is missing: pip install qc-b3db")
    path = Path(package.origin).parent / name
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def constitution(row: dict[str, str]) -> str:
    """Return the formula and the bonds of a row's InChI, without hydrogens and stereochemistry."""
    return "/".join(row["Inchi"].strip().split("/")[1:3])


def summarise(
    metrics: dict[str, Any], external: dict[str, Any], left_out: int
) -> dict[str, dict[str, Any]]:
    """Return the figures of the test part and of the external set for the model card."""
    return {
        "test": _figures(metrics),
        "external": {**_figures(external), "negative": _classes(external)["negative"]},
        "train": {"molecules": metrics["molecules"]["train"], "left_out": left_out},
    }


def _figures(metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "molecules": metrics["molecules"]["test"],
        **metrics["test"],
        "standard_error": standard_error(metrics["test"]["roc_auc"], **_classes(metrics)),
        "coverage": metrics["intervals"]["held"],
        "mean_size": metrics["intervals"].get("mean_size"),
    }


def _classes(metrics: dict[str, Any]) -> dict[str, int]:
    """Return the numbers of the two classes in the test part."""
    counts = metrics["labels"][CLASS]["test"]
    return {"positive": counts["BBB+"], "negative": counts["BBB-"]}


def standard_error(auc: float, positive: int, negative: int) -> float:
    """Return the standard error of an area under the ROC curve (Hanley and McNeil, 1982)."""
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = auc * (1 - auc) + (positive - 1) * (first - auc**2)
    return math.sqrt((variance + (negative - 1) * (second - auc**2)) / (positive * negative))


def ship(run: Path, summary: dict[str, dict[str, Any]]) -> None:
    """Copy the model to the package, and write its card, which is also a page of the guide."""
    folder = folder_of(NAME)
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(run / name, folder / name)
    (folder / "figures.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    for path in (folder / "card.md", PAGE):
        path.write_text(card(summary), "utf-8")


def card(summary: dict[str, dict[str, Any]]) -> str:
    """Return the model card as Markdown."""
    return TEMPLATE.read_text("utf-8").format(**summary, kernel_rows=MODEL.kernel_rows)


if __name__ == "__main__":
    main(sys.argv[1:])
