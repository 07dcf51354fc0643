"""Reading of a graph for training, on the whole graph or on samples of neighbourhoods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.fields import stored_values
from gattn.apps.nodes.sampled.budget import SizeChoice, choose_size
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.tables.formats import column_names, open_parquet

if TYPE_CHECKING:
    from gattn.apps.nodes.runs.config import NodeRunSettings


def read_for_training(
    settings: NodeRunSettings,
) -> tuple[AttributedGraph, SizeChoice | None]:
    """Read the graph of a run, with compact edges if its training samples neighbours.

    The sizes of Parquet tables are read from their metadata. Other files are read completely before
    the choice, and a note says so if the graph is above the budget.

    Args:
        settings: settings of the run.

    Returns:
        The graph, with notes on the parts that are sampled or left out, and the choice. There is no
        choice for a network with several tables of nodes, which is always trained on as a whole.

    Raises:
        GraphError: the graph cannot be read.
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
    None if the graph is not in Parquet tables.
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
    edges = graph.arcs.shape[1] if graph.edge_table is None else len(graph.edge_table)
    x = graph.x
    values = len(graph) * graph.table.shape[1]
    if graph.edge_table is not None:
        values += graph.edge_table.table.size
    if x is not None:
        values += stored_values(x)
    return len(graph), values, edges


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
