"""``gattn nodes``: train, predict and embed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer import Argument, Option

from gattn.cli.console import say, show_metrics, show_runs, watched
from gattn.nodes.runs.config import NodeRunSettings, override

if TYPE_CHECKING:
    from gattn.nodes.runs.repeat import Attempt

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
    Option(help="Of tables and lists, as latin-1.", show_default="their mark, else UTF-8"),
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
    label: Annotated[
        str | None, Option(help="The attribute to predict.", show_default="y or label")
    ] = None,
    features: Annotated[
        list[str] | None,
        Option(help="An attribute to read; give it once for each.", show_default="all others"),
    ] = None,
    task: Annotated[
        Literal["auto", "classification", "regression"] | None,
        Option(help="What the labels are; auto reads it from them.", show_default=RUN.task),
    ] = None,
    split: Annotated[
        str | None,
        Option(
            help="public, random (6:2:2), random-per-class (20, 30, others) or column:NAME.",
            show_default="public where there is one, else random",
        ),
    ] = None,
    directed: Annotated[
        bool | None,
        Option(
            "--directed/--undirected",
            help="Follow the direction of edges, or go both ways.",
            show_default="both ways",
        ),
    ] = None,
    encoding: Encoding = None,
    runs: Annotated[
        int | None, Option(help="Trainings from other first weights.", show_default=str(RUN.runs))
    ] = None,
    model: Annotated[
        Literal["gat", "gatv2", "transformer", "gps"] | None,
        Option(help="What to train.", show_default=RUN.model.model),
    ] = None,
    preset: Annotated[
        Literal["cora", "citeseer", "pubmed"] | None,
        Option(help="The GAT paper's settings for a data set.", show_default="the data set's own"),
    ] = None,
    seed: Annotated[
        int | None, Option(help="Of all that is drawn.", show_default=str(RUN.model.seed))
    ] = None,
    config: Annotated[
        Path | None, Option(help="A config.toml; what is given here wins over it.")
    ] = None,
    coverage: Annotated[
        float | None,
        Option(help="How often sets of labels are to hold.", show_default=str(RUN.coverage)),
    ] = None,
    workers: Annotated[
        int | None,
        Option(help="Trainings side by side.", show_default=str(RUN.workers)),
    ] = None,
    epochs: Annotated[
        int | None,
        Option(help="At most.", show_default=str(RUN.model.epochs), rich_help_panel=NETWORK),
    ] = None,
    patience: Annotated[
        int | None,
        Option(
            help="Epochs without a better validation part.",
            show_default=str(RUN.model.patience),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        Option(help="Of Adam.", show_default=str(RUN.model.learning_rate), rich_help_panel=NETWORK),
    ] = None,
    weight_decay: Annotated[
        float | None,
        Option(help="Of Adam.", show_default=str(RUN.model.weight_decay), rich_help_panel=NETWORK),
    ] = None,
    width: Annotated[
        int | None,
        Option(help="Features inside.", show_default=str(RUN.model.width), rich_help_panel=NETWORK),
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
            help="Of all layers but the last.",
            show_default=str(RUN.model.heads),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    output_heads: Annotated[
        int | None,
        Option(
            help="Of the last layer.",
            show_default=str(RUN.model.output_heads),
            rich_help_panel=NETWORK,
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        Option(help="A probability.", show_default=str(RUN.model.dropout), rich_help_panel=NETWORK),
    ] = None,
) -> None:
    """Train a model on the labelled nodes of a graph, and write it with metrics and a report."""
    told = {
        **locals(),
        "features": tuple(features) if features else None,
        "nodes": str(nodes) if nodes else None,
        "edges": {True: "directed", False: "undirected"}.get(directed) if directed is not None
        else None,
    }  # fmt: skip
    given = {name: value for name, value in told.items() if value is not None}
    for name in ("out", "config", "preset", "directed"):
        given.pop(name, None)
    settings = override(config, preset, given)
    from gattn.nodes.runs.train import train_run

    with watched("training", settings.runs) as tick:

        def done(attempt: Attempt) -> None:
            tick(f"test {next(iter(attempt.test.values())):.3f}")

        metrics = train_run(settings, out, done=done, say=say)
    show_metrics(metrics, "nodes")
    show_runs(metrics["runs"])
    graph = "GRAPH" if nodes is None else "GRAPH --nodes NODES"
    say(f"{out / 'report.html'} shows it all; gattn nodes predict {out} {graph} --out OUT.csv")


@app.command()
def predict(
    run: Run,
    graph: Graph,
    out: Annotated[Path, Option(help="The CSV file to write; it must be new.")],
    nodes: Nodes = None,
    encoding: Encoding = None,
    coverage: Annotated[
        float, Option(help="How often sets of labels, or intervals, are to hold the truth.")
    ] = RUN.coverage,
) -> None:
    """Predict every node of a graph, also of one that the model has not seen."""
    from gattn.nodes.runs.predict import predict_graph

    count = predict_graph(
        run, graph, out, nodes=nodes, encoding=encoding, coverage=coverage, say=say
    )
    say(f"{out}: {count:,} nodes")


@app.command()
def embed(
    run: Run,
    graph: Graph,
    out: Annotated[Path, Option(help="A new file: X.parquet or X.npy.")],
    nodes: Nodes = None,
    encoding: Encoding = None,
) -> None:
    """Write the vectors that the last layer reads."""
    from gattn.nodes.runs.predict import embed_graph

    count = embed_graph(run, graph, out, nodes=nodes, encoding=encoding, say=say)
    say(f"{out}: {count:,} nodes")
