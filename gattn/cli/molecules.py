"""``gattn molecules``: train, predict, explain, embed and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from gattn.cli.console import counted, say, show_metrics
from gattn.cli.options import option
from gattn.molecules.explanations import PICTURES
from gattn.molecules.runs.config import RunSettings, override
from gattn.pipeline.text import plural

if TYPE_CHECKING:
    from gattn.molecules.runs.predict import Counts

__all__ = ["app"]

app = typer.Typer(help="Properties of molecules from SMILES.", no_args_is_help=True)

RUN = RunSettings()
NETWORK = "The network and its training"

Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a trained model.")]
Table = Annotated[Path, Argument(metavar="IN.csv", help="A table with a header and SMILES.")]
Smiles = Annotated[str | None, option("The column of SMILES.", "as trained", "--smiles")]
Encoding = Annotated[str | None, option("Of the table, as latin-1.", "its mark, else UTF-8")]
NUMBERS = "How the numbers of the labels are written"
Decimal = Annotated[
    Literal[".", ","] | None, option("The decimal sign.", RUN.decimal, panel=NUMBERS)
]
Thousands = Annotated[
    Literal["", ",", ".", " ", "'"] | None,
    option("The separator between groups of three digits.", "none", panel=NUMBERS),
]
Censored = Annotated[
    Literal["refuse", "drop", "bound"] | None,
    option(
        "Labels such as >10: drop takes them as missing, bound takes the number.",
        RUN.censored,
        panel=NUMBERS,
    ),
]
Uncertainty = Annotated[
    Literal["refuse", "drop"] | None,
    option("Labels such as 3.2 ± 0.1: drop reads 3.2.", RUN.uncertainty, panel=NUMBERS),
]
Unit = Annotated[
    str | None,
    option("A unit that may stand behind a number, as nM or %.", "none", panel=NUMBERS),
]
SKIP_HELP = "Leave out labels that cannot be read, however many there are."
Coverage = Annotated[
    float, Option(help="How often the intervals are to hold the truth, above 0 and below 1.")
]
Workers = Annotated[int, Option(help="Processes to share the work.")]


@app.command(no_args_is_help=False)
def train(
    out: Annotated[Path, Option(help="The folder of the run: a new one, or one to go on with.")],
    data: Annotated[
        str | None,
        Argument(metavar="DATA.csv", help="A table; without it the CHEMBL2321810 activities."),
    ] = None,
    smiles: Annotated[str | None, option("The column of SMILES.", RUN.smiles)] = None,
    target: Annotated[
        list[str] | None, Option(help="A column to predict; give it once for each.")
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"] | None,
        option("What the labels are; auto reads it from them.", RUN.task),
    ] = None,
    split: Annotated[
        str | None,
        option("random, scaffold, column:NAME or FILE.json.", RUN.split),
    ] = None,
    seed: Annotated[
        int | None,
        option("Of the split and of the training.", RUN.model.seed),
    ] = None,
    model: Annotated[
        Literal["stacked", "attention", "attentive_fp", "ridge"] | None,
        option("What to train.", RUN.model.model),
    ] = None,
    epochs: Annotated[
        int | None,
        option("Passes over the training part.", RUN.model.epochs),
    ] = None,
    ensemble: Annotated[int | None, option("How many networks.", RUN.model.ensemble)] = None,
    tune: Annotated[int | None, option("Settings to try first, with Optuna.", RUN.tune)] = None,
    config: Annotated[
        Path | None, Option(help="A config.toml; what is given here wins over it.")
    ] = None,
    coverage: Annotated[
        float | None,
        option("How often intervals are to hold.", RUN.coverage),
    ] = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
    uncertainty: Uncertainty = None,
    unit: Unit = None,
    skip_bad_labels: Annotated[
        bool | None,
        option(SKIP_HELP, "off", "--skip-bad-labels/--no-skip-bad-labels", panel=NUMBERS),
    ] = None,
    max_atoms: Annotated[
        int | None,
        option("Refuse larger molecules.", RUN.model.max_atoms),
    ] = None,
    workers: Annotated[int | None, option("Processes that read SMILES.", RUN.workers)] = None,
    cache: Annotated[
        str | None,
        option("A folder to keep read SMILES in.", ".gattn beside the run"),
    ] = None,
    class_weight: Annotated[
        Literal["none", "balanced"] | None,
        option("How classes count.", RUN.model.class_weight),
    ] = None,
    batch_size: Annotated[
        int | None,
        option("Molecules a step.", RUN.model.batch_size, panel=NETWORK),
    ] = None,
    learning_rate: Annotated[
        float | None,
        option("The highest.", RUN.model.learning_rate, panel=NETWORK),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option("Of AdamW.", RUN.model.weight_decay, panel=NETWORK),
    ] = None,
    width: Annotated[
        int | None,
        option("Features of an atom.", RUN.model.width, panel=NETWORK),
    ] = None,
    layers: Annotated[
        int | None,
        option("Attention layers.", RUN.model.layers, panel=NETWORK),
    ] = None,
    heads: Annotated[
        int | None,
        option("Heads of a layer.", RUN.model.heads, panel=NETWORK),
    ] = None,
    dropout: Annotated[
        float | None,
        option("A probability.", RUN.model.dropout, panel=NETWORK),
    ] = None,
    kernel_rows: Annotated[
        int | None,
        option(
            "The most molecules that the kernel ridge reads.", RUN.model.kernel_rows, panel=NETWORK
        ),
    ] = None,
    accelerator: Annotated[
        Literal["auto", "cpu", "gpu"] | None,
        option("What to train on.", RUN.model.accelerator, panel=NETWORK),
    ] = None,
    devices: Annotated[
        int | None,
        option(
            "How many of them; several are started by torchrun -m gattn.cli.",
            RUN.model.devices,
            panel=NETWORK,
        ),
    ] = None,
    precision: Annotated[
        Literal["32", "64", "bf16-mixed", "16-mixed"] | None,
        option("Of the training.", RUN.model.precision, panel=NETWORK),
    ] = None,
) -> None:
    """Train a model, and write it with its metrics and a report.

    Given again after an interruption, the command goes on from the last whole epoch.
    """
    told = {**locals(), "target": tuple(target) if target else None}
    given = {name: value for name, value in told.items() if value is not None}
    del given["out"]
    settings = override(given.pop("config", None), given)
    from gattn.molecules.runs.train import train_run

    show_metrics(train_run(settings, out, progress=True, log=say), "molecules")
    say(f"{out / 'report.html'} shows it all; gattn molecules predict {out} IN.csv --out OUT.csv")


@app.command()
def predict(
    run: Run,
    table: Table,
    out: Annotated[Path, Option(help="The file to write; it must be new.")],
    smiles: Smiles = None,
    encoding: Encoding = None,
    coverage: Coverage = RUN.coverage,
    workers: Workers = RUN.workers,
) -> None:
    """Predict every row of a table: a row out for a row in, with intervals.

    The column "similarity" holds the Tanimoto similarity to the most similar molecule of the
    training and validation parts.
    """
    from gattn.molecules.runs.predict import predict_table

    with counted("predicting") as on_progress:
        counts = predict_table(
            run,
            table,
            out,
            smiles=smiles,
            encoding=encoding,
            coverage=coverage,
            workers=workers,
            on_progress=on_progress,
        )
    _tell(counts, table, out)


@app.command()
def explain(
    run: Run,
    table: Table,
    out: Annotated[Path, Option(help="A new folder for pictures and tables.")],
    method: Annotated[
        list[str] | None,
        option(
            "integrated_gradients, masking, gradient_x_input or attention; once for each.", "all"
        ),
    ] = None,
    target: Annotated[str | None, Option(help="The target, where the model has several.")] = None,
    smiles: Smiles = None,
    encoding: Encoding = None,
    workers: Workers = RUN.workers,
    pictures: Annotated[
        int, Option(help="Draw so many molecules, the first; the tables have all.")
    ] = PICTURES,
) -> None:
    """Draw the weight of every atom, and say how far the weights can be trusted."""
    from gattn.molecules.runs.explain import explain_table

    counts = explain_table(
        run, table, out, methods=method or (), target=target, smiles=smiles, encoding=encoding,
        workers=workers, pictures=pictures, log=say,
    )  # fmt: skip
    _tell(counts, table, out)


@app.command()
def embed(
    run: Run,
    table: Table,
    out: Annotated[Path, Option(help="A new file: X.parquet or X.npy.")],
    smiles: Smiles = None,
    encoding: Encoding = None,
    workers: Workers = RUN.workers,
) -> None:
    """Write the vectors that the networks predict from, those of an ensemble side by side."""
    from gattn.molecules.runs.embed import embed_table

    with counted("embedding") as on_progress:
        counts = embed_table(
            run,
            table,
            out,
            smiles=smiles,
            encoding=encoding,
            workers=workers,
            on_progress=on_progress,
        )
    _tell(counts, table, out)


@app.command()
def evaluate(
    run: Run,
    table: Table,
    out: Annotated[Path | None, Option(help="A new folder for metrics and plots.")] = None,
    smiles: Smiles = None,
    encoding: Encoding = None,
    target: Annotated[
        list[str] | None,
        option("The columns of labels, in the model's order.", "as trained"),
    ] = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    censored: Censored = None,
    uncertainty: Uncertainty = None,
    unit: Unit = None,
    skip_bad_labels: Annotated[
        bool, Option("--skip-bad-labels", help=SKIP_HELP, rich_help_panel=NUMBERS)
    ] = False,
    coverage: Coverage = RUN.coverage,
    workers: Workers = RUN.workers,
) -> None:
    """Measure a model on labelled molecules that it was not trained on.

    Rows of molecules that were in the training or validation part are left out.
    """
    from gattn.molecules.runs.evaluate import evaluate_table

    style = {
        "decimal": decimal, "thousands": thousands, "censored": censored,
        "uncertainty": uncertainty, "unit": unit,
    }  # fmt: skip
    numbers = {name: value for name, value in style.items() if value is not None}
    metrics = evaluate_table(
        run, table, out, smiles=smiles, targets=target, encoding=encoding, numbers=numbers,
        skip_bad=skip_bad_labels, coverage=coverage, workers=workers, log=say,
    )  # fmt: skip
    show_metrics(metrics, "molecules")


def _tell(counts: Counts, table: Path, out: Path) -> None:
    """How many rows came out; a table without any may be the wrong one."""
    if counts.rows:
        say(f"{out}: {plural(counts.rows, 'row')}, {counts.bad:,} of them with an error")
    else:
        say(f"{table} has a header and no rows: there is nothing in {out} either")
