"""Splits of the molecules of a run into training, validation and test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gattn.data import Split, random_split, scaffold_split, split_by_names
from gattn.data.molecules.scaffolds import murcko_scaffold
from gattn.data.molecules.similarity_splits import butina_clusters, kennard_stone_split
from gattn.data.splits import (
    EIGHT_ONE_ONE,
    ratio,
    read_positions,
    split_by_groups,
    split_by_order,
    split_from_positions,
)
from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.fitted import ClassificationModel
from gattn.molecules.rows import LabelledMolecules
from gattn.molecules.runs.config import RULES
from gattn.molecules.runs.source import Source
from gattn.pipeline.measure import PARTS
from gattn.training.model_io import Json

__all__ = ["check_train", "choose_parts", "splits_record", "validation_groups"]

LEAST = 10
"""Minimum number of molecules for which each part of an 8:1:1 split has a molecule."""


def choose_parts(
    spec: str, molecules: LabelledMolecules, source: Source, seed: int
) -> tuple[Split, list[str]]:
    """Split molecules according to the option ``--split``.

    The rules but ``time`` assign all rows of one molecule (see
    :func:`gattn.data.molecule_identities`) to the same part. The parts of a column or a file are
    used unchanged.

    Args:
        spec: one of :data:`gattn.molecules.runs.config.RULES`, ``column:NAME`` or ``FILE.json``.
        molecules: the labelled molecules.
        source: the table from which they were read, with the split column.
        seed: seed of the random split.

    Returns:
        Positions in ``molecules``, and a note if a file was written for other data.

    Raises:
        FileNotFoundError: the file of the split does not exist.
        ValueError: there are too few molecules, a part is empty, or the column or file does not
            contain a split.
    """
    notes: list[str] = []
    if len(molecules) < LEAST:
        raise ValueError(f"a run needs at least {LEAST} labelled molecules; got {len(molecules)}")
    if (different := len(set(molecules.canonical))) < LEAST and spec in RULES:
        raise ValueError(
            f"a {spec} split needs at least {LEAST} different molecules; the "
            f"{len(molecules):,} rows have {different}, for example {molecules.canonical[0]}"
        )
    if spec in RULES:
        split = _ruled_split(spec, molecules, source, seed)
    elif source.parts is not None:
        try:
            split = split_by_names(source.parts, protocol=spec).among(molecules.rows)
        except ValueError as error:
            raise ValueError(f"{source.name}, {spec}: {error}") from None
    else:
        positions = read_positions(spec)
        split = split_from_positions(positions, spec, len(source.smiles)).among(molecules.rows)
        split = replace(split, protocol=str(positions.get("fold", split.protocol)))
        if positions.get("sha256") not in (None, source.sha256):
            notes.append(
                f"{spec} contains row numbers of other data, {positions.get('data')}: "
                f"{source.name} must have the same molecules in the same order."
            )
    for part in PARTS:
        if not len(getattr(split, part)):
            raise ValueError(f"split {spec} leaves no molecule in the {part} part")
    return split, notes


def _ruled_split(spec: str, molecules: LabelledMolecules, source: Source, seed: int) -> Split:
    """Split molecules by a rule; the rows of files that are a part of their own stay in it."""
    rows, everything = molecules.rows.tolist(), torch.arange(len(molecules))
    fixed = ["" if source.fixed is None else source.fixed[row] for row in rows]
    free, val, test = (everything[[part == name for part in fixed]] for name in ("", "val", "test"))
    train_share, val_share, test_share = EIGHT_ONE_ONE
    shares = [train_share, val_share, test_share]
    if source.fixed is not None:
        files = set(source.fixed)
        shares = [
            train_share, val_share * ("val" not in files), test_share * ("test" not in files)
        ]  # fmt: skip
        train_share, val_share, test_share = (share / sum(shares) for share in shares)
    fractions = (train_share, val_share, test_share)
    canonical = [molecules.canonical[i] for i in free.tolist()]
    if spec == "random":
        split = random_split(len(free), seed=seed, fractions=fractions, groups=canonical)
    elif spec == "scaffold":
        split = scaffold_split(canonical, fractions=fractions)
    elif spec == "time":
        assert source.times is not None
        times = [float(source.times[rows[i]]) for i in free.tolist()]
        split = split_by_order(times, fractions, f"time {ratio(fractions)}")
    else:
        split = _similarity_split(spec, canonical, fractions)
    protocol = split.protocol
    if source.fixed is not None:
        named = {"val": "validation", "test": "test"}
        titles = " and ".join(name for part, name in named.items() if part in source.fixed)
        shown = ":".join(f"{10 * share:g}" for share in shares if share)
        divided = protocol.replace(ratio(fractions), shown) if ":" in shown else "a file"
        protocol = f"{divided}, with a file for the {titles} part"
    return Split(
        free[split.train], torch.cat([free[split.val], val]), torch.cat([free[split.test], test]),
        protocol,
    )  # fmt: skip


def _similarity_split(
    spec: str, canonical: Sequence[str], fractions: tuple[float, float, float]
) -> Split:
    """Split by Butina cluster or by Kennard and Stone, with all rows of a molecule in one part."""
    different = list(dict.fromkeys(canonical))
    if spec == "butina":
        cluster = dict(zip(different, butina_clusters(different)))
        groups = [cluster[text] for text in canonical]
        return split_by_groups(groups, fractions, f"Butina {ratio(fractions)}", largest_trains=True)
    split = kennard_stone_split(different, fractions=fractions)
    part_of = {different[i]: part for part in PARTS for i in getattr(split, part).tolist()}
    names = [part_of[text] for text in canonical]
    return split_by_names(names, protocol=split.protocol)


def validation_groups(spec: str, val: LabelledMolecules) -> list[str] | None:
    """Return the scaffold or cluster of each validation molecule if the split is by these.

    The test part of such a split has scaffolds or clusters that the model was not trained on. To
    imitate this, the Gaussian process predicts a validation molecule without all molecules of its
    scaffold or cluster.

    Args:
        spec: value of ``--split``.
        val: the validation part.

    Returns:
        k groups; None for another split.
    """
    if spec.lower().endswith(".json") and not spec.startswith("column:"):
        spec = str(read_positions(spec).get("groups", ""))
    if spec == "butina":
        different = list(dict.fromkeys(val.canonical))
        cluster = dict(zip(different, butina_clusters(different)))
        return [f"cluster {cluster[text]}" for text in val.canonical]
    return list(map(murcko_scaffold, val.canonical)) if spec == "scaffold" else None


def splits_record(split: Split, molecules: LabelledMolecules, source: Source) -> dict[str, Json]:
    """Return the content of ``splits.json``: the protocol, the data, and the row indices of each
    part.
    """
    rows = {part: molecules.rows[getattr(split, part)].tolist() for part in PARTS}
    return {"protocol": split.protocol, "data": source.name, "sha256": source.sha256, **rows}


def check_train(estimator: MoleculeEstimator, y: Tensor) -> None:
    """Raise an error if the training part has fewer than two different labels of a target.

    Raises:
        ValueError: a target has no label or only one value; the message names the missing class.
    """
    for i, (target, column) in enumerate(zip(estimator.targets_, y.T)):
        values = column[column.isfinite()].unique()
        if len(values) < 2:
            content = "one value only" if len(values) else "no label"
            if len(values) and isinstance(estimator, ClassificationModel):
                kinds = estimator.classes_by_target[i].tolist()
                others = [kind for number, kind in enumerate(kinds) if number != int(values)]
                content = f"only class {kinds[int(values)]!r} and no label of class "
                content += " or ".join(map(repr, others))
            raise ValueError(f"the training part has {content} of {target!r}: choose another split")
