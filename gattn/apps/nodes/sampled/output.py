"""Writer of predictions to Parquet, one range of nodes at a time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.base import NodeEstimator
from gattn.apps.nodes.estimators import NodeClassifier, NodeRegressor
from gattn.apps.nodes.scratch import pieces

__all__ = ["write_predictions"]


def write_predictions(
    path: str | Path,
    names: Sequence[Hashable],
    estimator: NodeEstimator,
    predicted: Tensor,
    coverage: float,
    columns: Mapping[str, Sequence[Any]] | None = None,
) -> None:
    """Write one row for each node to a Parquet file.

    The columns are those of the CSV files of predictions: ``node``, the additional columns,
    ``prediction``, and for classes ``set`` and the probability of each class (float32), for numbers
    ``lower`` and ``upper``.

    Args:
        path: file to write.
        names: n names of nodes.
        estimator: a fitted estimator.
        predicted: [n, outputs] predictions.
        coverage: coverage of the label sets or intervals.
        columns: additional columns of n values, by name.
    """
    import pyarrow as pa
    import pyarrow.parquet

    extra = {name: _typed(values) for name, values in (columns or {}).items()}
    writer = None
    try:
        for rows in pieces(len(names)):
            table = {"node": pa.array([str(name) for name in names[rows]])}
            table |= {name: pa.array(values[rows], kind) for name, (values, kind) in extra.items()}
            table |= _predictions(estimator, predicted[rows], coverage)
            batch = pa.table(table)
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, batch.schema)
            writer.write_table(batch)
    finally:
        if writer is not None:
            writer.close()


def _typed(values: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """Return a column and its type in Arrow, which does not depend on the range of nodes."""
    import pyarrow as pa

    present = next((value for value in values if value is not None), "")
    return values, pa.array([present]).type


def _predictions(estimator: NodeEstimator, predicted: Tensor, coverage: float) -> dict[str, Any]:
    import pyarrow as pa

    if isinstance(estimator, NodeRegressor):
        low, high = estimator.intervals(predicted, coverage)
        numbers = {"prediction": predicted, "lower": low, "upper": high}
        return {name: pa.array(value[:, 0].numpy()) for name, value in numbers.items()}
    assert isinstance(estimator, NodeClassifier)
    classes = estimator.classes_
    sets = estimator.sets(predicted, coverage).numpy()
    columns = {
        "prediction": pa.array(classes[predicted.argmax(1).numpy()].tolist()),
        "set": pa.array(_set_texts(sets, [str(kind) for kind in classes.tolist()])),
    }
    probabilities = predicted.numpy().astype(np.float32)
    return columns | {
        f"probability_{kind}": pa.array(np.ascontiguousarray(probabilities[:, place]))
        for place, kind in enumerate(classes.tolist())
    }


def _set_texts(sets: NDArray[np.bool_], names: Sequence[str]) -> list[str]:
    """Return each set of classes as a text; equal sets are converted once."""
    texts: dict[bytes, str] = {}
    keys = [row.tobytes() for row in np.packbits(sets, axis=1)]
    for row, key in enumerate(keys):
        if key not in texts:
            places: list[int] = np.flatnonzero(sets[row]).tolist()
            texts[key] = "|".join(names[place] for place in places)
    return [texts[key] for key in keys]
