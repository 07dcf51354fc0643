"""The command ``gattn molecules explain``, which writes tables and pictures of atom weights."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gattn.apps.molecules.explain import explain_model
from gattn.apps.molecules.loading import open_model
from gattn.apps.molecules.row_format import name_after, name_column
from gattn.apps.molecules.runs.predict import Counts
from gattn.apps.molecules.settings import DEFAULT_READING, TableReading
from gattn.apps.report.style import with_precision
from gattn.apps.run.train import Log, no_log
from gattn.apps.tables.csv_table import Table, TableRow
from gattn.draw import DRAWN_ATOMS, draw_molecule, shared_scale
from gattn.files import new_folder, write_rows

if TYPE_CHECKING:
    from gattn.apps.molecules.explain import Explanation

PICTURES = 100
"""Maximum number of molecules to draw; each molecule adds two files."""


def write_explanations(
    folder: Path, rows: Sequence[int], explanations: Sequence[Explanation], *,
    titles: Sequence[str] | None = None, pictures: int = PICTURES,
) -> list[int]:  # fmt: skip
    """Write the weights of atoms to CSV tables, and draw them as pictures of molecules.

    ``atoms.csv`` has one line for each atom: ``row``, ``atom`` (its number in the SMILES from 0,
    with hydrogens that are written as atoms), ``symbol``, ``weight`` and ``spread``, empty for a
    single network. ``molecules.csv`` has one line for each molecule: the prediction, and the drops
    that measure how faithful the weights are. ``row<row>.svg`` and ``.png`` are the pictures, which
    have one scale (:func:`colour_scale`).

    ``prediction`` is the result of ``predict``, a number or a class. The weights, their spread and
    the drops are those of the quantity in the column ``explained``, for example ``log10(IC50)`` or
    ``P(toxic = yes)``; ``explained_value`` is its prediction.

    Args:
        folder: created if it is missing; files of these names are replaced.
        rows: k row numbers that identify the molecules.
        explanations: the explanations of the k molecules, in order.
        titles: names of the k molecules, written above their pictures. By default, and for an
            empty name, the picture shows the SMILES.
        pictures: number of molecules to draw, from the first; the tables contain all.

    Returns:
        The rows of the molecules that are too large for a picture.

    Raises:
        OSError: the folder cannot be written.
        ImportError: matplotlib, which draws the pictures, is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "atoms.csv", _atom_lines(rows, explanations))
    write_rows(folder / "molecules.csv", _molecule_lines(rows, explanations))
    not_drawn: list[int] = []
    scale = colour_scale(explanations)
    for place, (row, one) in enumerate(zip(rows[:pictures], explanations)):
        if len(one.symbols) > DRAWN_ATOMS:
            not_drawn.append(row)
        else:
            title = (titles[place] if titles else "") or one.smiles
            _draw(folder / f"row{row}", one, scale, f"row {row}: {title}")
    return not_drawn


def describe(explanation: Explanation) -> list[str]:
    """Return the lines of a picture's caption: the prediction, and the faithfulness of the weights.

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
            lines += [f"weights and changes are in {name}, which is {explanation.value:.3g}"]
    lines += [
        f"without the {atoms}: {0.0 - faithfulness.top:+.2g}; without random ones: "
        f"{-faithfulness.random:+.2g} ± {faithfulness.random_std:.2g}"
    ]
    # A sign is before a number only: the hyphen of a class such as BBB- does not change.
    return [re.sub(r"(?<!\S)-(?=\d)", "−", line) for line in lines]


def label_of(explanation: Explanation) -> str:
    """Return the legend for the atom weights of an explanation."""
    return f"contribution to {explanation.explained}"


def colour_scale(explanations: Sequence[Explanation]) -> float:
    """Return the weight of the strongest colour for several explanations.

    It is at least the median error of the explained values. Therefore the pictures of a model that
    predicts no better than the mean are nearly empty. Without explanations it is 1.
    """
    if not explanations:
        return 1.0
    scale = shared_scale([one.weights for one in explanations])
    error = statistics.median(one.error for one in explanations)
    return max(scale, shared_scale([[error]])) if error > 0 else scale


def _draw(stem: Path, explanation: Explanation, scale: float, title: str) -> None:
    """Write the picture of an explanation, with the weight ``scale`` for the strongest colour and a
    title, to the files ``stem.svg`` and ``stem.png``. Raises ImportError without matplotlib.
    """
    for format in ("svg", "png"):
        path = stem.with_name(f"{stem.name}.{format}")
        path.write_bytes(
            draw_molecule(
                explanation.smiles, explanation.weights, scale=scale,
                title=title, lines=describe(explanation), label=label_of(explanation),
                format=format,
            )
        )  # fmt: skip


def _atom_lines(
    rows: Sequence[int], explanations: Sequence[Explanation]
) -> Iterator[Sequence[object]]:
    """Yield the header and a row for each atom of the explained molecules of ``atoms.csv``.
    ``rows`` are the rows of the molecules in their table.
    """
    yield ["row", "atom", "symbol", "explained", "weight", "spread"]
    for row, one in zip(rows, explanations):
        for atom, symbol in enumerate(one.symbols):
            numbers = (float(values[atom]) for values in (one.weights, one.spread))
            yield [row, one.atoms[atom], symbol, one.explained, *map(_number, numbers)]


def _molecule_lines(
    rows: Sequence[int], explanations: Sequence[Explanation]
) -> Iterator[Sequence[object]]:
    """Yield the header and a row for each explained molecule of ``molecules.csv``. ``rows`` are the
    rows of the molecules in their table.
    """
    yield [
        *("row", "smiles", "prediction", "std", "explained", "explained_value"),
        *("top_atoms", "top_drop", "random_drop", "random_drop_std"),
    ]
    for row, one in zip(rows, explanations):
        faithfulness, predicted = one.faithfulness, one.prediction
        drops = (faithfulness.top, faithfulness.random, faithfulness.random_std)
        atoms = " ".join(str(one.atoms[place]) for place in faithfulness.atoms)
        if not isinstance(predicted, str):
            predicted = with_precision(predicted, one.std, digits=9, error_digits=4)
        numbers = predicted, _number(one.std), one.explained, _number(one.value)
        yield [row, one.smiles, *numbers, atoms, *map(_number, drops)]


def _number(value: float) -> str:
    """Format a number with nine digits; return an empty string for NaN."""
    return "" if value != value else f"{value:.9g}"


def explain_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    target: str | None = None,
    label: str | None = None,
    reading: TableReading = DEFAULT_READING,
    pictures: int = PICTURES,
    log: Log = no_log,
) -> Counts:
    """Compute the atom weights of every molecule in a CSV file.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: a new folder. :func:`gattn.apps.molecules.runs.explain.write_explanations` describes
            the files; ``errors.csv`` has the rows that could not be read.
        target: the name of the target; optional for a model of one target.
        label: for a model of classes, the class whose probability is explained; by default the
            predicted class of each molecule.
        reading: rules for reading the file.
        pictures: number of molecules to draw, from the first; the tables contain all.
        log: called with each line that the user should read.

    Returns:
        The number of rows, and the number of rows that could not be read.

    Raises:
        RunError: the folder does not contain a readable model.
        FileNotFoundError: the file, or the folder in which ``out`` is created, does not exist.
        FileExistsError: ``out`` exists.
        ValueError: the file or its column cannot be used, the target or the class does not exist,
            ``pictures`` is negative, the file has no valid molecule, or the model reads reactions
            or several molecules in a row.
        ImportError: matplotlib, which draws the pictures, is not installed.
    """
    if pictures < 0:
        raise ValueError(f"pictures must be at least 0; got {pictures}")
    opened = open_model(run, reading)
    table, descriptors = opened.open(path, reading.encoding)
    estimator = opened.model
    target_index = estimator.place_of(target)
    rows = list(descriptors.checked(table.rows()))
    inputs = list(map(descriptors.input_row, rows))
    texts = [each.text for each in inputs]
    parsed = estimator.featurise(texts, [each.values for each in inputs])
    if not len(parsed.inputs):
        raise ValueError(f"{path} has no molecules that can be read")
    errors = [row.problem or error for row, error in zip(rows, parsed.errors)]
    explanations = explain_model(estimator, parsed.inputs, target=target_index, label=label)
    indices = parsed.row_index.tolist()
    titles = _titles(table, rows, indices)
    with new_folder(out) as folder:
        not_drawn = write_explanations(
            folder, indices, explanations, titles=titles, pictures=pictures
        )
        bad = [[i, texts[i], error] for i, error in enumerate(errors) if error]
        write_rows(folder / "errors.csv", [["row", "smiles", "error"], *bad])
    if len(indices) > pictures:
        log(f"{pictures:,} of {len(indices):,} molecules have pictures; the tables contain all")
    if not_drawn:
        log(f"{len(not_drawn)} molecules are too large for a picture")
    return Counts(len(rows), len(bad))


def _titles(table: Table, rows: Sequence[TableRow], indices: Sequence[int]) -> list[str]:
    """Return the names of the molecules in the rows at ``indices``, "" for one without a name.

    A name is the cell of a column such as ``name`` or ``id``, or the text after the first SMILES.
    """
    names = name_column([column for column in table.columns if column not in table.smiles])
    place, text_place = table.place(names) if names else None, table.place(table.smiles[0])
    return [
        (rows[i].cells[place].strip() if place is not None else "")
        or name_after(rows[i].cells[text_place])
        for i in indices
    ]
