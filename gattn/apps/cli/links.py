"""Commands of ``gattn links``: train, predict and explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gattn.apps.cli.console import quoted, say, show_metrics, watched
from gattn.apps.cli.help import CommandGroup
from gattn.apps.cli.options import ConfigFile, Run, read_stdin, with_settings
from gattn.apps.cli.reading import READING, check_inputs, check_unless_finished, with_reading
from gattn.apps.fitting.settings import declared
from gattn.apps.links.runs.config import LinkRunSettings, override
from gattn.apps.links.settings import LinkSettings
from gattn.apps.run.text import plural

app = CommandGroup("Predict missing or future links between the nodes of a network.")

GRAPH = Argument(metavar="GRAPH", help=declared(LinkRunSettings)["data"].description)


COMMON = ("nodes", "split", "model", "epochs", "seed")
"""Settings that the help of a command shows first."""


@app.command()
@with_settings(LinkRunSettings, LinkSettings, common=COMMON)
def train(
    out: Annotated[Path, Option()],
    data: Annotated[str | None, GRAPH] = None,
    config: ConfigFile = None,
    *,
    settings: dict[str, Any],
) -> None:
    """Train a model on the links of a graph, and write it with metrics and a report.

    Args:
        out: New folder for the model, metrics and report. A finished run is not repeated.

    Raises:
        ValueError: the settings, the graph or the folder cannot be used.
        OSError: a file cannot be read or written.
    """
    run = override(config, settings if data is None else {**settings, "data": data})
    # PyTorch, whose import takes seconds, is imported after the checks.
    check_unless_finished(out, run.data, run.nodes)
    from gattn.apps.links.runs.train import train_run

    with watched("training", 1) as on_progress:
        metrics = train_run(run, out, on_epoch=lambda record: on_progress(0, str(record)), log=say)
    show_metrics(metrics, "links")
    graph = "GRAPH --nodes NODES" if "nodes" in settings else "GRAPH"
    graph += " --bipartite" if settings.get("bipartite") else ""
    say(
        f"{out / 'report.html'} is the report\n"
        f"to propose links: gattn links predict {quoted(out)} {graph} --top 100 --out OUT.csv"
    )


@app.command()
@with_settings(LinkRunSettings, only=(*READING, "bipartite", "threads"), common=COMMON)
def predict(
    run: Run,
    graph: Annotated[str, Argument(metavar="GRAPH", callback=read_stdin)],
    out: Annotated[Path, Option()],
    top: Annotated[int, Option(min=1)] = 100,
    per_node: Annotated[bool, Option("--per-node")] = False,
    *,
    settings: dict[str, Any],
) -> None:
    """Propose links that the graph does not contain, with their scores and probabilities.

    The column "probability" is the probability of a link if half of the pairs were links. In most
    networks, far fewer are: compare pairs by it.

    Args:
        graph: Graph to read, as in train; - is the standard input, a CSV file of edges.
        out: CSV file to write. The file must not exist.
        top: Number of links to propose. With --per-node, the number for each source.
        per_node: Propose the best links of each source, instead of the best of all links.

    Raises:
        ValueError: the run, the graph or the output cannot be used.
        OSError: a file cannot be read or written.
    """
    check_inputs(run, graph, settings)
    from gattn.apps.links.runs.predict import predict_links

    count = predict_links(
        run, graph, out, top=top, per_node=per_node, log=say, **with_reading(settings)
    )
    say(f"{out}: {plural(count, 'link')}")


@app.command()
@with_settings(LinkRunSettings, only=(*READING, "bipartite", "threads"), common=COMMON)
def explain(
    run: Run,
    graph: Annotated[str, Argument(metavar="GRAPH")],
    node: Annotated[str, Argument()],
    other: Annotated[str, Argument()],
    out: Annotated[Path, Option()],
    most: Annotated[int, Option("--neighbors", min=0)] = 10,
    *,
    settings: dict[str, Any],
) -> None:
    """Explain the score of one pair of nodes by the nodes on the shortest paths between them.

    Args:
        graph: Graph to read, as in train.
        node: Name of the source, or of one end.
        other: Name of the target, or of the other end.
        out: New folder for the table and the picture.
        most: Maximum number of nodes to explain, those with the fewest neighbours. The pair is
            scored again without each of them.

    Raises:
        ValueError: the run, the graph or a node cannot be used.
        OSError: a file cannot be read or written.
    """
    check_inputs(run, graph, settings)
    from gattn.apps.links.runs.explain import explain_pair

    explain_pair(run, graph, node, other, out, most=most, log=say, **with_reading(settings))
    say(f"{out}: nodes.csv and network.png")
