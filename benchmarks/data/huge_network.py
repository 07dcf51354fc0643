"""Large network with known classes, written to Parquet one part at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

__all__ = ["write_network"]

PART = 1 << 22
"""Number of edges that are drawn at once."""


def write_network(
    folder: Path,
    nodes: int,
    edges: int,
    *,
    classes: int,
    columns: int,
    homophily: float,
    signal: float,
    texts: bool,
    strengths: bool = False,
    seed: int = 0,
) -> list[str]:
    """Write a contextual block model, and return the arguments of ``gattn nodes train``.

    The class of a node is uniform. Its columns are independent normal numbers around the centre of
    its class. With probability ``homophily`` an edge joins two nodes of one class, and otherwise
    two random nodes. Degrees have a heavy tail: sources are drawn with probability proportional
    to the square root of the rank.

    Args:
        folder: existing folder.
        nodes: number n of nodes.
        edges: number of edges, among them repeated ones.
        classes: number of classes.
        columns: number of columns of numbers.
        homophily: share of the edges within a class.
        signal: standard deviation of the centres of the classes in each column; the columns have
            standard deviation 1 around them.
        texts: True to name the nodes by texts such as ``n17``, False by numbers.
        strengths: True to write the column ``strength`` of the edges, whose values are log-normal
            and e times as large within a class.
        seed: seed of the random numbers.

    Reference:
        Deshpande et al., "Contextual stochastic block models" (NeurIPS 2018).
    """
    random = np.random.default_rng(seed)
    y = random.integers(classes, size=nodes)
    centres = signal * random.standard_normal((classes, columns)).astype(np.float32)
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(classes + 1))
    names = random.permutation(10 * nodes)[:nodes]

    def as_names(places: np.ndarray) -> pa.Array:
        numbers = pa.array(names[places])
        if not texts:
            return numbers
        return pa.compute.binary_join_element_wise("n", numbers.cast(pa.string()), "")

    table = {"id": as_names(np.arange(nodes))}
    for column in range(columns):
        noise = random.standard_normal(nodes, dtype=np.float32)
        table[f"c{column}"] = pa.array(noise + centres[y, column])
    table["kind"] = pa.array(y)
    pyarrow.parquet.write_table(pa.table(table), folder / "nodes.parquet")
    names_of_ends = [("source", table["id"].type), ("target", table["id"].type)]
    schema = pa.schema([*names_of_ends, *[("strength", pa.float32())] * strengths])
    with pyarrow.parquet.ParquetWriter(folder / "edges.parquet", schema) as writer:
        for start in range(0, edges, PART):
            count = min(PART, edges - start)
            # The density of the squares of uniform numbers is highest at 0.
            source = (nodes * random.random(count) ** 2).astype(np.int64)
            kinds = y[source]
            inside = order[
                starts[kinds]
                + (random.random(count) * (starts[kinds + 1] - starts[kinds])).astype(np.int64)
            ]
            anywhere = random.integers(nodes, size=count)
            target = np.where(random.random(count) < homophily, inside, anywhere)
            columns_of = [as_names(source), as_names(target)]
            if strengths:
                noise = random.standard_normal(count, dtype=np.float32)
                columns_of.append(pa.array(np.exp(noise + (y[source] == y[target]))))
            writer.write_table(pa.table(columns_of, schema=schema))
    arguments = [str(folder / "edges.parquet"), "--nodes", str(folder / "nodes.parquet")]
    return [*arguments, "--label", "kind"]
