"""Search for molecules that are in two parts of a run, or whose labels contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from gattn.apps.molecules.row_format import map_parts
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.source import Source
from gattn.apps.molecules.settings import Task
from gattn.apps.run.text import plural
from gattn.data import Split
from gattn.data.molecules.identity import flat, parent

__all__ = ["conflict_notes", "conflicts", "duplicate_facts", "duplicate_notes", "training_overlap"]

PARTS = {"train": "training", "val": "validation", "test": "test"}
"""Names of the three parts, as used in messages."""
TOLERANCE = 0.5
"""Labels of one molecule contradict each other if they differ by more than this number of standard
deviations of the target.
"""
TARGETS = 3
"""Maximum number of targets whose contradictions are described in notes."""
FORMS = {
    "salt_forms": "as different salts or charges",
    "stereo_forms": "with different stereo",
}
"""Description of the molecules that are in two parts in different forms."""
HARM = {
    "train/val": "the model and the width of intervals are chosen on the validation part, "
    "and such molecules make the model seem better than it is",
    "train/test": "the errors on the test part will be too small",
    "val/test": "the model also learns the validation part, so the errors on the test part "
    "will be too small, as for molecules of the training part",
}


def duplicate_facts(
    split: Split, molecules: LabelledMolecules, source: Source, task: Task
) -> dict[str, Any]:
    """Count the molecules that are in two parts, and the molecules with contradicting labels.

    Args:
        split: positions in ``molecules``.
        molecules: the labelled molecules.
        source: the table from which they were read.
        task: task of the labels.

    Returns:
        Entries of ``metrics.json``. ``overlaps``, ``salt_forms`` and ``stereo_forms`` have an entry
        for each pair of parts, ``"train/val"``, ``"train/test"`` and ``"val/test"``: the
        ``molecules`` that are in both, their ``rows`` in each, and an ``example`` or None. The
        molecules of ``overlaps`` are the same (:func:`gattn.data.molecule_identities`); the
        molecules of ``salt_forms`` are different salts of one parent molecule
        (:func:`gattn.data.molecules.identity.parent`), and the molecules of ``stereo_forms`` differ
        only in stereochemistry. ``conflicts``: see
        :func:`conflicts`.
    """
    parts = {part: getattr(split, part).tolist() for part in PARTS}
    return {
        "overlaps": _overlap(molecules, source, parts, lambda text: text, forms=False),
        "salt_forms": _overlap(molecules, source, parts, parent, forms=True),
        "stereo_forms": _overlap(molecules, source, parts, flat, forms=True),
        "conflicts": conflicts(molecules, source, task),
    }


def _overlap(
    molecules: LabelledMolecules, source: Source, parts: Mapping[str, Sequence[int]],
    key: Callable[[str], str], *, forms: bool,
) -> dict[str, Any]:  # fmt: skip
    """Count the molecules that are in both parts, where ``key`` identifies a molecule.

    With ``forms``, only molecules with different canonical SMILES are counted.
    """
    texts = molecules.canonical
    keys = {text: map_parts(key, text) for text in dict.fromkeys(texts)}
    places: dict[str, dict[str, list[int]]] = {part: {} for part in parts}
    for part, positions in parts.items():
        for i in positions:
            places[part].setdefault(keys[texts[i]], []).append(i)
    counts: dict[str, Any] = {}
    for a, b in combinations(parts, 2):
        rows, examples = {a: 0, b: 0}, []
        for key_of_molecule, some in places[a].items():
            others = places[b].get(key_of_molecule, [])
            pairs = ((i, j) for i in some for j in others if not forms or texts[i] != texts[j])
            if pair := next(pairs, None):
                examples.append(pair)
                rows[a] += len(some)
                rows[b] += len(others)
        example = None
        if examples:
            example = {p: _row(molecules, source, i) for p, i in zip((a, b), examples[0])}
        counts[f"{a}/{b}"] = {"molecules": len(examples), "rows": rows, "example": example}
    return counts


def _row(molecules: LabelledMolecules, source: Source, position: int) -> dict[str, Any]:
    row = int(molecules.rows[position])
    return {"smiles": source.smiles[row].strip(), "line": int(source.lines[row])}


def conflicts(molecules: LabelledMolecules, source: Source, task: Task) -> dict[str, Any]:
    """Find the molecules that have contradicting labels of one target.

    Classes contradict each other if they differ, and numbers if they differ by more than
    :data:`TOLERANCE` standard deviations of the target's labels. Two labels do not contradict each
    other if a descriptor column, such as a temperature, has different values in their rows.

    Args:
        molecules: the labelled molecules.
        source: the table from which they were read.
        task: task of the labels.

    Returns:
        For each target that has such molecules: the number of ``molecules``, their ``rows``, and an
        ``example`` with two labels and their lines; for numbers also the ``tolerance`` in the
        target's unit and the ``largest`` difference, which is the difference of the example.
    """
    groups: dict[str, list[int]] = {}
    descriptors = molecules.inputs.extra_descriptors.tolist()
    for i, (text, values) in enumerate(zip(molecules.canonical, descriptors, strict=True)):
        groups.setdefault(f"{text} {values}", []).append(i)
    repeats = [positions for positions in groups.values() if len(positions) > 1]
    counts: dict[str, Any] = {}
    for t, target in enumerate(source.targets if repeats else ()):
        y = molecules.y.numpy()
        numbers = y[np.isfinite(y[:, t]), t]
        if not len(numbers):
            continue
        tolerance = TOLERANCE * float(numbers.std()) if task == "regression" else 0.5
        pairs: list[tuple[float, int, int]] = []
        rows = 0
        for positions in repeats:
            with_label = [i for i in positions if np.isfinite(y[i, t])] or positions[:1]
            low, high = (some(with_label, key=y[:, t].__getitem__) for some in (min, max))
            if (difference := float(y[high, t] - y[low, t])) > tolerance:
                pairs.append((difference, low, high))
                rows += len(with_label)
        if not pairs:
            continue
        difference, *ends = max(pairs, key=lambda pair: pair[0])
        table_rows = [int(molecules.rows[i]) for i in ends]
        labels = [source.labels.y[row, t] for row in table_rows]
        example = {
            "smiles": molecules.canonical[ends[0]],
            "labels": [float(x) if isinstance(x, float) else x for x in labels],
            "lines": [int(source.lines[row]) for row in table_rows],
        }
        counts[target] = {"molecules": len(pairs), "rows": rows, "example": example}
        if task == "regression":
            counts[target] |= {"tolerance": tolerance, "largest": difference}
    return counts


def duplicate_notes(facts: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each nonzero count in the result of :func:`duplicate_facts`."""
    notes = []
    for pair, entry in facts["overlaps"].items():
        a, b = pair.split("/")
        if n := entry["molecules"]:
            rows = f"{plural(entry['rows'][b], 'row')} and {plural(entry['rows'][a], 'row')}"
            notes.append(
                f"{plural(n, 'molecule')} of the {PARTS[b]} part {'is' if n == 1 else 'are'} also "
                f"in the {PARTS[a]} part ({rows}; for example {_both(entry['example'])}): "
                f"{HARM[pair]}."
            )
    for name, phrase in FORMS.items():
        pairs = {pair: entry for pair, entry in facts[name].items() if entry["molecules"]}
        if pairs:
            counts = ", ".join(f"{entry['molecules']:,} in {pair}" for pair, entry in pairs.items())
            example = _both(next(iter(pairs.values()))["example"])
            notes.append(
                f"Some molecules are in two parts {phrase} ({counts}; for example {example}): a "
                "model that was trained on one form predicts the other too well."
            )
    return [*notes, *conflict_notes(facts["conflicts"])]


def _both(example: Mapping[str, Any]) -> str:
    """Return a text with the SMILES and line number of both molecules in an example.

    The molecule of the later part comes first: test, validation, training.
    """
    return " and ".join(
        f"{row['smiles']} in line {row['line']}" for row in reversed(list(example.values()))
    )


def conflict_notes(facts_by_target: Mapping[str, Any]) -> list[str]:
    """Return sentences on contradicting labels, for at most TARGETS targets."""
    notes = []
    for target, facts in list(facts_by_target.items())[:TARGETS]:
        n, example = facts["molecules"], facts["example"]
        labels = " and ".join(
            f"{f'{label:.4g}' if isinstance(label, float) else label} in line {line}"
            for label, line in zip(example["labels"], example["lines"])
        )
        kind = f"different classes of {target}"
        if "largest" in facts:
            kind = (
                f"several labels of {target} that differ by more than {TOLERANCE:g} standard "
                f"deviations ({facts['tolerance']:.3g})"
            )
        notes.append(
            f"{plural(n, 'molecule')} {'has' if n == 1 else 'have'} {kind}, in "
            f"{plural(facts['rows'], 'row')}, for example {example['smiles']}: {labels}. All rows "
            "are used."
        )
    if (more := len(facts_by_target) - TARGETS) > 0:
        notes.append(
            f"{plural(more, 'more target')} have such labels: metrics.json lists them all."
        )
    return notes


def training_overlap(molecules: LabelledMolecules, new: Tensor, source: Source) -> dict[str, Any]:
    """Count the rows of a new table that contain a molecule from training or validation.

    Args:
        molecules: the labelled molecules of the table.
        new: [k] bool, False for a molecule that the model was trained or validated on.
        source: the table from which the molecules were read.

    Returns:
        ``molecules``, ``rows`` and an ``example`` or None.
    """
    old = (~new).nonzero().flatten().tolist()
    return {
        "molecules": len({molecules.canonical[i] for i in old}),
        "rows": len(old),
        "example": _row(molecules, source, old[0]) if old else None,
    }
