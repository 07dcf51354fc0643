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

__all__ = [
    "NETWORKS",
    "READING",
    "aged",
    "block_model",
    "debian",
    "departments",
    "directed",
    "ignore_edge_columns",
    "imports",
    "make",
    "mines",
    "noise",
    "timed",
    "typed",
    "weighted",
]

RELATIONS = ("Depends", "Recommends", "Suggests")
LEAST = 200
"""Minimum number of packages in a section of Debian; packages of smaller sections have no label."""


def make(name: str, folder: Path) -> list[str]:
    """Write one of the :data:`NETWORKS`, and return the arguments of the command that name it
    and its label.
    """
    if name == "cora":
        return ["cora"]
    NETWORKS[name](folder)
    return [str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--label", "label"]


def debian(folder: Path) -> None:
    """Write the network of Debian's packages, as ``apt-cache dumpavail`` lists them.

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
    """Write the network of imports between the modules of a package, by ``examples/imports.py``.

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
    """Write a contextual block model, in which the numbers and the edges of nodes depend on their
    class.

    A node has ten numbers, normal around the centre of its class. A fraction ``homophily`` of its
    five edges lead to nodes of its class, and the others lead to nodes of other classes.

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


def weighted(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a network whose labels depend on the weights of edges.

    Two of the ten edges of a node lead to nodes of its class, with weights around 8, and the others
    lead to nodes of any class, with weights around 1. The column of weights is called ``strength``.
    """
    draw, label, x, members = _classes(nodes, 4, seed)
    edges = []
    for node in range(nodes):
        for place in range(10):
            same = place < 2
            kind = label[node] if same else draw.integers(4)
            weight = draw.lognormal(2.0 if same else 0.0, 0.5)
            edges.append((node, int(draw.choice(members[kind])), f"{weight:.4f}"))
    _write_numbers(folder, edges, x, label.tolist(), "strength")


def typed(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a network whose labels depend on the types of edges.

    An edge of the type ``same`` joins a node with one of its class, an edge of the type ``next``
    with one of the next class, and an edge of the type ``any`` with any node. The column of types
    is called ``kind``.
    """
    draw, label, x, members = _classes(nodes, 4, seed)
    edges = []
    for node in range(nodes):
        for name, offset in (("same", 0), ("same", 0), ("next", 1), ("next", 1), ("any", None)):
            kind = draw.integers(4) if offset is None else (label[node] + offset) % 4
            edges.append((node, int(draw.choice(members[kind])), name))
    _write_numbers(folder, edges, x, label.tolist(), "kind")


def directed(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a network whose labels depend on the direction of edges.

    Each edge leads from a node to one of the next class, so that the sources of the edges into a
    node are of the previous class and the destinations of the edges out of it of the next.
    """
    draw, label, x, members = _classes(nodes, 4, seed)
    edges = [
        (node, int(draw.choice(members[(label[node] + 1) % 4])))
        for node in range(nodes)
        for _ in range(3)
    ]
    _write_numbers(folder, edges, x, label.tolist())


def timed(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a network whose labels depend on the times of edges.

    The two newest of the ten edges of a node, from the year 2020, lead to nodes of its class, and
    the others lead to nodes of any class. The column ``since`` contains the dates.
    """
    draw, label, x, members = _classes(nodes, 4, seed)
    edges = []
    for node in range(nodes):
        for place in range(10):
            same = place < 2
            kind = label[node] if same else draw.integers(4)
            year = 2020 if same else draw.integers(2000, 2019)
            date = f"{year}-{draw.integers(1, 13):02d}-{draw.integers(1, 29):02d}"
            edges.append((node, int(draw.choice(members[kind])), date))
    _write_numbers(folder, edges, x, label.tolist(), "since")


def aged(folder: Path, nodes: int = 2000, seed: int = 0) -> None:
    """Write a citation network, in which each node cites five older nodes, most of them of its
    class.

    The column ``year`` of the nodes contains their times.
    """
    draw, label, x, _ = _classes(nodes, 4, seed)
    edges = []
    for node in range(20, nodes):
        for _ in range(5):
            same = np.flatnonzero(label[:node] == label[node])
            pool = same if draw.random() < 0.6 and len(same) else np.arange(node)
            edges.append((node, int(draw.choice(pool))))
    years = [1990 + 30 * node // nodes for node in range(nodes)]
    _write_numbers(folder, edges, x, label.tolist(), year=years)


def mines(folder: Path, side: int = 100, seed: int = 0) -> None:
    """Write a board with mines on a fifth of its squares; the label of a square is whether it has a
    mine.

    The edges join neighbouring squares, also along diagonals. The features of half of the squares
    mark the number of mines around them, and those of the others only mark that it is hidden.
    """
    draw = np.random.default_rng(seed)
    mine = draw.random((side, side)) < 0.2
    steps = [(1, 0), (0, 1), (1, 1), (1, -1)]
    around = np.pad(mine, 1).astype(int)
    shifts = [(sign * i, sign * j) for i, j in steps for sign in (-1, 1)]
    count = np.sum([np.roll(around, shift, (0, 1)) for shift in shifts], 0)[1:-1, 1:-1]
    kind = np.where(draw.random((side, side)) < 0.5, count, 9).ravel()
    edges = [
        (i * side + j, (i + down) * side + j + right)
        for i in range(side)
        for j in range(side)
        for down, right in steps
        if i + down < side and 0 <= j + right < side
    ]
    _write_numbers(folder, edges, np.eye(10)[kind], mine.ravel().astype(int).tolist())


def departments(folder: Path, nodes: int = 1000, classes: int = 42, seed: int = 0) -> None:
    """Write a network of messages without columns, in which a third of the edges lead to nodes of
    the same class. The sizes of classes and the numbers of edges of nodes are log-normal.
    """
    draw = np.random.default_rng(seed)
    size = draw.lognormal(0, 1, classes)
    label = draw.choice(classes, nodes, p=size / size.sum())
    sends = draw.lognormal(0, 1.2, nodes)
    receives = sends * draw.lognormal(0, 0.5, nodes)
    edges = set()
    for source in draw.choice(nodes, 25 * nodes, p=sends / sends.sum()).tolist():
        same = np.flatnonzero(label == label[source])
        pool = same if draw.random() < 0.35 else np.arange(nodes)
        target = int(draw.choice(pool, p=receives[pool] / receives[pool].sum()))
        edges |= {(source, target)} - {(source, source)}
    _write_numbers(folder, sorted(edges), np.zeros((nodes, 0)), label.tolist())


def _classes(
    nodes: int, classes: int, seed: int
) -> tuple[np.random.Generator, NDArray[np.int64], NDArray[np.float64], list[NDArray[np.int64]]]:
    """Return a random generator, the classes of the nodes, weakly informative features, and the
    nodes of each class.
    """
    draw = np.random.default_rng(seed)
    label = draw.integers(classes, size=nodes)
    x = 0.3 * draw.normal(size=(classes, 10))[label] + draw.normal(size=(nodes, 10))
    return draw, label, x, [np.flatnonzero(label == kind) for kind in range(classes)]


def ignore_edge_columns(path: Path) -> None:
    """Rewrite a table of edges without columns, with each edge in both directions."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    with path.open("w", newline="", encoding="utf-8") as file:
        pairs = [row[:2] for row in rows]
        csv.writer(file).writerows([header[:2], *pairs, *(pair[::-1] for pair in pairs)])


READING = {
    "weights": ("--edge-weight", "strength"),
    "types": ("--edge-type", "kind"),
    "time": (),
    "years": ("--time", "year"),
}
"""Options with which the command reads the columns of each network, by the network's name."""

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
    "weights": weighted,
    "types": typed,
    "direction": directed,
    "time": timed,
    "years": aged,
    "mines": mines,
    "departments": departments,
}
"""Function that writes each network, by name."""


def _write_numbers(
    folder: Path,
    edges: Iterable[Sequence[object]],
    x: NDArray[np.float64],
    label: Sequence[object],
    *edge_columns: str,
    **columns: Sequence[object],
) -> None:
    nodes = [
        (f"n{i}", *(f"{value:.5f}" for value in row), *more, f"class {kind}")
        for i, (row, kind, *more) in enumerate(zip(x.tolist(), label, *columns.values()))
    ]
    named = [(f"n{source}", f"n{target}", *rest) for source, target, *rest in edges]
    names = ("id", *(f"x{i}" for i in range(x.shape[1])), *columns, "label")
    _write(folder, named, nodes, names, *edge_columns)


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
