"""Search for molecules that are in two parts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from torch import Tensor

from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.source import Source
from gattn.apps.run.text import plural
from gattn.data import Split

PARTS = {"train": "training", "val": "validation", "test": "test"}
"""Names of the three parts, as used in messages."""
HARM = {
    "train/val": "the model and the width of intervals are chosen on the validation part, "
    "and such molecules make the model seem better than it is",
    "train/test": "the errors on the test part will be too small",
    "val/test": "the model also learns the validation part, so the errors on the test part "
    "will be too small, as for molecules of the training part",
}


def overlaps(split: Split, molecules: LabelledMolecules, source: Source) -> dict[str, Any]:
    """Count the molecules that are in two parts (:func:`gattn.data.molecule_identities`).

    Args:
        split: positions in ``molecules``.
        molecules: the labelled molecules.
        source: the table from which they were read.

    Returns:
        For each pair of parts, ``"train/val"``, ``"train/test"`` and ``"val/test"``: the
        ``molecules`` that are in both, their ``rows`` in each, and an ``example`` or None.
    """
    places: dict[str, dict[str, list[int]]] = {part: {} for part in PARTS}
    for part in PARTS:
        for i in getattr(split, part).tolist():
            places[part].setdefault(molecules.canonical[i], []).append(i)
    counts: dict[str, Any] = {}
    for a, b in combinations(PARTS, 2):
        both = [text for text in places[a] if text in places[b]]
        counts[f"{a}/{b}"] = {
            "molecules": len(both),
            "rows": {part: sum(len(places[part][text]) for text in both) for part in (a, b)},
            "example": {p: _row(molecules, source, places[p][both[0]][0]) for p in (a, b)}
            if both
            else None,
        }
    return counts


def overlap_notes(facts: Mapping[str, Any]) -> list[str]:
    """Describe the result of :func:`overlaps` in sentences; none if the parts are disjoint."""
    notes = []
    for pair, entry in facts.items():
        a, b = pair.split("/")
        if n := entry["molecules"]:
            rows = f"{plural(entry['rows'][b], 'row')} and {plural(entry['rows'][a], 'row')}"
            places = (entry["example"][part] for part in (b, a))
            example = " and ".join(f"{row['smiles']} in line {row['line']}" for row in places)
            notes.append(
                f"{plural(n, 'molecule')} of the {PARTS[b]} part {'is' if n == 1 else 'are'} also "
                f"in the {PARTS[a]} part ({rows}; for example {example}): {HARM[pair]}."
            )
    return notes


def training_overlap(molecules: LabelledMolecules, new: Tensor, source: Source) -> dict[str, Any]:
    """Count the rows of a table whose molecules the model was trained or validated on.

    Args:
        molecules: the labelled molecules of the table.
        new: [k] bool, True for the other molecules.
        source: the table.

    Returns:
        Their numbers of ``molecules`` and ``rows``, and the first of them as an ``example`` or
        None.
    """
    old = (~new).nonzero().flatten().tolist()
    return {
        "molecules": len({molecules.canonical[i] for i in old}),
        "rows": len(old),
        "example": _row(molecules, source, old[0]) if old else None,
    }


def _row(molecules: LabelledMolecules, source: Source, position: int) -> dict[str, Any]:
    """Return the SMILES and the line of a molecule."""
    row = int(molecules.rows[position])
    return {"smiles": source.smiles[row].strip(), "line": int(source.lines[row])}
