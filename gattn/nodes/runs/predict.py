"""From a graph to a table of predictions, or of embeddings, a row a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from gattn.files import new_file, write_rows
from gattn.nodes.attributed import AttributedGraph
from gattn.nodes.base import NodeEstimator
from gattn.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.nodes.files import read_graph_file
from gattn.training.checks import check_fraction
from gattn.training.runs import read_model

__all__ = [
    "embed_graph",
    "load_estimator",
    "predict_graph",
    "prediction_cells",
    "prediction_columns",
]


def load_estimator(run: str | Path) -> NodeEstimator:
    """Load the classifier or the regressor of a folder, whichever it holds.

    Raises:
        RunError: a file is missing, truncated or changed, or holds another kind of model.
    """
    tensors, card = read_model(run)
    kind = NodeRegressor if card.get("estimator") == NodeRegressor.__name__ else NodeClassifier
    return kind.from_state(run, tensors, card)


def predict_graph(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    nodes: str | Path | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str = "",
    missing: Sequence[str] = (),
    coverage: float = 0.9,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Predict every node of a graph, also one that the model has not seen.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.nodes.files.read_graph_file` takes it.
        out: the CSV file to write, which must not exist; it appears when it is whole.
        nodes: a table of its nodes.
        encoding: of the text in tables and lists of edges.
        decimal: see :func:`gattn.nodes.files.read_graph_file`, as for the next two.
        thousands: the separator between groups of three digits.
        missing: words that stand for a missing attribute.
        coverage: how often the sets of labels, or intervals, are to hold the truth.
        say: told in a line each what was decided.

    Returns:
        The number of nodes.

    Raises:
        RunError: the folder holds no model that can be read.
        GraphError: the graph cannot be read, or lacks an attribute that the model reads.
        FileExistsError: ``out`` is there already.
    """
    check_fraction("coverage", coverage)
    estimator = load_estimator(run)
    with new_file(out) as temporary:
        graph = read_graph_file(
            path, nodes, directed=estimator.directed, encoding=encoding, decimal=decimal,
            thousands=thousands, missing=missing,
        )  # fmt: skip
        _say_notes(estimator, graph, say)
        made = estimator.predictor_.predict(graph)
        cells = prediction_cells(estimator, made, coverage)
        rows = ([name, *row] for name, row in zip(graph.names, cells))
        write_rows(temporary, chain([["node", *prediction_columns(estimator)]], rows))
    return len(graph)


def embed_graph(
    run: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    nodes: str | Path | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    thousands: str = "",
    missing: Sequence[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Embed every node of a graph.

    Args:
        run: the folder of a trained model.
        path: the graph, as :func:`gattn.nodes.files.read_graph_file` takes it.
        out: what to write, which must not exist: ``.npy`` for an array [n, width] float32, or
            ``.parquet`` for a table of columns ``node``, ``e0``, ``e1``, ...
        nodes: a table of its nodes.
        encoding: of the text in tables and lists of edges.
        decimal: see :func:`gattn.nodes.files.read_graph_file`, as for the next two.
        thousands: the separator between groups of three digits.
        missing: words that stand for a missing attribute.
        say: told in a line each what was decided.

    Returns:
        The number of nodes.

    Raises:
        RunError: the folder holds no model that can be read.
        GraphError: the graph cannot be read, or lacks an attribute that the model reads.
        FileExistsError: ``out`` is there already.
        ValueError: ``out`` ends otherwise.
    """
    ending = Path(out).suffix
    if ending not in (".npy", ".parquet"):
        raise ValueError(f"{out} must end in .parquet or .npy")
    estimator = load_estimator(run)
    with new_file(out) as temporary:
        graph = read_graph_file(
            path, nodes, directed=estimator.directed, encoding=encoding, decimal=decimal,
            thousands=thousands, missing=missing,
        )  # fmt: skip
        _say_notes(estimator, graph, say)
        made = estimator.predictor_.embed(graph).numpy()
        if ending == ".npy":
            np.save(temporary, made)
        else:
            table = pd.DataFrame(made).add_prefix("e")
            table.insert(0, "node", pd.Series(graph.names).astype(str))
            table.to_parquet(temporary, index=False)
    return len(graph)


def _say_notes(
    estimator: NodeEstimator, graph: AttributedGraph, say: Callable[[str], None]
) -> None:
    """Say what was decided in reading a graph, and what of it the model does not know."""
    for note in (*graph.notes, *estimator.predictor_.encoder.unknown(graph)):
        say(note)


def prediction_columns(estimator: NodeEstimator) -> list[str]:
    """The names of what :func:`prediction_cells` gives of a node."""
    if isinstance(estimator, NodeClassifier):
        kinds = [f"probability_{kind}" for kind in estimator.classes_.tolist()]
        return ["predicted", "set", *kinds]
    return ["predicted", "lower", "upper"]


def prediction_cells(
    estimator: NodeEstimator, made: Tensor, coverage: float
) -> Iterator[Sequence[object]]:
    """What is told of each node: its class, the set of classes that are possible, probabilities.

    Of a number itself, and the ends of its interval.

    Args:
        estimator: a fitted one.
        made: [n, outputs] predictions.
        coverage: the promise of the sets or intervals.
    """
    if isinstance(estimator, NodeClassifier):
        kinds, sets = estimator.classes_.tolist(), estimator.sets(made, coverage).tolist()
        for best, chances, held in zip(made.argmax(1).tolist(), made.tolist(), sets):
            possible = "|".join(str(kind) for kind, is_in in zip(kinds, held) if is_in)
            yield [kinds[best], possible, *(f"{chance:.6g}" for chance in chances)]
    elif isinstance(estimator, NodeRegressor):
        low, high = estimator.intervals(made, coverage)
        yield from zip(made[:, 0].tolist(), low[:, 0].tolist(), high[:, 0].tolist())
