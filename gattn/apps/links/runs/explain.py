"""The command ``gattn links explain``, which writes a table and a picture for one pair of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from gattn.apps.links.explanation import LinkExplanation, explain_link
from gattn.apps.links.runs.predict import read_run
from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.explanation import place_of
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.run.product import Log, no_log
from gattn.apps.run.text import plural
from gattn.draw import draw_network
from gattn.files import new_folder, write_rows


def explain_pair(
    run: str | Path,
    path: str | Path,
    source: str,
    target: str,
    out: str | Path,
    *,
    most: int = 10,
    reading: GraphReading = DEFAULT_READING,
    threads: int = 0,
    log: Log = no_log,
) -> LinkExplanation:
    """Explain the score of one pair of nodes by the nodes on the shortest paths between them.

    The folder ``out`` has the table ``nodes.csv``, with one row for each
    :class:`gattn.apps.links.explanation.Bridge`, and ``network.png``, a picture of these nodes.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        source: name of the source.
        target: name of the target.
        out: a new folder.
        most: maximum number of nodes, those with the fewest neighbours.
        reading: rules for reading the files, and the table of nodes.
        threads: number of threads inside one operator; 0 to choose it by the size of the graph.
        log: called with each line that the user should read.

    Raises:
        RunError: the folder contains no model that can be read.
        GraphError: the graph cannot be read, has no such node, or lacks an attribute that the
            model reads; or the pair is one node, or no pair of source and target of the graph.
        FileExistsError: ``out`` exists.
    """
    with new_folder(out) as folder:
        estimator, graph, links = read_run(run, path, reading, threads, log)
        ends = [place_of(graph, name) for name in (source, target)]
        if ends[0] == ends[1]:
            raise GraphError(f"source and target must differ; both are {source!r}")
        if ends[0] not in links.sources or ends[1] not in links.targets:
            raise GraphError(
                f"links lead from {plural(len(links.sources), 'source')} to other nodes, and "
                f"{source!r} and {target!r} are no source and target"
            )
        explanation = explain_link(estimator.predictor_, graph, links, *ends, most=most)
        write_rows(folder / "nodes.csv", _rows(graph, explanation))
        (folder / "network.png").write_bytes(_picture(graph, explanation, ends))
    linked = " They are linked; the model did not read this link." if links.are_links(
        np.array(ends[:1]), np.array(ends[1:])
    )[0] else ""  # fmt: skip
    log(f"{source} - {target}: probability {explanation.probability:.4g}.{linked}")
    if not explanation.count:
        log("no path joins them, so the score depends on their own columns and edges.")
        return explanation
    log(
        f"{plural(explanation.count, 'node')} on the shortest paths, of "
        f"{explanation.distance:.0f} edges; without these paths: {explanation.separated:.4g}"
    )
    for one in explanation.bridges[:5]:
        log(
            f"without the edges of {graph.names[one.place]} on the paths: {one.without:.4g} "
            f"(log odds {one.change:+.3g})"
        )
    return explanation


def _rows(graph: AttributedGraph, explanation: LinkExplanation) -> Iterator[Sequence[object]]:
    yield "node", "degree", "probability_without", "change_of_log_odds"
    for one in explanation.bridges:
        yield graph.names[one.place], one.degree, f"{one.without:.6g}", f"{one.change:.6g}"


def _picture(graph: AttributedGraph, explanation: LinkExplanation, ends: Sequence[int]) -> bytes:
    """Draw the pair and the explained nodes. The width of a line is the change by its node."""
    shown = np.array([*ends, *(one.place for one in explanation.bridges)])
    place = np.full(len(graph), -1)
    place[shown] = np.arange(len(shown))
    edges = place[explanation.edges]
    edges = edges[:, (edges >= 0).all(0)]
    changes = np.abs([0.0, 0.0, *(one.change for one in explanation.bridges)])
    weights = changes[edges].max(0, initial=0.0) / max(changes.max(), 1e-12)
    names = [str(graph.names[one]) for one in shown]
    return draw_network(
        np.hstack([edges, edges[::-1]]), np.tile(weights, 2), labels=names,
        colour=np.minimum(np.arange(len(shown)), 2) // 2, names=["pair", "on its shortest paths"],
        title=f"{names[0]} and {names[1]}",
    )  # fmt: skip
