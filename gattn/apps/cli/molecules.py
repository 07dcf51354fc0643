"""Commands of ``gattn molecules``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from gattn.apps.cli.compare import add_compare
from gattn.apps.cli.console import quoted, say, show_metrics, show_repeats, show_rows, watched
from gattn.apps.cli.help import CommandGroup
from gattn.apps.cli.inputs import check_run_inputs, check_table_inputs, check_training_inputs
from gattn.apps.cli.options import ConfigFile, Run, read_molecules, read_stdin, with_settings
from gattn.apps.fitting.settings import SettingsError, declared
from gattn.apps.molecules.runs.config import NumberSettings, RunSettings, override
from gattn.apps.molecules.screening.settings import ScreenSettings, is_screening
from gattn.apps.molecules.settings import MoleculeSettings, TableReading
from gattn.apps.run.text import plural
from gattn.files import has_table_ending

if TYPE_CHECKING:
    from gattn.apps.molecules.runs.predict import Counts

app = CommandGroup("Predict properties of molecules from their SMILES.")

Table = Annotated[
    Path,
    Argument(
        metavar="IN.csv",
        help="CSV, Parquet or SMILES file of molecules, which may be compressed (.gz); - is the "
        "standard input, a CSV file.",
        callback=read_stdin,
    ),
]
NUMBERS = tuple(declared(NumberSettings))
READING = ("smiles", "encoding", "workers", "threads")
"""Settings of the commands that read a table with a model."""
COMMON = ("smiles", "target", "task", "split", "model", "ensemble", "epochs", "seed", "workers")
"""Settings that the help of ``train`` shows first."""
SCREENING = tuple(declared(ScreenSettings))
FILE_ONLY = (
    "accelerator", "add_h", "dropout", "heads", "ignore_stereo", "kernel_rows", "max_atoms",
    "trees", "unit", "weight_decay",
)  # fmt: skip
"""Settings of ``train`` without an option, which are read from the file of ``--config``."""


@app.command(no_args_is_help=False)
@with_settings(RunSettings, MoleculeSettings, without=("more_data", *FILE_ONLY), common=COMMON)
def train(
    out: Annotated[Path, Option()],
    data: Annotated[list[str] | None, Argument(metavar="[DATA.csv]...")] = None,
    folds: Annotated[str, Option()] = "0",
    replicates: Annotated[int, Option()] = 1,
    config: ConfigFile = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a model, and write it with its metrics and a report.

    Run the same command again after an interruption to continue from the last checkpoint.

    Args:
        out: Folder for the model, metrics and report: a new folder, or the folder of an interrupted
            run, which the command then continues.
        data: CSV file with SMILES and labels, or several files with the same columns. Without this
            argument, the model is trained on the measured activities of CHEMBL2321810.
        folds: Number of folds of a cross-validation, or column:NAME, a column whose values are the
            folds. Each molecule is in the test part of one run. --out contains a folder for each
            run, and a table with the mean and the standard error of each metric. 0 trains a single
            run.
        replicates: Number of repeated runs. The first run uses --seed, and every further run the
            next higher seed. With --split random, the seed also changes the split. Raise it to see
            how much the errors depend on the seed.

    Raises:
        ValueError: the settings, a table or the folder cannot be used.
        OSError: a file cannot be read or written.
    """
    if data:
        settings = {**settings, "data": data[0], "more_data": tuple(data[1:])}
    run = override(config, settings)
    check_training_inputs(run, out)
    count = int(folds) if folds.removeprefix("-").isdecimal() else folds
    if count or replicates != 1:
        from gattn.apps.molecules.runs.repeats import train_repeats

        show_repeats(train_repeats(run, out, folds=count, replicates=replicates, log=say))
        say(
            f"{out / 'report.html'} has the metrics of each run; to predict new molecules, train "
            "on all of them without --folds and --replicates"
        )
        return
    from gattn.apps.molecules.runs.stages import train_run

    show_metrics(train_run(run, out, progress=True, log=say), "molecules")
    say(
        f"{out / 'report.html'} is the report\n"
        f"to predict: gattn molecules predict {quoted(out)} IN.csv --out OUT.csv"
    )


@app.command()
@with_settings(
    RunSettings, ScreenSettings, only=(*READING, "coverage", *SCREENING),
    as_trained=("smiles", "coverage"), common=("smiles", "coverage", "where", "top"),
)  # fmt: skip
def predict(
    run: Annotated[Path, Argument(metavar="RUN")],
    inputs: Annotated[list[str], Argument(metavar="INPUT...", callback=read_molecules)],
    out: Annotated[str, Option()] = "",
    neighbors: Annotated[int, Option(min=0)] = 0,
    *,
    settings: dict[str, Any],
) -> None:
    """Predict every row of a table, and write each row with its prediction and its interval.

    The column "percentile" contains the percentage of 500 drug-like molecules whose prediction is
    at most as high, and "similarity" the Tanimoto similarity to the most similar molecule of the
    training and validation parts. If --out has no ending, or / at the end, the rows are written
    to a folder in shards.

    Args:
        run: Folder of a trained model, written by train, or the name of a model of gattn: bbb, the
            blood-brain barrier.
        inputs: CSV, Parquet or SMILES file, which may be compressed (.gz); several files, folders
            and patterns; -, the standard input; or one or more SMILES.
        out: File to write, which must not exist and must end in .csv, .tsv, .csv.gz or .parquet; -
            for the standard output; or, without an ending or with / at the end, a folder of shards.
            Run the same command again after an interruption to continue with the unfinished shards.
            Without --out, the first rows are printed.
        neighbors: Number of most similar measured molecules to write beside each prediction, with
            their similarities and measured values. The column in_domain is true if the molecule is
            at least as similar to its nearest measured molecule as 95 % of the test molecules are
            to theirs; otherwise, errors may be larger than the intervals or sets indicate. The
            training table must still be at the path in config.toml.

    Raises:
        ValueError: the run, the inputs or the output cannot be used.
        OSError: a file cannot be read or written.
        SettingsError: options exclude each other.
    """
    if is_screening(inputs, out or "predicted.csv", settings):
        if not out:
            raise SettingsError("--out must name the folder of a screening")
        if neighbors:
            raise SettingsError("--neighbors needs one input and a file as --out")
        check_run_inputs(run, None, settings)
        _screen(run, inputs, out, settings)
        return
    check_run_inputs(run, Path(inputs[0]), settings)
    from gattn.apps.molecules.runs.predict import predict_table

    table = Path(inputs[0])
    with TemporaryDirectory() as folder:
        file = Path(out or f"{folder}/predicted.csv")
        with watched("predicting") as on_progress:
            counts = predict_table(
                run, table, file, reading=TableReading(**settings), neighbors=neighbors,
                on_progress=on_progress, log=say,
            )  # fmt: skip
        if out:
            _show_counts(counts, table, file)
        else:
            show_rows(file, counts.rows)


def _screen(run: Path, inputs: Sequence[str], out: str, settings: dict[str, Any]) -> None:
    """Predict many files, and print the numbers of rows. The settings of the screening are removed
    from ``settings``. Raises SettingsError for a number of rows below 1 or an output that is no
    folder.
    """
    if settings.get("top") is not None and settings["top"] < 1:
        raise SettingsError(f"top must be at least 1; got {settings['top']}")
    chosen = ScreenSettings(**{name: settings.pop(name) for name in SCREENING if name in settings})
    if has_table_ending(out):
        raise SettingsError(
            "--out must be a folder for several inputs and for options of screenings: "
            f"{Path(out).stem.strip('-') or 'out'}/ instead of {out}"
        )
    if Path(out).suffix and not out.endswith("/") and not Path(out).is_dir():
        raise SettingsError(
            "a table to write must end in .csv, .tsv, .csv.gz or .parquet, and a folder of shards "
            f"with a dot in its name in /: {out}/ instead of {out}"
        )
    from gattn.apps.molecules.screening.screen import screen

    counts = screen(
        run, inputs, out, chosen, reading=TableReading(**settings), log=say,
        progress=partial(watched, "predicting"),
    )  # fmt: skip
    written = f", {counts.written:,} written" if chosen.where or chosen.top else ""
    say(f"{out}: {plural(counts.rows, 'row')}, {counts.errors:,} of them with an error{written}")
    if counts.unfinished:
        verb = "is" if counts.unfinished == 1 else "are"
        say(f"{plural(counts.unfinished, 'shard')} of other jobs {verb} not finished")


@app.command()
@with_settings(RunSettings, only=READING, as_trained=("smiles",))
def explain(
    run: Run,
    inputs: Annotated[list[str], Argument(metavar="INPUT...", callback=read_molecules)],
    out: Annotated[Path, Option()],
    target: Annotated[str | None, Option()] = None,
    label: Annotated[str | None, Option("--class")] = None,
    pictures: Annotated[int, Option()] = 100,
    *,
    settings: dict[str, Any],
) -> None:
    """Draw the weight of every atom, and measure how faithful the weights are to the model.

    Args:
        inputs: CSV, Parquet or SMILES file, which may be compressed (.gz); -, the standard input;
            or one or more SMILES.
        out: New folder for the pictures and tables.
        target: Name of the target to explain. It is required if the model predicts several targets.
        label: Class whose probability is explained. [default: the predicted class of each molecule]
        pictures: Number of molecules to draw, from the beginning of the table. The written tables
            contain all molecules.

    Raises:
        ValueError: the run, the table, a SMILES or the target cannot be used.
        OSError: a file cannot be read or written.
    """
    if len(inputs) > 1:
        raise ValueError(f"explain expects one table, or SMILES; got {len(inputs)} tables")
    table = Path(inputs[0])
    check_run_inputs(run, table, settings)
    from gattn.apps.molecules.runs.explain import explain_table

    counts = explain_table(
        run, table, out, target=target, label=label, reading=TableReading(**settings),
        pictures=pictures, log=say,
    )  # fmt: skip
    _show_counts(counts, table, out)


@app.command()
@with_settings(
    RunSettings, only=(*READING, "target", *NUMBERS, "skip_bad_labels", "coverage"),
    as_trained=("smiles", "target", "coverage", *NUMBERS),
)  # fmt: skip
def evaluate(
    run: Run,
    table: Table,
    out: Annotated[Path | None, Option()] = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Measure a model on labelled molecules that it was not trained on.

    Rows of molecules that were in the training or validation part are left out.

    Args:
        out: New folder for the metrics and plots. Without it, the metrics are only printed.

    Raises:
        ValueError: the run, the table or a target cannot be used.
        OSError: a file cannot be read or written.
    """
    check_run_inputs(run, table, settings, targets=settings.get("target"))
    from gattn.apps.molecules.runs.evaluate import evaluate_table

    numbers = {name: settings.pop(name) for name in NUMBERS if name in settings}
    targets, skip_bad = settings.pop("target", None), settings.pop("skip_bad_labels", False)
    metrics = evaluate_table(
        run, table, out, reading=TableReading(**settings), targets=targets, numbers=numbers,
        skip_bad=skip_bad, log=say,
    )  # fmt: skip
    show_metrics(metrics, "molecules")


@app.command()
@with_settings(RunSettings, only=("smiles", "encoding", "decimal", "thousands"))
def check(
    table: Table,
    target: Annotated[list[str] | None, Option()] = None,
    split: Annotated[str, Option()] = "",
    test: Annotated[Path | None, Option()] = None,
    out: Annotated[Path | None, Option()] = None,
    strict: Annotated[bool, Option("--strict")] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Look for faults in a table before training: structures, labels, parts and columns.

    The exit code is 0 even if there are findings, unless --strict is set.

    Args:
        target: Name of a column of labels to check. Repeat the option for several columns.
            [default: the columns of numbers]
        split: Training, validation and test part of each row. The check reports molecules that are
            in two parts. The value is column:NAME for a column of the table, or the file
            splits.json of a run. [default: none]
        test: CSV file of test molecules, which are compared with the table.
        out: New folder for the tables of findings. Without it, the findings are only printed.
        strict: Exit with code 1 if there is an error or a warning.

    Raises:
        SettingsError: there are several columns of SMILES.
        ValueError: the table cannot be used.
        OSError: a file cannot be read or written.
    """
    smiles, *others = settings.pop("smiles", ("smiles",))
    if others:
        raise SettingsError(f"check reads one column of SMILES; got {smiles}, {', '.join(others)}")
    columns = {"smiles": smiles, **settings}
    check_table_inputs(table, columns, targets=target or ())
    if test is not None:
        check_table_inputs(test, columns)
    from gattn.apps.molecules.checks.findings import check_table, summary

    numbers = {name: settings.pop(name) for name in NUMBERS if name in settings}
    result = check_table(
        table, out, smiles=smiles, targets=target or (), split=split, test=test, numbers=numbers,
        **settings,
    )  # fmt: skip
    for line in summary(result):
        typer.echo(line)
    if out is not None:
        say(f"{out / 'findings.csv'} lists the findings")
    if strict and result.has_faults:
        raise typer.Exit(1)


def _show_counts(counts: Counts, table: Path, out: Path) -> None:
    """Print the number of written rows, or a message if the input table has no rows."""
    if counts.rows:
        say(f"{out}: {plural(counts.rows, 'row')}, {counts.bad:,} of them with an error")
    else:
        say(f"{table} has a header but no rows, so {out} has no rows")


add_compare(app)
