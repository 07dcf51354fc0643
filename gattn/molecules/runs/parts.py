"""How the molecules of a run are divided into training, validation and test parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gattn.data import Split, random_split, scaffold_split, split_by_names
from gattn.data.molecules.scaffolds import murcko_scaffold
from gattn.data.splits import read_positions, split_from_positions
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.source import Source
from gattn.training.runs import Json

__all__ = ["PARTS", "choose_parts", "splits_record", "validation_groups"]

PARTS = ("train", "val", "test")
LEAST = 10
"""Fewer molecules cannot be divided 8:1:1."""


def choose_parts(
    spec: str, known: LabelledMolecules, source: Source, seed: int
) -> tuple[Split, list[str]]:
    """Divide molecules as ``--split`` says.

    By ``random`` and ``scaffold`` all rows of one molecule (as
    :func:`gattn.data.molecule_identities` decides) come into one part; a column or a file is taken
    as it is.

    Args:
        spec: ``random``, ``scaffold``, ``column:NAME`` or ``FILE.json``.
        known: the labelled molecules.
        source: where they came from, with the split column.
        seed: of the random split.

    Returns:
        Positions in ``known``, and what to say of a file that was written of other data.

    Raises:
        FileNotFoundError: no such file.
        ValueError: too few molecules, a part without any, or a column or file that is no split.
    """
    notes: list[str] = []
    if len(known) < LEAST:
        raise ValueError(f"a run needs at least {LEAST} labelled molecules; got {len(known)}")
    if (different := len(set(known.canonical))) < LEAST and spec in ("random", "scaffold"):
        raise ValueError(
            f"a {spec} split needs at least {LEAST} different molecules; the {len(known):,} rows "
            f"hold {different}, as {known.canonical[0]}"
        )
    if spec == "random":
        split = random_split(len(known), seed=seed, groups=known.canonical)
    elif spec == "scaffold":
        split = scaffold_split(known.canonical)
    elif source.parts is not None:
        split = _by_column(source, spec).among(known.rows)
    else:
        found = read_positions(spec)
        split = split_from_positions(found, spec, len(source.smiles)).among(known.rows)
        notes = _other_data(spec, found, source)
    for part in PARTS:
        if not len(getattr(split, part)):
            raise ValueError(f"split {spec} leaves no molecule in the {part} part")
    return split, notes


def validation_groups(spec: str, val: LabelledMolecules) -> list[str] | None:
    """Name the group of each validation molecule: its scaffold in a split by scaffold.

    The test part of such a split has scaffolds that were not learned. So the kernel ridge predicts
    a validation molecule without all others of its scaffold, too.

    Args:
        spec: what ``--split`` says.
        val: the validation part.

    Returns:
        k scaffolds; None for another split.
    """
    return list(map(murcko_scaffold, val.canonical)) if spec == "scaffold" else None


def _other_data(spec: str, found: Mapping[str, Any], source: Source) -> list[str]:
    """A note where a file of parts, which are rows by number, was written of other data."""
    if found.get("sha256") in (None, source.sha256):
        return []
    written = f"{spec} counts the rows of other data, {found.get('data')}"
    return [f"{written}: {source.name} must have the same molecules in the same order."]


def splits_record(split: Split, known: LabelledMolecules, source: Source) -> dict[str, Json]:
    """What ``splits.json`` holds: the protocol, the data, and the rows of every part, from 0."""
    rows = {part: known.rows[getattr(split, part)].tolist() for part in PARTS}
    return {"protocol": split.protocol, "data": source.name, "sha256": source.sha256, **rows}


def _by_column(source: Source, spec: str) -> Split:
    try:
        return split_by_names(source.parts or [], protocol=spec)
    except ValueError as error:
        raise ValueError(f"{source.name}, {spec}: {error}") from None
