"""Measure the times in the tables of the guide, and plot them against the size.

    python -m docs.tools.costs

writes the tables into the pages of docs/guide and draws docs/guide/images/costs.png. It measures
forward alone and forward + backward of gattn.functional.dot_product_attention with 4 heads of 16
channels in fp32.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.csgraph import shortest_path

import gattn
from benchmarks.core import record, tables, timing
from benchmarks.core.case import Contender
from docs.tools.drawing import plt
from gattn import functional, graphs

GUIDE = Path(__file__).parents[1] / "guide"
HEADS, CHANNELS = 4, 16
EXACT = 2_000


@dataclass(frozen=True)
class Family:
    """Graphs of one kind with increasing size."""

    page: str
    name: str
    build: Callable[[int], gattn.Graph]
    sizes: tuple[int, ...]
    starts_at_a_corner: bool = False
    """True if node 0 is at one end of the longest of all shortest paths."""


LARGE = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)
SMALL = (256, 1_024, 4_096, 16_384)


def random_graph(size: int) -> gattn.Graph:
    """Create a random graph with eight edges per node: four random edges, drawn by torch's
    generator, and their reverses.
    """
    source, destination = torch.randint(0, size, (2, 4 * size))
    both = torch.stack([torch.cat([source, destination]), torch.cat([destination, source])])
    return gattn.Graph(both, size)


FAMILIES = (
    Family("graphs", "random graph, 8 edges a node", random_graph, LARGE),
    Family("sets", "complete", lambda n: graphs.complete([n]), SMALL),
    Family("sequences", "causal", lambda n: graphs.causal([n]), SMALL),
    Family("sequences", "band, 16 to either side", lambda n: graphs.band([n], 16), LARGE, True),
    Family("grids", "grid, 7 x 7 around a pixel",
           lambda n: graphs.grid((math.isqrt(n),) * 2, 3), LARGE, True),
    Family("cross", "64 keys for n queries", lambda n: graphs.bipartite([n], [64]), LARGE),
    Family("readouts", "4 queries for n nodes",
           lambda n: graphs.pooling_graph(torch.zeros(n, dtype=torch.int64), 4, 1), LARGE),
)  # fmt: skip


def path_length(graph: gattn.Graph, starts_at_a_corner: bool) -> str:
    """Return the diameter: the longest of the shortest paths between connected nodes.

    By a search from every node up to a few thousand, or from a corner where node 0 is one; else
    from the node farthest from the first one, which gives a lower bound.
    """
    if graph.num_src != graph.num_dst or graph.blocks is not None:
        return "1"
    source, destination = graph.edge_index.numpy()
    ones = np.ones(len(source), dtype=np.int8)
    matrix = scipy.sparse.csr_array((ones, (source, destination)), graph.size)

    def longest(start: int | None) -> tuple[int, int]:
        distance = shortest_path(matrix, unweighted=True, indices=start)
        distance = np.where(np.isfinite(distance), distance, -1)
        return int(distance.max()), int(distance.argmax())

    if starts_at_a_corner:
        return str(longest(0)[0])
    if graph.num_src <= EXACT:
        return str(longest(None)[0])
    return f"≥ {longest(longest(0)[1])[0]}"


def measure(graph: gattn.Graph, seconds: float) -> tuple[float, float]:
    """Measure a forward pass on features drawn by torch's generator, and a forward pass with
    backward, for some seconds each; return the median time of each, in seconds.
    """
    query = torch.randn(graph.num_dst, HEADS, CHANNELS)
    key, value = torch.randn(2, graph.num_src, HEADS, CHANNELS).unbind()
    leaves = {"query": query, "key": key, "value": value}
    leaves = {name: tensor.requires_grad_() for name, tensor in leaves.items()}
    attention = Contender.of(
        lambda query, key, value: functional.dot_product_attention(query, key, value, graph), leaves
    )
    runs = {what: prepare(attention) for what, prepare in timing.PASSES.items()}
    times = timing.alternate(runs, seconds * len(runs))
    return times["forward"]["median"], times["training"]["median"]


def rows_of(family: Family, largest: int, seconds: float) -> list[dict[str, float | str]]:
    """Return one row for each size up to ``largest``: sizes, operations, path length, and times in
    seconds. torch's generator is seeded with 0 for each.
    """
    rows: list[dict[str, float | str]] = []
    for size in (n for n in family.sizes if n <= largest):
        torch.manual_seed(0)
        graph = family.build(size)
        forward, both = measure(graph, seconds)
        rows.append(
            {
                "n": size,
                "e": graph.num_edges,
                "operations": 4 * graph.num_edges * HEADS * CHANNELS,
                "path": path_length(graph, family.starts_at_a_corner),
                "forward": forward,
                "both": both,
            }
        )
    return rows


def table(name: str, rows: list[dict[str, float | str]]) -> str:
    """Return the rows of :func:`rows_of` as Markdown, with times in milliseconds."""
    head = [
        "n", "edges", "operations", "sequential steps", "path length", "forward, ms",
        "forward + backward, ms",
    ]  # fmt: skip
    cells = [
        [f"{row['n']:,}", f"{row['e']:,}", f"{row['operations']:.1e}", "1", str(row["path"]),
         *(three_digits(1e3 * float(row[what])) for what in ("forward", "both"))]
        for row in rows
    ]  # fmt: skip
    return f"**{name}**\n\n{tables.markdown(head, cells, text=0)}"


def three_digits(number: float) -> str:
    """Format a positive number with at least three digits and no exponent."""
    decimals = max(0, 2 - math.floor(math.log10(number)))
    return f"{number:,.{decimals}f}"


def note() -> str:
    """Return the hardware, versions and settings of the measurements."""
    machine = record.environment("docs.tools.costs", [])
    backend = machine["backend"].removeprefix("available (").removesuffix(")")
    return (
        f"The times are medians for {HEADS} heads of {CHANNELS} channels in fp32, measured on "
        f"{machine['threads']} threads of {machine['cpu']} with torch "
        f"{machine['versions']['torch']} and the kernels {backend}. "
        "The column Operations is the number of multiplications and additions of the two matrix "
        "products of a forward pass. "
        "The command `python -m docs.tools.costs` generates this table."
    )


def picture(measured: dict[str, list[dict[str, float | str]]], path: Path) -> None:
    """Draw the times of forward and backward against n, with logarithmic axes, and write the PNG
    file ``path``.
    """
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, rows in measured.items():
        sizes = [float(row["n"]) for row in rows]
        axes.plot(sizes, [1e3 * float(row["both"]) for row in rows], marker="o", ms=4, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("n")
    axes.set_ylabel("forward + backward, ms")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
    plt.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the tables into the pages of the guide, and write the figure beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--largest", type=int, default=LARGE[-1], help="maximum number of nodes of a graph"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="time in seconds for which each case is repeated"
    )
    parser.add_argument(
        "--guide", type=Path, default=GUIDE, help="folder of the pages that are written"
    )
    options = parser.parse_args(arguments)
    measured = {
        family.name: rows_of(family, options.largest, options.seconds) for family in FAMILIES
    }
    for page in dict.fromkeys(family.page for family in FAMILIES):
        names = [family.name for family in FAMILIES if family.page == page]
        text = "\n\n".join([*(table(name, measured[name]) for name in names), f"*{note()}*"])
        tables.write(options.guide / f"{page}.md", "costs", text)
    picture(measured, options.guide / "images" / "costs.png")


if __name__ == "__main__":
    main()
