"""Functions that write explanations to a folder, as tables and as pictures with a common colour
scale.
"""

from __future__ import annotations

import csv
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.apps.run.text import with_precision
from gattn.draw import DRAWN_ATOMS, draw_molecule, shared_scale

if TYPE_CHECKING:
    from gattn.apps.molecules.explain import Explanation

__all__ = [
    "PICTURES", "WrittenExplanations", "colour_scale", "describe", "label_of", "write_explanations",
]  # fmt: skip

PICTURES = 100
"""Maximum number of molecules to draw; each molecule adds two files per method."""


@dataclass(frozen=True)
class WrittenExplanations:
    """Paths of the files that :func:`write_explanations` wrote.

    Attributes:
        atoms: the table of atoms.
        molecules: the table of molecules.
        pictures: one SVG and one PNG for each molecule and method.
        not_drawn: rows of the molecules that are too large for a picture.
    """

    atoms: Path
    molecules: Path
    pictures: tuple[Path, ...]
    not_drawn: tuple[int, ...]


def write_explanations(
    folder: Path, rows: Sequence[int],
    explained: Mapping[str, Sequence[Explanation]], *,
    titles: Sequence[str] | None = None, pictures: int = PICTURES, columns: Sequence[str] = (),
) -> WrittenExplanations:  # fmt: skip
    """Write the weights of atoms to CSV tables, and draw them as pictures of molecules.

    ``atoms.csv`` has one line for each atom: ``row``, ``atom`` (its number in the SMILES from 0,
    with hydrogens that are written as atoms), ``symbol``, ``molecule`` (the number of the molecule
    from 1, if a row has several), and for each method its weight and
    ``<method>_spread``, empty for a single network. ``molecules.csv`` has one line for each
    molecule and method: the prediction, and the drops that measure how faithful the weights are.
    ``row<row>-<method>.svg`` and ``.png`` are the pictures, which have one scale
    (:func:`colour_scale`). If the model reads descriptor
    columns, ``descriptors.csv`` has one line for each molecule and column: its contribution, the
    change of the prediction from the column's mean over the training part to its value.

    ``prediction`` is the result of ``predict``, a number or a class. The weights, their spread, the
    drops and the contributions of descriptors are those of the quantity in the column
    ``explained``, for example ``log10(IC50)`` or ``P(toxic = yes)``; ``explained_value`` is its
    prediction, and ``baseline`` its prediction for a molecule without atoms, to which the weights
    of integrated gradients are relative.

    Args:
        folder: created if it is missing; files of these names are replaced.
        rows: k row numbers that identify the molecules.
        explained: for each method the explanations of the same k molecules, in order.
        titles: names of the k molecules, written above their pictures. By default, and for an
            empty name, the picture shows the SMILES.
        pictures: number of molecules to draw, from the first; the tables contain all.
        columns: names of the descriptor columns of the model.

    Returns:
        The files.

    Raises:
        ValueError: a method explains another number of molecules than there are rows, or there is
            another number of titles.
        OSError: the folder cannot be written.
    """
    for method, explanations in explained.items():
        if len(explanations) != len(rows):
            raise ValueError(
                f"{method} must explain {len(rows)} molecules; got {len(explanations)}"
            )
    if titles is not None and len(titles) != len(rows):
        raise ValueError(f"titles must name {len(rows)} molecules; got {len(titles)}")
    folder.mkdir(parents=True, exist_ok=True)
    atoms, molecules = folder / "atoms.csv", folder / "molecules.csv"
    _write(atoms, _atom_lines(rows, explained))
    _write(molecules, _molecule_lines(rows, explained))
    if columns:
        _write(folder / "descriptors.csv", _descriptor_lines(rows, explained, columns))
    drawn: list[Path] = []
    not_drawn: set[int] = set()
    scale = colour_scale([one for each in explained.values() for one in each])
    for method, explanations in explained.items():
        for place, (row, one) in enumerate(zip(rows[:pictures], explanations)):
            if len(one.symbols) > DRAWN_ATOMS:
                not_drawn.add(row)
            else:
                title = (titles[place] if titles else "") or one.smiles
                stem = folder / f"row{row}-{method}"
                drawn += _draw(stem, one, scale, f"row {row}: {title}")
    return WrittenExplanations(atoms, molecules, tuple(drawn), tuple(sorted(not_drawn)))


def describe(explanation: Explanation) -> list[str]:
    """Return the caption of a picture: the prediction, and the faithfulness of the weights.

    With a target transform, the second line names the scale of the weights.

    Args:
        explanation: the explanation.
    """
    faithfulness, prediction, name = (
        explanation.faithfulness, explanation.prediction, explanation.explained
    )  # fmt: skip
    count = len(faithfulness.atoms)
    atoms = f"{count} atoms of highest weight" if count > 1 else "atom of highest weight"
    lines = [f"predicted {prediction}; {name} is {explanation.value:.3g} ± {explanation.std:.2g}"]
    if not isinstance(prediction, str):
        shown = with_precision(prediction, explanation.std, digits=3, error_digits=2)
        lines = [f"predicted {shown} ± {explanation.std:.2g}"]
        if explanation.transform != "none":
            lines += [f"weights and drops are in {name}, which is {explanation.value:.3g}"]
    lines += [
        f"without the {atoms}: drop {faithfulness.top:+.2g}; random: {faithfulness.random:+.2g} "
        f"± {faithfulness.random_std:.2g}"
    ]
    # A sign is before a number only: the hyphen of a class such as BBB- does not change.
    return [re.sub(r"(?<!\S)-(?=\d)", "−", line) for line in lines]


def label_of(explanation: Explanation) -> str:
    """Return the legend for the atom weights of an explanation."""
    return f"{explanation.method.replace('_', ' ')}: contribution to {explanation.explained}"


def colour_scale(explanations: Sequence[Explanation]) -> float:
    """Return the weight of the strongest colour for several explanations.

    It is at least the median error of the explained values. Therefore the pictures of a model that
    predicts no better than the mean are nearly empty.
    """
    if not explanations:
        return 1.0
    error = statistics.median(one.error for one in explanations)
    return max(shared_scale([one.weights for one in explanations]), shared_scale([[error]]))


def _draw(stem: Path, explanation: Explanation, scale: float, title: str) -> Iterator[Path]:
    for format in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{format}")
        path.write_bytes(
            draw_molecule(
                explanation.drawn, explanation.weights, scale=scale,
                title=title, lines=describe(explanation), label=label_of(explanation),
                format=format,
            )
        )  # fmt: skip
        yield path


def _write(path: Path, lines: Iterator[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def _atom_lines(
    rows: Sequence[int], explained: Mapping[str, Sequence[Explanation]]
) -> Iterator[Sequence[object]]:
    several = any(one.molecules for one in next(iter(explained.values()), ()))
    weights = [f"{method}{end}" for method in explained for end in ("", "_spread")]
    header = ["row", *(["molecule"] if several else []), "atom", "symbol"]
    yield [*header, "explained", *weights]
    for row, *of_row in zip(rows, *explained.values()):
        first = of_row[0]
        for atom, symbol in enumerate(first.symbols):
            numbers = (float(v[atom]) for one in of_row for v in (one.weights, one.spread))
            molecule = [first.molecules[atom] + 1] if several else []
            place = first.atoms[atom]
            yield [row, *molecule, place, symbol, first.explained, *map(_number, numbers)]


def _molecule_lines(
    rows: Sequence[int], explained: Mapping[str, Sequence[Explanation]]
) -> Iterator[Sequence[object]]:
    yield [
        *("row", "smiles", "method", "prediction", "std", "explained", "explained_value"),
        *("baseline", "top_atoms", "top_drop", "random_drop", "random_drop_std"),
    ]
    for row, *of_row in zip(rows, *explained.values()):
        for one in of_row:
            faithfulness, predicted = one.faithfulness, one.prediction
            drops = (faithfulness.top, faithfulness.random, faithfulness.random_std)
            atoms = " ".join(_atom_text(one, place) for place in faithfulness.atoms)
            if not isinstance(predicted, str):
                predicted = with_precision(predicted, one.std, digits=9, error_digits=4)
            scale = one.explained, _number(one.value), _number(one.baseline)
            numbers = predicted, _number(one.std), *scale, atoms, *map(_number, drops)
            yield [row, one.smiles, one.method, *numbers]


def _atom_text(explanation: Explanation, place: int) -> str:
    """Return the number of an atom as text. If the row has several molecules, the molecule's
    number precedes it (1:0).
    """
    molecules, atom = explanation.molecules, explanation.atoms[place]
    return f"{molecules[place] + 1}:{atom}" if molecules else str(atom)


def _descriptor_lines(
    rows: Sequence[int], explained: Mapping[str, Sequence[Explanation]], columns: Sequence[str]
) -> Iterator[Sequence[object]]:
    yield ["row", "descriptor", "explained", "contribution"]
    # The contributions of descriptors are the same for every method, so the first method is read.
    first = next(iter(explained.values()), ())
    for row, one in zip(rows, first):
        for column, contribution in zip(columns, one.descriptors.tolist()):
            yield [row, column, one.explained, _number(contribution)]


def _number(value: float) -> str:
    """Format a number with nine digits; return an empty string for NaN."""
    return "" if value != value else f"{value:.9g}"
