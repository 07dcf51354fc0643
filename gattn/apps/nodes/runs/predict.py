"""The command ``gattn nodes predict``, which writes one row for each node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from gattn.apps.nodes.attributed import AttributedGraph, GraphError
from gattn.apps.nodes.edges import merged_edges_note
from gattn.apps.nodes.estimators import ESTIMATORS, NodeClassifier, NodeEstimator, attention_network
from gattn.apps.nodes.files import DEFAULT_READING, GraphReading
from gattn.apps.nodes.sampled.predictor import SampledPredictor
from gattn.apps.report.style import with_digits
from gattn.apps.run.model_io import coverage_of, read_card, read_model
from gattn.apps.run.train import Log, no_log
from gattn.files import check_table_ending, new_file, write_rows

CELLS = 1 << 15
"""Number of nodes whose predictions are converted to cells at once, which limits the memory."""


def load_estimator(run: str | Path) -> NodeEstimator:
    """Load the classifier or the regressor that is stored in a folder.

    Raises:
        RunError: a file is missing, truncated or changed, or contains another kind of model.
    """
    tensors, card = read_model(run)
    kind = ESTIMATORS.get(str(card.get("task")), NodeClassifier)
    return kind.from_state(run, tensors, card)


def predict_graph(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    reading: GraphReading = DEFAULT_READING,
    coverage: float | None = None,
    threads: int = 0,
    log: Log = no_log,
) -> int:
    """Predict every node of a graph with a trained model, and write the predictions to a file.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.apps.nodes.files.read_graph_file` takes it.
        out: the file to write, which must not exist; it is created when it is complete. It is a
            Parquet file if its name ends in ``.parquet``, and otherwise a CSV file.
        reading: rules for reading the files, and the table of nodes.
        coverage: coverage of the label sets or intervals; None for that of the training.
        threads: number of threads inside one operator; 0 to choose it by the size of the graph.
        log: called with each line that the user should read.

    Returns:
        The number of nodes.

    Raises:
        RunError: the folder does not contain a readable model.
        GraphError: the graph cannot be read, or lacks an attribute that the model reads.
        FileNotFoundError: a file of the graph, or the folder of ``out``, does not exist.
        FileExistsError: ``out`` exists.
        ValueError: the ending of ``out`` is not that of a table, or the coverage is not above 0 and
            below 1.
    """
    check_table_ending(out)
    estimator = load_estimator(run).set_params(threads=threads)
    level = coverage_of(read_card(run), coverage)
    with new_file(out) as temporary:
        graph = read_graph(estimator, path, reading, log)
        predicted = estimator.predictor_.predict(graph)
        write_rows(temporary, prediction_rows(estimator, graph.names, predicted, level))
    return len(graph)


def read_graph(
    estimator: NodeEstimator, path: str | Path, reading: GraphReading, log: Log
) -> AttributedGraph:
    """Read a graph with the inputs of its edges, and log how it was interpreted and which of its
    values the model cannot use. Raises GraphError if the graph cannot be read or does not have the
    columns of the model, and FileNotFoundError if a file does not exist.
    """
    predictor = estimator.predictor_
    sampled = isinstance(attention_network(predictor), SampledPredictor)
    encoder = predictor.encoder
    if reading.typed and encoder.network is None:
        raise GraphError(
            "the model was trained on one table of nodes: pass a graph instead of --edges"
        )
    graph = reading.read(
        path, directed=estimator.directed, compact=sampled,
        label_type=encoder.network.target if encoder.network and reading.typed else None,
    )  # fmt: skip
    attached, notes = estimator.attach(graph)
    for note in (*graph.notes, *merged_edges_note(attached, encoder.edges), *notes):
        log(note)
    return attached


def prediction_rows(
    estimator: NodeEstimator,
    names: Sequence[Hashable],
    predicted: Tensor,
    coverage: float,
    columns: Mapping[str, Sequence[object]] | None = None,
) -> Iterator[Sequence[object]]:
    """Yield the header of a table of predictions, and a row for each node.

    Args:
        estimator: a fitted classifier or regressor.
        names: n names of nodes.
        predicted: [n, outputs] predictions of the model.
        coverage: probability with which the sets of classes or the intervals contain the true
            value.
        columns: further columns of n cells, by name, which follow the names.
    """
    columns = columns or {}
    kinds = estimator.class_names
    bounds = ["set", *(f"probability_{kind}" for kind in kinds)] if kinds else ["lower", "upper"]
    yield ["node", *columns, "prediction", *bounds]
    cells = chain.from_iterable(
        _cells(estimator, some, coverage) for some in predicted.split(CELLS)
    )
    for *first, row in zip(names, *columns.values(), cells):
        yield [*first, *row]


def _cells(estimator: Any, predicted: Tensor, coverage: float) -> Iterator[Sequence[object]]:
    """Yield the cells of each node: class, set and probabilities, or value and interval.
    ``predicted`` [n, classes or 1] are the predictions of the fitted estimator.
    """
    if estimator.task.is_class:
        kinds, sets = estimator.classes_.tolist(), estimator.sets(predicted, coverage).tolist()
        for best, row, is_in in zip(predicted.argmax(1).tolist(), predicted.tolist(), sets):
            possible = "|".join(str(kind) for kind, chosen in zip(kinds, is_in) if chosen)
            yield [kinds[best], possible, *(with_digits(chance, 6) for chance in row)]
    else:
        low, high = estimator.intervals(predicted, coverage)
        yield from zip(predicted[:, 0].tolist(), low[:, 0].tolist(), high[:, 0].tolist())
