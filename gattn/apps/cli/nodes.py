"""Commands of ``gattn nodes``: train, predict and explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from gattn.apps.cli.compare import add_compare
from gattn.apps.cli.console import quoted, say, show_metrics, show_runs, watched
from gattn.apps.cli.help import CommandGroup
from gattn.apps.cli.options import ConfigFile, Run, read_stdin, with_settings
from gattn.apps.cli.reading import (
    READING,
    TYPED_READING,
    check_inputs,
    check_unless_finished,
    with_reading,
    with_tables,
)
from gattn.apps.fitting.settings import declared
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.nodes.runs.config import NodeRunSettings, override
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.run.text import plural

if TYPE_CHECKING:
    from gattn.apps.nodes.runs.train import Trial

app = CommandGroup("Predict a class or a number for each node of a network.")

GRAPH = Argument(metavar="GRAPH", help=declared(NodeRunSettings)["data"].description)


COMMON = ("nodes", "label", "task", "split", "runs", "model", "epochs", "seed")
"""Settings that the help of ``train`` shows first."""


@app.command()
@with_settings(NodeRunSettings, NodeSettings, common=COMMON)
def train(
    out: Annotated[Path, Option()],
    data: Annotated[str | None, GRAPH] = None,
    config: ConfigFile = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a model on the labelled nodes of a graph, and write it with metrics and a report.

    Args:
        out: New folder for the model, metrics and report. A finished run is not repeated.

    Raises:
        ValueError: the settings, the graph or the folder cannot be used.
        OSError: a file cannot be read or written.
    """
    settings = with_tables(settings)
    run = override(config, settings if data is None else {**settings, "data": data})
    # PyTorch, whose import takes seconds, is imported after the checks.
    check_unless_finished(out, run.data, run.nodes, run.edges)
    from gattn.apps.nodes.runs.train import train_run

    with watched("training", run.runs) as on_progress:

        def on_run_end(trial: Trial) -> None:
            on_progress(1, f"test {next(iter(trial.test.values())):.4g}")

        metrics = train_run(
            run, out, on_epoch=lambda record: on_progress(0, str(record)), on_run_end=on_run_end,
            log=say,
        )  # fmt: skip
    show_metrics(metrics, "nodes")
    show_runs(metrics)
    graph = "GRAPH --nodes NODES" if run.nodes else "GRAPH"
    if run.is_typed:
        graph = "--nodes TYPE=FILE ... --edges RELATION=FILE ..."
    say(
        f"{out / 'report.html'} is the report\n"
        f"to predict: gattn nodes predict {quoted(out)} {graph} --out OUT.csv"
    )


@app.command()
@with_settings(
    NodeRunSettings, only=(*TYPED_READING, "coverage", "threads"), as_trained=("coverage",)
)
def predict(
    run: Run,
    out: Annotated[Path, Option()],
    graph: Annotated[str, Argument(metavar="GRAPH", callback=read_stdin)] = "",
    *,
    settings: dict[str, Any],
) -> None:
    """Predict every node of a graph with a trained model.

    Args:
        out: CSV file to write, or Parquet file if the name ends with .parquet. The file must not
            exist.
        graph: Graph whose nodes are predicted. With --edges, GRAPH is left out. If GRAPH is -, it
            is the standard input, a CSV file.

    Raises:
        ValueError: the run or the graph cannot be used.
        OSError: a file cannot be read or written.
    """
    if bool(graph) == bool(settings.get("edges")):
        raise ValueError("predict expects RUN GRAPH, or RUN with --nodes and --edges")
    check_inputs(run, graph, settings)
    from gattn.apps.nodes.runs.predict import predict_graph

    count = predict_graph(run, graph, out, log=say, **with_reading(settings))
    say(f"{out}: {plural(count, 'node')}")


@app.command()
# A single table of nodes, as in the settings of links; a node of several types is not explained.
@with_settings(LinkRunSettings, only=(*READING, "threads"))
def explain(
    run: Run,
    graph: Annotated[str, GRAPH],
    node: Annotated[str, Argument()],
    out: Annotated[Path, Option()],
    most: Annotated[int, Option("--neighbors", min=0)] = 10,
    *,
    settings: dict[str, Any],
) -> None:
    """Explain the prediction of one node by its neighbours and its attributes.

    Args:
        node: Name of the node to explain.
        out: New folder for the tables and the picture.
        most: Maximum number of neighbours to explain. The neighbours with the largest attention are
            chosen. The graph is predicted again without each of them.

    Raises:
        ValueError: the run, the graph or the node cannot be used.
        OSError: a file cannot be read or written.
    """
    check_inputs(run, graph, settings)
    from gattn.apps.nodes.runs.explain import explain_graph_node

    explain_graph_node(run, graph, node, out, most=most, log=say, **with_reading(settings))
    say(f"{out}: neighbours.csv, attributes.csv and network.png")


add_compare(app)
