"""Splits of the molecules of a run into training, validation and test part."""

from __future__ import annotations

from torch import Tensor

from gattn.data import Split, random_split, scaffold_split, split_by_names
from gattn.data.molecules.scaffolds import murcko_scaffold
from gattn.data.splits import read_positions, split_from_positions
from gattn.molecules.base import MoleculeEstimator
from gattn.molecules.fitted import ClassificationModel
from gattn.molecules.rows import LabelledMolecules
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

    ``random`` and ``scaffold`` assign all rows of one molecule (see
    :func:`gattn.data.molecule_identities`) to the same part. The parts of a column or a file are
    used unchanged.

    Args:
        spec: ``random``, ``scaffold``, ``column:NAME`` or ``FILE.json``.
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
    if (different := len(set(molecules.canonical))) < LEAST and spec in ("random", "scaffold"):
        raise ValueError(
            f"a {spec} split needs at least {LEAST} different molecules; the "
            f"{len(molecules):,} rows have {different}, for example {molecules.canonical[0]}"
        )
    if spec == "random":
        split = random_split(len(molecules), seed=seed, groups=molecules.canonical)
    elif spec == "scaffold":
        split = scaffold_split(molecules.canonical)
    elif source.parts is not None:
        try:
            split = split_by_names(source.parts, protocol=spec).among(molecules.rows)
        except ValueError as error:
            raise ValueError(f"{source.name}, {spec}: {error}") from None
    else:
        positions = read_positions(spec)
        split = split_from_positions(positions, spec, len(source.smiles)).among(molecules.rows)
        if positions.get("sha256") not in (None, source.sha256):
            notes.append(
                f"{spec} contains row numbers of other data, {positions.get('data')}: "
                f"{source.name} must have the same molecules in the same order."
            )
    for part in PARTS:
        if not len(getattr(split, part)):
            raise ValueError(f"split {spec} leaves no molecule in the {part} part")
    return split, notes


def validation_groups(spec: str, val: LabelledMolecules) -> list[str] | None:
    """Return the scaffold of each validation molecule if the split is by scaffold, otherwise None.

    The test part of such a split has scaffolds that the model was not trained on. To imitate this,
    the Gaussian process predicts a validation molecule without all molecules of its scaffold.

    Args:
        spec: value of ``--split``.
        val: the validation part.

    Returns:
        k scaffolds; None for another split.
    """
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
