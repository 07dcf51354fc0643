"""Networks with labelled nodes, written as the tables that ``gattn nodes train`` reads.

Each function writes ``edges.csv`` and ``nodes.csv`` into a folder.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["NETWORKS", "block_model", "debian", "imports", "make", "noise"]

RELATIONS = ("Depends", "Recommends", "Suggests")
LEAST = 200
"""Fewest packages of a section of Debian; the packages of smaller ones have no label."""


def make(name: str, folder: Path) -> list[str]:
    """Write a network of :data:`NETWORKS`, and return the arguments that name it and its label."""
    if name == "cora":
        return ["cora"]
    NETWORKS[name](folder)
    return [str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--label", "label"]


def debian(folder: Path) -> None:
    """Write Debian's packages as ``apt-cache dumpavail`` lists them.

    The features are the descriptions, the edges the relations Depends, Recommends and Suggests
    between listed packages. The label is the section without its area, such as ``contrib/``.
    """
    listed = subprocess.run(
        ["apt-cache", "dumpavail"], check=True, capture_output=True, encoding="utf-8"
    ).stdout
    packages: dict[str, dict[str, str]] = {}
    for entry in listed.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", entry, re.MULTILINE))
        if "Package" in fields:
            packages.setdefault(fields["Package"], fields)
    sections = {name: each.get("Section", "").split("/")[-1] for name, each in packages.items()}
    sizes = Counter(sections.values())
    edges = []
    for name, fields in packages.items():
        for relation in RELATIONS:
            targets = re.split(r"[,|]", fields.get(relation, ""))
            others = dict.fromkeys(re.sub(r"[\s(:].*", "", target.strip()) for target in targets)
            edges += [(name, other, relation) for other in others if other in packages]
    nodes = [
        (name, fields.get("Description", ""), label if sizes[label] >= LEAST else "")
        for (name, fields), label in zip(packages.items(), sections.values())
    ]
    _write(folder, edges, nodes, ("id", "description", "label"), "relation")


def imports(folder: Path, package: str, least: int) -> None:
    """Write the imports between the modules of a package, by ``examples/imports.py``.

    Args:
        folder: to write in.
        package: name of an installed package.
        least: fewest modules of a part.
    """
    script = Path(__file__).resolve().parents[2] / "examples" / "imports.py"
    options = ["--package", package, "--least", str(least), "--out", str(folder)]
    subprocess.run([sys.executable, script, *options], check=True, capture_output=True)
    with (folder / "imports.csv").open(newline="", encoding="utf-8") as file:
        edges = list(csv.reader(file))[1:]
    with (folder / "modules.csv").open(newline="", encoding="utf-8") as file:
        nodes = [(row["id"], row["words"], row["part"]) for row in csv.DictReader(file)]
    _write(folder, edges, nodes, ("id", "words", "label"))


def block_model(
    folder: Path, homophily: float, nodes: int = 3000, classes: int = 5, seed: int = 0
) -> None:
    """Write a contextual block model: numbers that depend on the class, and edges likewise.

    A node has ten numbers, normal around the centre of its class. Of its five edges a share joins
    its class, the others one of the other classes.

    Args:
        folder: to write in.
        homophily: share of the edges within a class.
        nodes: number of nodes.
        classes: number of classes.
        seed: seed of the draw.
    """
    draw = np.random.default_rng(seed)
    label = draw.integers(classes, size=nodes)
    x = 0.6 * draw.normal(size=(classes, 10))[label] + draw.normal(size=(nodes, 10))
    members = [np.flatnonzero(label == kind) for kind in range(classes)]
    edges = []
    for node in range(nodes):
        for _ in range(5):
            same = draw.random() < homophily
            kind = label[node] if same else (label[node] + draw.integers(1, classes)) % classes
            edges.append((node, int(draw.choice(members[kind]))))
    _write_numbers(folder, edges, x, label.tolist())


def noise(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a network whose features and edges are independent of its three classes."""
    draw = np.random.default_rng(seed)
    edges = draw.integers(nodes, size=(5 * nodes, 2)).tolist()
    label = draw.choice(3, size=nodes, p=(0.5, 0.3, 0.2)).tolist()
    _write_numbers(folder, edges, draw.normal(size=(nodes, 10)), label)


NETWORKS = {
    "cora": lambda folder: None,
    "debian": debian,
    "sympy": lambda folder: imports(folder, "sympy", 60),
    "torch": lambda folder: imports(folder, "torch", 30),
    "sklearn": lambda folder: imports(folder, "sklearn", 15),
    "blocks-0.8": lambda folder: block_model(folder, 0.8),
    "blocks-0.5": lambda folder: block_model(folder, 0.5),
    "blocks-0.2": lambda folder: block_model(folder, 0.2),
    "blocks-0.0": lambda folder: block_model(folder, 0.0),
    "noise": noise,
}
"""Function that writes each network, by name."""


def _write_numbers(
    folder: Path, edges: Iterable[Sequence[object]], x: NDArray[np.float64], label: Sequence[object]
) -> None:
    nodes = [
        (f"n{i}", *(f"{value:.5f}" for value in row), f"class {kind}")
        for i, (row, kind) in enumerate(zip(x.tolist(), label))
    ]
    named = [(f"n{source}", f"n{target}") for source, target in edges]
    _write(folder, named, nodes, ("id", *(f"x{i}" for i in range(x.shape[1])), "label"))


def _write(
    folder: Path,
    edges: Iterable[Sequence[object]],
    nodes: Iterable[Sequence[object]],
    columns: Sequence[str],
    *edge_columns: str,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "edges.csv": [("source", "target", *edge_columns), *edges],
        "nodes.csv": [columns, *nodes],
    }
    for name, rows in tables.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
