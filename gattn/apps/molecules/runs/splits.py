"""Splits of a run's molecules into a training, a validation and a test part, and their overlaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from gattn.apps.molecules.estimators import MoleculeEstimator
from gattn.apps.molecules.row_format import ONE_MOLECULE, RowFormat
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.runs.config import RULES
from gattn.apps.molecules.runs.source import Source
from gattn.apps.run.measure import PARTS
from gattn.apps.run.model_io import Json
from gattn.apps.run.split_rule import read_rule
from gattn.apps.run.text import plural
from gattn.data import Split, molecule_identities, random_split, scaffold_split, split_by_names
from gattn.data.molecules.scaffolds import murcko_scaffold
from gattn.data.molecules.similarity_splits import butina_clusters, butina_split
from gattn.data.splits import (
    EIGHT_ONE_ONE,
    ratio,
    read_positions,
    split_by_order,
    split_from_positions,
)

TITLES = {"train": "training", "val": "validation", "test": "test"}
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
    places: dict[str, dict[str, list[int]]] = {part: {} for part in TITLES}
    for part in TITLES:
        for i in getattr(split, part).tolist():
            places[part].setdefault(molecules.canonical[i], []).append(i)
    counts: dict[str, Any] = {}
    for a, b in combinations(TITLES, 2):
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
                f"{plural(n, 'molecule')} of the {TITLES[b]} part {'is' if n == 1 else 'are'} also "
                f"in the {TITLES[a]} part ({rows}; for example {example}): {HARM[pair]}."
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


LEAST = 10
"""Minimum number of molecules for which an 8:1:1 split puts a molecule into each part."""


def choose_parts(
    spec: str,
    molecules: LabelledMolecules,
    source: Source,
    seed: int,
    row_format: RowFormat = ONE_MOLECULE,
) -> tuple[Split, list[str]]:
    """Split molecules according to the option ``--split``.

    All rules except ``time`` assign all rows of one molecule (see
    :func:`gattn.data.molecule_identities`) to the same part. If a row has several molecules,
    ``random`` assigns all rows of the same molecules to one part, and the rules by scaffold and by
    similarity read the first molecule of a row, or the reactants (:func:`first_part`).
    ``molecule:NAME`` assigns all rows with the same molecule in the column NAME to one part. The
    parts of a column or a file are used unchanged.

    Args:
        spec: one of :data:`gattn.apps.molecules.runs.config.RULES`, ``molecule:NAME``,
            ``column:NAME`` or ``FILE.json``.
        molecules: the labelled molecules.
        source: the table from which they were read, with the split column.
        seed: seed of the random split.
        row_format: content of a row.

    Returns:
        Positions in ``molecules``, and notes for the report: on a stratified split, on a validation
        part that was drawn because the column has none, on rows without a part, and on a file that
        was written for other data.

    Raises:
        FileNotFoundError: the file of the split does not exist.
        ValueError: there are too few molecules, a part is empty, or the column or file does not
            contain a split.
    """
    notes: list[str] = []
    if len(molecules) < LEAST and spec in RULES:
        raise ValueError(f"a run needs at least {LEAST} labelled molecules; got {len(molecules)}")
    if (different := len(set(molecules.canonical))) < LEAST and spec in RULES:
        raise ValueError(
            f"a {spec} split needs at least {LEAST} different molecules; the "
            f"{len(molecules):,} rows have {different}, for example {molecules.canonical[0]}"
        )
    classes = rarest_classes(molecules, source)
    if spec in RULES:
        split = _ruled_split(spec, molecules, source, seed, row_format)
        if spec == "random" and source.fixed is None and classes and _loses_class(split, classes):
            split = stratified_split(molecules.canonical, classes, EIGHT_ONE_ONE, seed)
            notes.append(
                "A random split would leave a part without a class, so the split is stratified."
            )
    elif read_rule(spec).kind == "molecule":
        groups = component_groups(spec, molecules, source, row_format)
        if (count := len(set(groups))) < 3:
            raise ValueError(f"split {spec} needs at least 3 different molecules; got {count}")
        split = stratified_split(groups, [], EIGHT_ONE_ONE, seed)
        split = replace(split, protocol=f"{spec} {ratio(EIGHT_ONE_ONE)} (seed {seed})")
    elif source.parts is not None:
        try:
            split, empty = _named_split(source.parts, spec)
            split = split.among(molecules.rows)
        except ValueError as error:
            raise ValueError(
                f"{source.name}, {spec}: {error}; for a cross-validation over the values of this "
                f"column, use --folds {spec}"
            ) from None
        if not len(split.val) and len(split.train) and len(split.test):
            split = draw_validation(split, molecules.canonical, classes, seed)
            notes.append(
                f"The column {read_rule(spec).name!r} has no validation part: a ninth of the "
                "training part is drawn for it."
            )
        if empty:
            notes.append(
                f"{plural(empty, 'row')} without a part in the column {read_rule(spec).name!r} "
                f"{'is' if empty == 1 else 'are'} not used."
            )
    else:
        positions = read_positions(spec)
        split = split_from_positions(positions, spec, len(source.smiles)).among(molecules.rows)
        split = replace(split, protocol=str(positions.get("fold", split.protocol)))
        if positions.get("sha256") not in (None, source.sha256):
            notes.append(
                f"{spec} contains row numbers of other data, {positions.get('data')}: "
                f"{source.name} must have the same molecules in the same order."
            )
    check_parts(split, spec)
    return split, notes


def check_parts(split: Split, spec: str) -> None:
    """Raise ValueError if a part of a split is empty."""
    for part in PARTS:
        if not len(getattr(split, part)):
            raise ValueError(f"split {spec} leaves no molecule in the {part} part")


def rarest_classes(molecules: LabelledMolecules, source: Source) -> list[tuple[int, float]]:
    """Return for each molecule its rarest label, as the target and the class; empty for labels
    that are numbers.
    """
    if not source.labels.task.is_class or source.places is not None:
        return []
    pairs = [
        [(i, label) for i, label in enumerate(row) if label == label]
        for row in molecules.y.tolist()
    ]
    counts = Counter(pair for row in pairs for pair in row)
    return [min(row, key=lambda pair: (counts[pair], pair)) for row in pairs]


def _loses_class(split: Split, classes: Sequence[tuple[int, float]]) -> bool:
    """Return True if one of the parts has no molecule of a class that at least three molecules
    have. ``classes`` is the result of :func:`rarest_classes`.
    """
    counts = Counter(classes)
    frequent = {pair for pair, count in counts.items() if count >= len(PARTS)}
    parts = (getattr(split, part).tolist() for part in PARTS)
    return any(frequent - {classes[i] for i in part} for part in parts)


def stratified_split(
    groups: Sequence[str],
    classes: Sequence[tuple[int, float]],
    fractions: tuple[float, float, float],
    seed: int,
) -> Split:
    """Split items at random, so that each part has the same fraction of each class, and at least
    one item of it if there are enough groups.

    Args:
        groups: the group of each item, which stays in one part.
        classes: the class of each item; empty for one class. A group belongs to the rarest class
            of its items.
        fractions: fractions of train, val and test.
        seed: seed of the draw.

    Returns:
        The split, each part in ascending order.
    """
    counts = Counter(classes)
    members: dict[tuple[int, float], dict[str, None]] = {}
    class_of: dict[str, tuple[int, float]] = {}
    every = classes or [(0, 0.0)] * len(groups)
    for group, pair in sorted(zip(groups, every), key=lambda each: counts[each[1]]):
        members.setdefault(class_of.setdefault(group, pair), {})[group] = None
    generator = torch.Generator().manual_seed(seed)
    part_of: dict[str, int] = {}
    for names in map(list, members.values()):
        order = [names[i] for i in torch.randperm(len(names), generator=generator).tolist()]
        val, test = (max(round(share * len(names)), 1) if share else 0 for share in fractions[1:])
        # The training part has at least one group, and the test part is filled before the other.
        test = min(test, len(names) - 1)
        val = min(val, len(names) - 1 - test)
        part_of |= dict.fromkeys(order, 0)
        part_of |= dict.fromkeys(order[:test], 2) | dict.fromkeys(order[test : test + val], 1)
    part = torch.tensor([part_of[group] for group in groups])
    train_part, val_part, test_part = ((part == number).nonzero().flatten() for number in range(3))
    by = ", stratified by class" if classes else ""
    protocol = f"random {ratio(fractions)} by group{by} (seed {seed})"
    return Split(train_part, val_part, test_part, protocol, drawn_validation=True)


def draw_validation(
    split: Split, groups: Sequence[str], classes: Sequence[tuple[int, float]], seed: int
) -> Split:
    """Move a ninth of the training part to the validation part, which is empty before. It is drawn
    at random, so that no group is divided and each class has about the same share in both parts.
    ``groups`` and ``classes`` belong to all items of the split; no classes stand for numbers.
    """
    items: list[int] = split.train.tolist()
    names = [groups[i] for i in items]
    kinds = [classes[i] for i in items] if classes else []
    drawn = stratified_split(names, kinds, (8 / 9, 1 / 9, 0.0), seed)
    return replace(
        split, train=split.train[drawn.train], val=split.train[drawn.val], drawn_validation=True
    )


def split_text(protocol: str, row_format: RowFormat) -> str:
    """Describe a split in words, for the report.

    >>> split_text("random 8:1:1 by group (seed 0)", RowFormat())
    'random 8:1:1 (seed 0), with all rows of one molecule in the same part'
    >>> split_text("scaffold 8:1:1", RowFormat())
    'scaffold 8:1:1'
    """
    if " by group" not in protocol:
        return protocol
    group = "row" if row_format.molecules > 1 else row_format.rows_noun.removesuffix("s")
    same = "all equal rows" if group == "row" else f"all rows of one {group}"
    return f"{protocol.replace(' by group', '')}, with {same} in the same part"


def _named_split(parts: Sequence[str], spec: str) -> tuple[Split, int]:
    """Return the split of a column, and the number of its empty cells, whose rows are in no part.
    Raises ValueError for a cell that is not the name of a part.
    """
    is_empty = torch.tensor([not part.strip() for part in parts], dtype=torch.bool)
    names = ["train" if empty else part for part, empty in zip(parts, is_empty.tolist())]
    split = split_by_names(names, protocol=spec)
    return replace(split, train=split.train[~is_empty[split.train]]), int(is_empty.sum())


def _ruled_split(
    spec: str, molecules: LabelledMolecules, source: Source, seed: int, row_format: RowFormat
) -> Split:
    """Split molecules by a rule of :data:`RULES`. A file of the validation or the test part is
    added to its part; the other rows are divided among the parts without a file. Raises ValueError
    if RDKit cannot read a SMILES, or there are too many molecules to cluster.
    """
    rows, everything = molecules.rows.tolist(), torch.arange(len(molecules))
    fixed = ["" if source.fixed is None else source.fixed[row] for row in rows]
    free, val, test = (everything[[part == name for part in fixed]] for name in ("", "val", "test"))
    files = set(source.fixed or ())
    shares = [share * (part not in files) for part, share in zip(PARTS, EIGHT_ONE_ONE)]
    train_share, val_share, test_share = (share / sum(shares) for share in shares)
    fractions = (train_share, val_share, test_share)
    canonical = [molecules.canonical[i] for i in free.tolist()]
    if spec == "random":
        split = random_split(len(free), seed=seed, fractions=fractions, groups=canonical)
        if source.fixed is None and not (len(split.val) and len(split.test)):
            # If a cut falls within the rows of one molecule, a part of a small table can be empty.
            split = stratified_split(canonical, [], fractions, seed)
    elif spec == "time":
        assert source.times is not None
        times = [float(source.times[rows[i]]) for i in free.tolist()]
        split = split_by_order(times, fractions, f"time {ratio(fractions)}")
    else:
        first = [first_part(text, row_format) for text in canonical]
        by_structure = scaffold_split if spec == "scaffold" else butina_split
        split = by_structure(first, fractions=fractions)
    protocol = split.protocol
    if source.fixed is not None:
        titles = " and ".join(TITLES[part] for part in PARTS if part in files)
        shown = ":".join(f"{10 * share:g}" for share in shares if share)
        divided = protocol.replace(ratio(fractions), shown) if ":" in shown else "a file"
        protocol = f"{divided}, with a file for the {titles} part"
    return Split(
        free[split.train], torch.cat([free[split.val], val]), torch.cat([free[split.test], test]),
        protocol,
    )  # fmt: skip


def validation_groups(
    spec: str, val: LabelledMolecules, source: Source, row_format: RowFormat = ONE_MOLECULE
) -> list[str] | None:
    """Return the group of each validation molecule if the split holds out whole groups, otherwise
    None.

    The test part of a split by scaffold or cluster has scaffolds or clusters that the model was not
    trained on. To imitate this, the Gaussian process predicts a validation molecule without all
    molecules of its scaffold or cluster, or of its group of a split ``molecule:NAME``.

    Args:
        spec: value of ``--split``.
        val: the validation part.
        source: the table from which it was read.
        row_format: content of a row.

    Returns:
        k groups; None for another split.

    Raises:
        ValueError: the file of the split is not JSON, or there are too many molecules to cluster.
        FileNotFoundError: the file of the split does not exist.
    """
    if read_rule(spec).kind == "file":
        spec = str(read_positions(spec).get("groups", ""))
    first = [first_part(text, row_format) for text in val.canonical]
    if spec == "butina":
        return [f"cluster {number}" for number in butina_clusters(first)]
    if read_rule(spec).kind == "molecule":
        return component_groups(spec, val, source, row_format)
    return list(map(murcko_scaffold, first)) if spec == "scaffold" else None


def first_part(text: str, row_format: RowFormat) -> str:
    """Return the SMILES from which a row's scaffold or cluster is computed: the first molecule, or
    the reactants.

    Args:
        text: the canonical text of a row.
        row_format: content of the row.
    """
    return row_format.split(text)[0] if row_format.joined else text


def component_groups(
    spec: str, molecules: LabelledMolecules, source: Source, row_format: RowFormat
) -> list[str]:
    """Return the molecule in the column NAME of each row, for a split ``molecule:NAME``. It is the
    reactants for reactions, and the only molecule in a row otherwise.

    Returns:
        k canonical SMILES.

    Raises:
        ValueError: RDKit cannot read a SMILES.
    """
    texts = [source.smiles[row] for row in molecules.rows.tolist()]
    if row_format.molecules > 1:
        place = source.columns.index(read_rule(spec).name)
        texts = [row_format.split(text)[place] for text in texts]
    elif row_format.reaction:
        texts = [row_format.split(text)[0] for text in texts]
    distinct = list(dict.fromkeys(texts))
    canonical = dict(zip(distinct, molecule_identities(row_format.prepare(distinct))))
    return [canonical[text] for text in texts]


def splits_record(split: Split, molecules: LabelledMolecules, source: Source) -> dict[str, Json]:
    """Return the content of ``splits.json``: the protocol, the data, and the row indices of each
    part.
    """
    rows = {part: molecules.rows[getattr(split, part)].tolist() for part in PARTS}
    return {"protocol": split.protocol, "data": source.name, "sha256": source.sha256, **rows}


def missing_labels(estimator: MoleculeEstimator, y: Tensor) -> tuple[dict[str, str], list[str]]:
    """Describe the labels that the training part does not have.

    Args:
        estimator: estimator with the targets and their classes.
        y: [k, t] labels of the training part.

    Returns:
        The targets that have fewer than two different labels, with their content in words; and a
        note for each other target on the classes that the model cannot predict.
    """
    constant, notes = {}, []
    for i, (target, column) in enumerate(zip(estimator.targets_, y.T)):
        values = column[column.isfinite()].unique().tolist()
        kinds = estimator.classes_by_target[i].tolist() if estimator.task.is_class else []
        others = [repr(kind) for number, kind in enumerate(kinds) if number not in values]
        absent = f"no label of class {' or '.join(others)}"
        if len(values) > 1:
            if others:
                notes.append(
                    f"The training part has {absent} of {target!r}: the model cannot predict it."
                )
            continue
        content = "one value only" if values else "no label"
        if values and kinds:
            content = f"only class {kinds[int(values[0])]!r} and {absent}"
        constant[target] = f"{content} of {target!r}"
    return constant, notes
