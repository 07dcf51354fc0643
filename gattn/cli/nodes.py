"""``gattn nodes``: train, predict and embed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from gattn.cli.console import say, show_metrics, show_runs, watched
from gattn.cli.options import option
from gattn.nodes.runs.config import NodeRunSettings, override
from gattn.pipeline.text import plural

if TYPE_CHECKING:
    from gattn.nodes.runs.trials import Trial
    from gattn.training.types import EpochRecord

__all__ = ["app"]

app = typer.Typer(help="Classes and numbers of the nodes of a network.", no_args_is_help=True)

RUN = NodeRunSettings("")
NETWORK = "The network and its training"

Run = Annotated[Path, Argument(metavar="RUN", help="The folder of a trained model.")]
Graph = Annotated[
    str,
    Argument(
        metavar="GRAPH",
        help="cora, citeseer, pubmed or a file: GraphML, GML, GEXF, a list or table of edges.",
    ),
]
Nodes = Annotated[
    Path | None, Option(help="A table of the nodes, beside a list or table of edges.")
]
Encoding = Annotated[
    str | None,
    option("Of tables and lists, as latin-1.", "their mark, else UTF-8"),
]
Decimal = Annotated[
    Literal[".", ","] | None,
    option("The decimal sign of numbers in tables.", "a point, or commas between semicolons"),
]
Thousands = Annotated[
    Literal[",", ".", " ", "'"] | None,
    option("The separator between groups of three digits in tables.", "none"),
]
Missing = Annotated[
    list[str] | None,
    option(
        "A word for a missing attribute, as NA; give it once for each.",
        "empty cells, and NA and the like in columns of numbers",
    ),
]


@app.command()
def train(
    out: Annotated[Path, Option(help="The folder of the run, a new one.")],
    data: Annotated[
        str | None,
        Argument(
            metavar="GRAPH",
            help="cora, citeseer, pubmed or a file: GraphML, GML, GEXF, a list or table of edges.",
        ),
    ] = None,
    nodes: Nodes = None,
    label: Annotated[str | None, option("The attribute to predict.", "y or label")] = None,
    features: Annotated[
        list[str] | None,
        option("An attribute to read; give it once for each.", "all others"),
    ] = None,
    task: Annotated[
        Literal["auto", "classification", "regression"] | None,
        option("What the labels are; auto reads it from them.", RUN.task),
    ] = None,
    split: Annotated[
        str | None,
        option(
            "public, random (6:2:2), random-per-class (20, 30, others) or column:NAME.",
            "public where there is one, else random",
        ),
    ] = None,
    directed: Annotated[
        bool | None,
        option(
            "Follow the direction of edges, or go both ways.",
            "both ways",
            "--directed/--undirected",
        ),
    ] = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    runs: Annotated[int | None, option("Trainings from other first weights.", RUN.runs)] = None,
    model: Annotated[
        Literal["gat", "gatv2", "transformer", "gps"] | None,
        option("What to train.", RUN.model.model),
    ] = None,
    preset: Annotated[
        Literal["cora", "citeseer", "pubmed"] | None,
        option("The GAT paper's settings for a data set.", "the data set's own"),
    ] = None,
    seed: Annotated[int | None, option("Of all that is drawn.", RUN.model.seed)] = None,
    config: Annotated[
        Path | None, Option(help="A config.toml; what is given here wins over it.")
    ] = None,
    coverage: Annotated[
        float | None,
        option("How often sets of labels are to hold.", RUN.coverage),
    ] = None,
    workers: Annotated[
        int | None,
        option("Trainings side by side.", RUN.workers),
    ] = None,
    epochs: Annotated[
        int | None,
        option("At most.", RUN.model.epochs, panel=NETWORK),
    ] = None,
    patience: Annotated[
        int | None,
        option("Epochs without a better validation part.", RUN.model.patience, panel=NETWORK),
    ] = None,
    learning_rate: Annotated[
        float | None,
        option("Of Adam.", RUN.model.learning_rate, panel=NETWORK),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option("Of Adam.", RUN.model.weight_decay, panel=NETWORK),
    ] = None,
    width: Annotated[
        int | None,
        option("Features inside.", RUN.model.width, panel=NETWORK),
    ] = None,
    layers: Annotated[
        int | None,
        option("Attention layers.", RUN.model.layers, panel=NETWORK),
    ] = None,
    heads: Annotated[
        int | None,
        option("Of all layers but the last.", RUN.model.heads, panel=NETWORK),
    ] = None,
    output_heads: Annotated[
        int | None,
        option("Of the last layer.", RUN.model.output_heads, panel=NETWORK),
    ] = None,
    dropout: Annotated[
        float | None,
        option("A probability.", RUN.model.dropout, panel=NETWORK),
    ] = None,
) -> None:
    """Train a model on the labelled nodes of a graph, and write it with metrics and a report."""
    told = {
        **locals(),
        "features": tuple(features) if features else None,
        "missing": tuple(missing) if missing else None,
        "nodes": str(nodes) if nodes else None,
        "edges": {True: "directed", False: "undirected"}.get(directed) if directed is not None
        else None,
    }  # fmt: skip
    given = {name: value for name, value in told.items() if value is not None}
    for name in ("out", "config", "preset", "directed"):
        given.pop(name, None)
    settings = override(config, preset, given)
    from gattn.nodes.runs.train import train_run

    with watched("training", settings.runs) as on_progress:

        def on_epoch(record: EpochRecord) -> None:
            loss = f"validation loss {record.validation_loss:.4g}"
            on_progress(f"epoch {record.epoch + 1}, {loss}", 0)

        def on_run_end(trial: Trial) -> None:
            on_progress(f"test {next(iter(trial.test.values())):.4g}", 1)

        metrics = train_run(settings, out, on_epoch=on_epoch, on_run_end=on_run_end, log=say)
    show_metrics(metrics, "nodes")
    show_runs(metrics)
    graph = "GRAPH" if nodes is None else "GRAPH --nodes NODES"
    say(f"{out / 'report.html'} shows it all; gattn nodes predict {out} {graph} --out OUT.csv")


@app.command()
def predict(
    run: Run,
    graph: Graph,
    out: Annotated[Path, Option(help="The CSV file to write; it must be new.")],
    nodes: Nodes = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    coverage: Annotated[
        float, Option(help="How often sets of labels, or intervals, are to hold the truth.")
    ] = RUN.coverage,
) -> None:
    """Predict every node of a graph, also of one that the model has not seen."""
    from gattn.nodes.runs.predict import predict_graph

    count = predict_graph(
        run, graph, out, nodes=nodes, encoding=encoding, decimal=decimal,
        thousands=thousands or "", missing=missing or (), coverage=coverage, log=say,
    )  # fmt: skip
    say(f"{out}: {plural(count, 'node')}")


@app.command()
def embed(
    run: Run,
    graph: Graph,
    out: Annotated[Path, Option(help="A new file: X.parquet or X.npy.")],
    nodes: Nodes = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
) -> None:
    """Write the vectors that the last layer reads."""
    from gattn.nodes.runs.predict import embed_graph

    count = embed_graph(
        run, graph, out, nodes=nodes, encoding=encoding, decimal=decimal,
        thousands=thousands or "", missing=missing or (), log=say,
    )  # fmt: skip
    say(f"{out}: {plural(count, 'node')}")
