"""``gattn molecules``: train, predict, explain, embed and evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from gattn.cli.console import counted, say, show_metrics
from gattn.molecules.explanations import PICTURES
from gattn.molecules.runs.config import RunSettings, override

__all__ = ["app"]

app = typer.Typer(help="Properties of molecules from SMILES.", no_args_is_help=True)

RUN = RunSettings()
NETWORK = "The network and its training"

Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a trained model.")]
Table = Annotated[Path, Argument(metavar="IN.csv", help="A table with a header and SMILES.")]
Smiles = Annotated[
    str | None, Option("--smiles", help="The column of SMILES.", show_default="as trained")
]
Encoding = Annotated[
    str | None, Option(help="Of the table, as latin-1.", show_default="its mark, else UTF-8")
]
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
    smiles: Annotated[
        str | None, Option(help="The column of SMILES.", show_default=RUN.smiles)
    ] = None,
    target: Annotated[
        list[str] | None, Option(help="A column to predict; give it once for each.")
    ] = None,
    task: Annotated[
        Literal["auto", "regression", "classification"] | None,
        Option(help="What the labels are; auto reads it from them.", show_default=RUN.task),
    ] = None,
    split: Annotated[
        str | None,
        Option(help="random, scaffold, column:NAME or FILE.json.", show_default=RUN.split),
    ] = None,
    seed: Annotated[
        int | None,
        Option(help="Of the split and of the training.", show_default=str(RUN.model.seed)),
    ] = None,
    model: Annotated[
        Literal["stacked", "attention", "attentive_fp", "ridge"] | None,
        Option(help="What to train.", show_default=RUN.model.model),
    ] = None,
    epochs: Annotated[
        int | None,
        Option(help="Passes over the training part.", show_default=str(RUN.model.epochs)),
    ] = None,
    ensemble: Annotated[
        int | None, Option(help="How many networks.", show_default=str(RUN.model.ensemble))
    ] = None,
    tune: Annotated[
        int | None, Option(help="Settings to try first, with Optuna.", show_default=str(RUN.tune))
    ] = None,
    config: Annotated[
        Path | None, Option(help="A config.toml; what is given here wins over it.")
    ] = None,
    coverage: Annotated[
        float | None,
        Option(help="How often intervals are to hold.", show_default=str(RUN.coverage)),
    ] = None,
    encoding: Encoding = None,
    max_atoms: Annotated[
        int | None,
        Option(help="Refuse larger molecules.", show_default=str(RUN.model.max_atoms)),
    ] = None,
    workers: Annotated[
        int | None, Option(help="Processes that read SMILES.", show_default=str(RUN.workers))
    ] = None,
    cache: Annotated[
        str | None,
        Option(help="A folder to keep read SMILES in.", show_default=".gattn beside the run"),
    ] = None,
    class_weight: Annotated[
        Literal["none", "balanced"] | None,
        Option(help="How classes count.", show_default=RUN.model.class_weight),
    ] = None,
    batch_size: Annotated[
        int | None,
        Option(
            help="Molecules a step.",
            show_default=str(RUN.model.batch_size),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        Option(
            help="The highest.",
            show_default=str(RUN.model.learning_rate),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    weight_decay: Annotated[
        float | None,
        Option(help="Of AdamW.", show_default=str(RUN.model.weight_decay), rich_help_panel=NETWORK),
    ] = None,
    width: Annotated[
        int | None,
        Option(
            help="Features of an atom.", show_default=str(RUN.model.width), rich_help_panel=NETWORK
        ),
    ] = None,
    layers: Annotated[
        int | None,
        Option(
            help="Attention layers.", show_default=str(RUN.model.layers), rich_help_panel=NETWORK
        ),
    ] = None,
    heads: Annotated[
        int | None,
        Option(
            help="Heads of a layer.", show_default=str(RUN.model.heads), rich_help_panel=NETWORK
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        Option(help="A probability.", show_default=str(RUN.model.dropout), rich_help_panel=NETWORK),
    ] = None,
    kernel_rows: Annotated[
        int | None,
        Option(
            help="The most molecules that the kernel ridge reads.",
            show_default=str(RUN.model.kernel_rows),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    accelerator: Annotated[
        Literal["auto", "cpu", "gpu"] | None,
        Option(
            help="What to train on.",
            show_default=RUN.model.accelerator,
            rich_help_panel=NETWORK,
        ),
    ] = None,
    devices: Annotated[
        int | None,
        Option(
            help="How many of them; several are started by torchrun -m gattn.cli.",
            show_default=str(RUN.model.devices),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    precision: Annotated[
        Literal["32", "64", "bf16-mixed", "16-mixed"] | None,
        Option(help="Of the training.", show_default=RUN.model.precision, rich_help_panel=NETWORK),
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

    show_metrics(train_run(settings, out, progress=True, say=say), "molecules")
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
    """Predict every row of a table: a row out for a row in, with intervals."""
    from gattn.molecules.runs.predict import predict_table

    with counted("predicting") as tick:
        counts = predict_table(
            run,
            table,
            out,
            smiles=smiles,
            encoding=encoding,
            coverage=coverage,
            workers=workers,
            tick=tick,
        )
    say(f"{out}: {counts.rows:,} rows, {counts.bad:,} of them with an error")


@app.command()
def explain(
    run: Run,
    table: Table,
    out: Annotated[Path, Option(help="A new folder for pictures and tables.")],
    method: Annotated[
        list[str] | None,
        Option(
            help="integrated_gradients, masking, gradient_x_input or attention; once for each.",
            show_default="all",
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
        workers=workers, pictures=pictures, say=say,
    )  # fmt: skip
    say(f"{out}: {counts.rows:,} rows, {counts.bad:,} of them with an error")


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

    with counted("embedding") as tick:
        counts = embed_table(
            run, table, out, smiles=smiles, encoding=encoding, workers=workers, tick=tick
        )
    say(f"{out}: {counts.rows:,} rows, {counts.bad:,} of them with an error")


@app.command()
def evaluate(
    run: Run,
    table: Table,
    out: Annotated[Path | None, Option(help="A new folder for metrics and plots.")] = None,
    smiles: Smiles = None,
    encoding: Encoding = None,
    target: Annotated[
        list[str] | None,
        Option(help="The columns of labels, in the model's order.", show_default="as trained"),
    ] = None,
    coverage: Coverage = RUN.coverage,
    workers: Workers = RUN.workers,
) -> None:
    """Measure a model on labelled molecules that it was not trained on."""
    from gattn.molecules.runs.evaluate import evaluate_table

    metrics = evaluate_table(
        run, table, out, smiles=smiles, targets=target, encoding=encoding, coverage=coverage,
        workers=workers, say=say,
    )  # fmt: skip
    show_metrics(metrics, "molecules")
