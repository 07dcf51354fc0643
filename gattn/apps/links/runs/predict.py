"""The command ``gattn links predict``, which writes a table of proposed links."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from gattn.apps.links.estimator import LinkPredictor
from gattn.apps.links.pairs import Links
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.edges import merged_edges_note
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.report.style import with_digits
from gattn.apps.run.notes import noise_note
from gattn.apps.run.train import Log, no_log
from gattn.files import check_table_ending, new_file, write_rows


def predict_links(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    top: int = 100,
    per_node: bool = False,
    reading: GraphReading = DEFAULT_READING,
    threads: int = 0,
    log: Log = no_log,
) -> int:
    """Propose links that are not in a graph, and write them to a CSV file.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        out: the CSV file to write, which must not exist; it is created when it is complete.
        top: number of links, overall or for each source.
        per_node: True for the best links of each source.
        reading: rules for reading the files, and the table of nodes.
        threads: number of threads inside one operator; 0 to choose it by the size of the graph.
        log: called with each line that the user should read.

    Returns:
        The number of proposed links.

    Raises:
        RunError: the folder does not contain a readable model.
        GraphError: the graph cannot be read, or lacks an attribute that the model reads.
        FileNotFoundError: a file of the graph, or the folder of ``out``, does not exist.
        FileExistsError: ``out`` exists.
        ValueError: the ending of ``out`` is not that of a table, or ``top`` is less than 1.
    """
    check_table_ending(out)
    with new_file(out) as temporary:
        estimator, graph, links = read_run(run, path, reading, threads, log)
        estimator.graph_, estimator.links_ = graph, links
        table = estimator.predict(top=top, per_node=per_node)
        if len(table) < top and not per_node:
            log(f"only {len(table):,} pairs of the shortlists have no edge.")
        change = "lower" if links.density < 0.5 else "higher"
        log(
            "The column probability assumes that half of all pairs are links. In this graph, "
            f"{links.density:.2%} are links, so actual probabilities are {change}."
        )
        rows = (
            [a, b, f"{score:.6g}", with_digits(share, 6)]
            for a, b, score, share in table.itertuples(index=False)
        )
        write_rows(temporary, chain([list(table.columns)], rows))
    return len(table)


def read_run(
    run: str | Path, path: str | Path, reading: GraphReading, threads: int, log: Log
) -> tuple[LinkPredictor, AttributedGraph, Links]:
    """Load a trained model, and read a graph and its links; ``log`` receives the notes.

    Raises:
        RunError: the folder does not contain a readable model.
        GraphError: the graph cannot be read, or lacks an attribute that the model reads.
        FileNotFoundError: a file of the graph does not exist.
    """
    estimator = LinkPredictor.load(run).set_params(threads=threads)
    graph = reading.read(path, directed=False)
    encoder = estimator.predictor_.encoder
    attached, links = estimator.attach(graph)
    noise = estimator.predictor_.noise
    chance_notes = [noise_note("links", noise)] if noise else []
    edge_notes = merged_edges_note(attached, encoder.edges)
    for note in (*graph.notes, *edge_notes, *encoder.unknown(graph), *chance_notes):
        log(note)
    return estimator, attached, links
