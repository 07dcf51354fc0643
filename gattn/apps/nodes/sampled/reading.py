"""Reading of a graph for training, on the whole graph or on samples of neighbourhoods."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import stored_values
from gattn.apps.nodes.runs.config import NodeRunSettings, parse_memory
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.tables.formats import column_names, open_parquet

FIXED, PER_NODE, PER_VALUE, PER_EDGE = 8.2e8, 5000, 90, 650
"""Bytes of memory for training on a whole graph: for the program, for each node, for each value in
the tables, and for each edge of the data. The numbers were fitted to the peaks that
``python -m benchmarks.huge`` measured, so that no estimate is below its peak, and none is more than
30 % above it.
"""


@dataclass(frozen=True)
class SizeChoice:
    """Choice between training on the whole graph and training on samples of neighbourhoods.

    Attributes:
        sampled: True to sample neighbourhoods.
        estimate: estimated memory for training on the whole graph, in bytes.
        budget: memory budget in bytes.
        source: origin of the budget, as text for messages.
    """

    sampled: bool
    estimate: int
    budget: int
    source: str

    @property
    def text(self) -> str:
        """Sentence about the choice and its reason."""
        way = "Neighbours are sampled in training: the whole graph"
        way = way if self.sampled else "The whole graph is trained: it"
        sign = "above" if self.sampled else "within"
        return (
            f"{way} needs about {_gib(self.estimate)} of memory, {sign} the "
            f"budget of {_gib(self.budget)} ({self.source})."
        )

    def record(self, memory: str) -> dict[str, Any]:
        """Return the entry ``size`` of ``metrics.json``.

        Args:
            memory: value of the option ``--memory``. The budget is stored only if it is set: the
                free memory differs from run to run.
        """
        record = {
            "training": "sampled" if self.sampled else "whole graph",
            "estimated_bytes": self.estimate,
        }
        return {**record, "budget_bytes": self.budget} if memory else record


def free_memory() -> int:
    """Return the memory in bytes that this process may still allocate.

    On Linux it is the available memory, or less if a control group limits the process. On other
    systems it is the physical memory.
    """
    path = Path("/proc/meminfo")
    if not path.exists():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    lines = dict(line.split(":", 1) for line in path.read_text("ascii").splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    group = Path("/sys/fs/cgroup")
    limit, used = group / "memory.max", group / "memory.current"
    if limit.exists() and used.exists() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(used.read_text()))
    return max(free, 0)


def graph_bytes(nodes: int, values: int, edges: int) -> int:
    """Estimate the memory in bytes for training on a whole graph.

    Args:
        nodes: number of nodes.
        values: number of values in the tables of nodes and of edges, or of nonzero features; the
            two columns of edges with node names are not counted.
        edges: number of edges of the data, or of entries of a table of edges.
    """
    return int(FIXED + PER_NODE * nodes + PER_VALUE * values + PER_EDGE * edges)


def choose_size(memory: str, nodes: int, values: int, edges: int) -> SizeChoice:
    """Choose how to train on a graph; see :func:`graph_bytes` for its sizes.

    Args:
        memory: value of the option ``--memory``; empty for half of the free memory.
        nodes: number of nodes.
        values: number of values in the tables.
        edges: number of edges of the data.

    Raises:
        SettingsError: ``memory`` is no size.
    """
    budget = parse_memory(memory) if memory else free_memory() // 2
    source = f"--memory {memory}" if memory else "half of the free memory; change it with --memory"
    estimate = graph_bytes(nodes, values, edges)
    return SizeChoice(estimate > budget, estimate, budget, source)


def _gib(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"


def read_for_training(
    settings: NodeRunSettings,
) -> tuple[AttributedGraph, SizeChoice | None]:
    """Read the graph of a run, with compact edges if its training samples neighbours.

    The sizes of Parquet tables are read from their metadata. Other files are read completely before
    the choice, and a note says so if the graph is above the budget.

    Args:
        settings: settings of the run.

    Returns:
        The graph, with notes on the parts that are sampled or left out, and the choice. The choice
            is None for a network with several tables of nodes, which is always trained on as a
            whole.

    Raises:
        GraphError: the graph cannot be read.
        ValueError: a file that ends in ``.parquet`` is not a Parquet file.
        FileNotFoundError: a file does not exist.
    """
    if settings.is_typed:
        graph = settings.reading.read(
            "", directed=settings.directed, label=settings.label or None,
            label_type=settings.label_type or None,
        )  # fmt: skip
        return graph, None
    sizes = _parquet_sizes(settings)
    if sizes is not None:
        choice = choose_size(settings.memory, *sizes)
        graph = settings.reading.read(
            settings.data, directed=settings.directed, compact=choice.sampled
        )
        notes = []
    else:
        graph = settings.reading.read(settings.data, directed=settings.directed)
        choice = choose_size(settings.memory, *_graph_sizes(graph))
        notes = [
            "The files were read completely: only edges in Parquet are read with little memory."
        ]
    if not choice.sampled:
        return graph, choice
    return graph.compacted().with_notes(*notes, *_sampled_notes(settings.model)), choice


def _parquet_sizes(settings: NodeRunSettings) -> tuple[int, int, int] | None:
    """Return the numbers of nodes, of values and of edges, from the metadata of Parquet tables;
    None if a file is no Parquet table, is empty or does not exist. Without a table of nodes, the
    number of nodes is taken to be that of the edges. Raises ValueError if a file that ends in
    ``.parquet`` is not a Parquet file.
    """
    paths = [Path(path) for path in (settings.data, *settings.tables) if path]
    if any(path.suffix.lower() != ".parquet" or not path.is_file() for path in paths):
        return None
    if any(not path.stat().st_size for path in paths):
        return None
    with open_parquet(paths[0]) as file:
        edges = file.metadata.num_rows
        of_edges = edges * max(len(column_names(file)) - 2, 0)
    if len(paths) == 1:
        # This is an upper bound, because an edge has at most two new nodes; usually there are far
        # fewer.
        return edges, of_edges, edges
    with open_parquet(paths[1]) as file:
        nodes, columns = file.metadata.num_rows, column_names(file)
        groups = range(file.metadata.num_row_groups)
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
    # A column of texts has about one value for each eight bytes, and a column of numbers one value
    # for each node.
    return nodes, max(nodes * len(columns), size // 8) + of_edges, edges


def _graph_sizes(graph: AttributedGraph) -> tuple[int, int, int]:
    """Return the numbers of nodes, of values and of edges."""
    values = len(graph) * graph.table.shape[1] + graph.edge_table.table.size
    values += 0 if graph.x is None else stored_values(graph.x)
    return len(graph), values, len(graph.edge_table)


def _sampled_notes(settings: NodeSettings) -> list[str]:
    """Return sentences about the parts that are sampled, or left out, in a sampled training."""
    notes = ["Attention weights are shown for sampled neighbourhoods."]
    if settings.model != "stacked":
        return notes
    return [
        "Left out when neighbours are sampled: the second fit of the models to the training and "
        "the validation part.",
        "The baselines logistic_regression (ridge) and label_propagation are the components "
        "columns and propagation.",
        *notes,
    ]
