"""The command ``gattn molecules explain``, which writes tables and pictures of atom weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from gattn.apps.molecules.attributions import METHODS
from gattn.apps.molecules.explain import explain_model
from gattn.apps.molecules.explanations import PICTURES, write_explanations
from gattn.apps.molecules.loading import open_run
from gattn.apps.molecules.model_inputs import DescribedInputs, MoleculeInputs
from gattn.apps.molecules.row_format import name_after, name_column
from gattn.apps.molecules.runs.predict import Counts, row_smiles
from gattn.apps.run.product import Log, no_log
from gattn.apps.tables.csv_table import Table, TableRow
from gattn.files import new_folder, write_rows


def explain_table(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    methods: Sequence[str] = (),
    target: str | None = None,
    label: str | None = None,
    smiles: str | Sequence[str] | None = None,
    encoding: str | None = None,
    workers: int = 2,
    threads: int = 0,
    pictures: int = PICTURES,
    log: Log = no_log,
) -> Counts:
    """Compute the atom weights of every molecule in a CSV file.

    Args:
        run: the folder of a trained model.
        path: the file.
        out: a new folder. :func:`gattn.apps.molecules.explanations.write_explanations` describes
            the files; ``errors.csv`` has the rows that could not be read.
        methods: names from :data:`gattn.apps.molecules.attributions.METHODS`; by default all.
        target: the name of the target; optional for a model of one target.
        label: for a model of classes, the class whose probability is explained; by default the
            predicted class of each molecule.
        smiles: the column of SMILES, or the columns for a model of several molecules in a row; by
            default those that the model was trained on.
        encoding: encoding of the file; by default, the encoding of its byte order mark, or UTF-8 if
            there is none.
        workers: number of processes that parse SMILES.
        threads: number of threads inside one operator; 0 to choose it from the size of a batch.
        pictures: number of molecules to draw, from the first; the tables contain all.
        log: called with each line that the user should read.

    Returns:
        The number of rows, and the number of rows that could not be read.

    Raises:
        RunError: the folder does not contain a readable model.
        FileExistsError: ``out`` exists.
        ValueError: the file or its column cannot be used, the method or target does not exist,
            or the file has no valid molecule.
    """
    if pictures < 0:
        raise ValueError(f"pictures must be at least 0; got {pictures}")
    estimator, table, names, descriptors, _ = open_run(
        run, path, smiles=smiles, encoding=encoding, workers=workers, threads=threads
    )
    target_index = estimator.place_of(target)
    rows = list(descriptors.checked(table.rows()))
    texts = list(map(row_smiles(table, names), rows))
    parsed = estimator.featurise(texts)
    if not len(parsed.inputs):
        raise ValueError(f"{path} has no molecules that can be read")
    inputs: MoleculeInputs = parsed.inputs
    if descriptors.names:
        values = torch.tensor([descriptors.values(row) for row in rows], dtype=torch.float64)
        inputs = DescribedInputs(inputs, values[parsed.row_index])
    errors = [row.problem or error for row, error in zip(rows, parsed.errors)]
    explained = {
        method: explain_model(estimator, inputs, method, target=target_index, label=label)
        for method in dict.fromkeys(methods or METHODS)
    }
    indices = parsed.row_index.tolist()
    titles = _titles(table, names, rows, indices)
    with new_folder(out) as folder:
        not_drawn = write_explanations(
            folder, indices, explained, titles=titles,
            pictures=pictures,
        )  # fmt: skip
        bad = [[i, texts[i], error] for i, error in enumerate(errors) if error]
        write_rows(folder / "errors.csv", [["row", "smiles", "error"], *bad])
    if len(indices) > pictures:
        log(f"{pictures:,} of {len(indices):,} molecules have pictures; the tables contain all")
    if not_drawn:
        log(f"{len(not_drawn)} molecules are too large for a picture")
    return Counts(len(rows), len(bad))


def _titles(
    table: Table, smiles: Sequence[str], rows: Sequence[TableRow], indices: Sequence[int]
) -> list[str]:
    """Return the names of the molecules in the selected rows, "" for a molecule without a name.

    A name is the cell of a column such as ``name`` or ``id``, or the text after the first SMILES.
    """
    names = name_column([column for column in table.columns if column not in smiles])
    place, text_place = table.place(names) if names else None, table.place(smiles[0])
    return [
        (rows[i].cells[place].strip() if place is not None else "")
        or name_after(rows[i].cells[text_place])
        for i in indices
    ]
