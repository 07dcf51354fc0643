"""Pictures and a table of the measured molecules that are nearest to the explained molecules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from gattn.apps.molecules.inputs import MoleculeInputs
from gattn.apps.molecules.masking import MoleculeAtoms, atoms_of
from gattn.apps.molecules.runs.neighbors import MeasuredMolecules, Neighbor, similarity_weights
from gattn.draw import DRAWN_ATOMS, draw_grid
from gattn.files import write_rows

__all__ = ["write_neighbors"]

COLUMNS = 4
"""Maximum number of molecules in one row of a picture."""
SIZE = 300, 240
"""Width and height of the picture of a molecule, in pixels."""


def write_neighbors(
    folder: Path,
    rows: Sequence[int],
    inputs: MoleculeInputs,
    measured: MeasuredMolecules,
    target: int,
    *,
    titles: Sequence[str],
    pictures: int,
) -> None:
    """Write a table and pictures of the measured molecules that are nearest to k molecules.

    ``neighbors.csv`` has a line for each molecule and neighbour. ``row<row>-neighbors.svg`` and
    ``.png`` show the molecule, with the contribution of each atom to the similarity with the
    nearest measured molecule, and beside it the neighbours with their measured values.

    Args:
        folder: the folder, which exists.
        rows: k row numbers.
        inputs: the k molecules.
        measured: the measured molecules of the run.
        target: index of the target whose values are shown.
        titles: names of the k molecules, "" where there is none.
        pictures: number of molecules to draw, from the first.
    """
    index, similarity = measured.model.predictor_.nearest(inputs, measured.count)
    nearest = [measured.of(*pair) for pair in zip(index.tolist(), similarity.tolist())]
    header = ["row", "rank", "smiles", "similarity", "measured", "in_domain"]
    lines = [
        [
            row, rank, one.smiles, f"{one.similarity:.6g}", one.values[target],
            str(measured.applicability.is_inside(some[0].similarity)).lower(),
        ]
        for row, some in zip(rows, nearest)
        for rank, one in enumerate(some, start=1)
    ]  # fmt: skip
    write_rows(folder / "neighbors.csv", [header, *lines])
    atoms = atoms_of(inputs[: min(pictures, len(rows))])
    for i, described in enumerate(atoms):
        if nearest[i] and len(described.symbols) <= DRAWN_ATOMS:
            smiles = inputs.molecules.smiles[i]
            title = f"row {rows[i]}: {titles[i] or smiles}"
            some = inputs[[i]]
            _draw(folder / f"row{rows[i]}-neighbors", some, described, nearest[i], measured, target,
                  title)  # fmt: skip


def _draw(
    stem: Path, inputs: MoleculeInputs, atoms: MoleculeAtoms, neighbors: Sequence[Neighbor],
    measured: MeasuredMolecules, target: int, title: str,
) -> None:  # fmt: skip
    """Draw one molecule with its similarity map, and its neighbours."""
    from gattn.data.molecules.smiles import parse_any_size

    best = neighbors[0]
    weights = similarity_weights(measured.model.predictor_, inputs, atoms, best.column)
    drawn = [one for one in neighbors if _atoms(one.smiles) <= DRAWN_ATOMS]
    inside = measured.applicability.is_inside(best.similarity)
    limit = f"{measured.applicability.threshold:.2f}"
    domain = f"inside the domain (at least {limit})" if inside else f"outside the domain ({limit})"
    lines = [[f"nearest similarity {best.similarity:.2f}", domain]]
    name = measured.model.targets_[target]
    lines += [
        [f"similarity {one.similarity:.2f}", f"{name} {one.values[target] or '–'}"] for one in drawn
    ]
    smiles = [inputs.molecules.smiles[0], *(one.smiles for one in drawn)]
    none = [torch.zeros(parse_any_size(text).GetNumAtoms()) for text in smiles[1:]]
    for format in ("svg", "png"):
        picture = draw_grid(
            smiles, [weights, *none], titles=[title, *(f"measured {i}" for i in
                                                       range(1, len(drawn) + 1))],
            lines=lines, columns=min(COLUMNS, len(smiles)), size=SIZE, format=format,
            label="contribution of an atom to the similarity with measured 1",
        )  # fmt: skip
        stem.with_name(f"{stem.name}.{format}").write_bytes(picture)


def _atoms(smiles: str) -> int:
    from gattn.data.molecules.smiles import parse_any_size

    return parse_any_size(smiles).GetNumAtoms()
