"""A folder of explanations: tables of numbers, and pictures on one scale."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.draw import DRAWN_ATOMS, draw_molecule, shared_scale
from gattn.pipeline.text import with_precision

if TYPE_CHECKING:
    from gattn.molecules.explain import Explanation

__all__ = ["PICTURES", "WrittenExplanations", "describe", "label_of", "write_explanations"]

PICTURES = 100
"""So many molecules are drawn: nobody looks at more, and each takes two files a method."""


@dataclass(frozen=True)
class WrittenExplanations:
    """What :func:`write_explanations` wrote.

    Attributes:
        atoms: the table of atoms.
        molecules: the table of molecules.
        pictures: one SVG and one PNG for each molecule and method.
        not_drawn: the rows of molecules too large for a picture, of those that were to have one.
    """

    atoms: Path
    molecules: Path
    pictures: tuple[Path, ...]
    not_drawn: tuple[int, ...]


def write_explanations(
    folder: Path, rows: Sequence[int],
    explained: Mapping[str, Sequence[Explanation]], *, name: str = "prediction",
    titles: Sequence[str] | None = None, pictures: int = PICTURES,
) -> WrittenExplanations:  # fmt: skip
    """Write the weights of atoms as tables and pictures.

    ``atoms.csv`` has one line an atom: ``row``, ``atom`` (its number in the text of the molecule,
    from 0, where hydrogens that are written as atoms count), ``symbol``, and for each method its
    weight and ``<method>_spread``, empty where there is one network. ``molecules.csv`` has one line
    for each molecule and method: the prediction, and the drops that tell how faithful the weights
    are. ``row<row>-<method>.svg`` and ``.png`` are the pictures. All methods in the target's unit
    are drawn on one scale; attention has no unit, and a scale of its own.

    Args:
        folder: made where it is missing; files of these names are replaced.
        rows: k numbers, what to call the molecules.
        explained: for each method the explanations of the same k molecules, in order.
        name: of the target, with its unit if it is known: what the pictures say.
        titles: the names of the k molecules, which stand above their pictures; a molecule whose
            name is empty, or every one where there are none, has its SMILES there.
        pictures: how many molecules are drawn, the first; the tables have all.

    Returns:
        The files.

    Raises:
        ValueError: a method explains another number of molecules than there are rows, or there is
            another number of titles.
        OSError: the folder cannot be written.
    """
    for method, found in explained.items():
        if len(found) != len(rows):
            raise ValueError(f"{method} must explain {len(rows)} molecules; got {len(found)}")
    if titles is not None and len(titles) != len(rows):
        raise ValueError(f"titles must name {len(rows)} molecules; got {len(titles)}")
    folder.mkdir(parents=True, exist_ok=True)
    atoms, molecules = folder / "atoms.csv", folder / "molecules.csv"
    _write(atoms, _atom_lines(rows, explained))
    _write(molecules, _molecule_lines(rows, explained))
    drawn: list[Path] = []
    not_drawn: set[int] = set()
    for method, found in explained.items():
        scale = _scale(method, explained)
        for place, (row, one) in enumerate(zip(rows[:pictures], found)):
            if len(one.symbols) > DRAWN_ATOMS:
                not_drawn.add(row)
            else:
                title = (titles[place] if titles else "") or one.smiles
                stem = folder / f"row{row}-{method}"
                drawn += _draw(stem, one, scale, name, f"row {row}: {title}")
    return WrittenExplanations(atoms, molecules, tuple(drawn), tuple(sorted(not_drawn)))


def describe(explanation: Explanation) -> list[str]:
    """Say under a picture what is predicted, and how faithful the weights are."""
    found = explanation.faithfulness
    count = len(found.atoms)
    atoms = f"{count} atoms of highest weight" if count > 1 else "atom of highest weight"
    predicted = with_precision(explanation.prediction, explanation.std, digits=3, error_digits=2)
    lines = [
        f"predicted {predicted} ± {explanation.std:.2g}",
        f"without the {atoms}: drop {found.top:+.2g}; random: {found.random:+.2g} "
        f"± {found.random_std:.2g}",
    ]
    return [line.replace("-", "−") for line in lines]


def label_of(method: str, name: str) -> str:
    """Say in a legend what the weights are."""
    if method == "attention":
        return "attention: weights of the readout, not importance"
    return f"{method.replace('_', ' ')}: contribution to {name}"


def _scale(method: str, explained: Mapping[str, Sequence[Explanation]]) -> float:
    alike = [method] if method == "attention" else [m for m in explained if m != "attention"]
    return shared_scale([one.weights for other in alike for one in explained[other]])


def _draw(
    stem: Path, explanation: Explanation, scale: float, name: str, title: str
) -> Iterator[Path]:
    for format in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{format}")
        path.write_bytes(
            draw_molecule(
                explanation.smiles, explanation.weights, scale=scale,
                title=title, lines=describe(explanation),
                label=label_of(explanation.method, name), format=format,
                signed=explanation.method != "attention",
            )
        )  # fmt: skip
        yield path


def _write(path: Path, lines: Iterator[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def _atom_lines(
    rows: Sequence[int], explained: Mapping[str, Sequence[Explanation]]
) -> Iterator[Sequence[object]]:
    yield ["row", "atom", "symbol", *(f"{m}{end}" for m in explained for end in ("", "_spread"))]
    for row, *of_row in zip(rows, *explained.values()):
        for atom, symbol in enumerate(of_row[0].symbols):
            numbers = (float(v[atom]) for one in of_row for v in (one.weights, one.spread))
            yield [row, of_row[0].atoms[atom], symbol, *map(_number, numbers)]


def _molecule_lines(
    rows: Sequence[int], explained: Mapping[str, Sequence[Explanation]]
) -> Iterator[Sequence[object]]:
    yield [
        *("row", "smiles", "method", "prediction", "std"),
        *("top_atoms", "top_drop", "random_drop", "random_drop_std"),
    ]
    for row, *of_row in zip(rows, *explained.values()):
        for one in of_row:
            found = one.faithfulness
            drops = (found.top, found.random, found.random_std)
            atoms = " ".join(str(one.atoms[place]) for place in found.atoms)
            predicted = with_precision(one.prediction, one.std, digits=9, error_digits=4)
            numbers = predicted, _number(one.std), atoms, *map(_number, drops)
            yield [row, one.smiles, one.method, *numbers]


def _number(value: float) -> str:
    """Nine digits; nothing for NaN."""
    return "" if value != value else f"{value:.9g}"
