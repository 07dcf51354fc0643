"""Registration of gattn's layers and readouts by name in PyG's resolvers and GraphGym."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.nn import Module

import gattn.nn
from gattn.compat import pyg as pyg_internals

READOUTS = (
    "AttentionalAggregation",
    "LearnedQueryReadout",
    "MultiReadout",
    "SetTransformerAggregation",
)
LAYERS = ("GATConv", "GATv2Conv", "SuperGATConv", "TransformerConv")


def register_readouts() -> None:
    """Register gattn's readouts, so that PyG's ``aggregation_resolver`` finds them by name.

    ``aggr="gattn.LearnedQueryReadout"`` then works wherever PyG accepts the name of an aggregation,
    with ``aggr_kwargs=`` for its arguments. PyG has no registry of aggregations: its resolver reads
    the names of ``torch_geometric.nn.aggr``, to which this function adds four names that begin with
    ``gattn.``.

    Example:
        >>> import gattn
        >>> from torch_geometric.nn import SAGEConv
        >>> gattn.register_readouts()
        >>> options = {"in_channels": 16, "out_channels": 16, "heads": 2}
        >>> SAGEConv(16, 8, aggr="gattn.LearnedQueryReadout", aggr_kwargs=options).aggr_module
        LearnedQueryReadout(16, 16, num_queries=1, heads=2)
    """
    for name in READOUTS:
        pyg_internals.name_aggregation(f"gattn.{name}", getattr(gattn.nn, name))


def register_graphgym() -> None:
    """Register GATConv, GATv2Conv, SuperGATConv and TransformerConv in GraphGym.

    A configuration can then set ``gnn.layer_type: gattn.GATConv``. This function imports GraphGym,
    which needs yacs and PyTorch Lightning.

    Example:
        >>> import gattn
        >>> gattn.register_graphgym()  # doctest: +SKIP
    """
    from torch_geometric.graphgym import register

    for name in LAYERS:
        if f"gattn.{name}" not in register.layer_dict:
            register.register_layer(f"gattn.{name}", partial(GraphGymLayer, name))


class GraphGymLayer(Module):
    """Wrapper that gives a layer the constructor and the call signature that GraphGym expects.

    Args:
        name: name of a layer in :mod:`gattn.nn`.
        config: GraphGym's ``LayerConfig``; the widths and the bias are used.
        **options: other arguments of the layer.
    """

    def __init__(self, name: str, config: Any, **options: Any) -> None:
        super().__init__()
        layer_class = getattr(gattn.nn, name)
        self.model = layer_class(config.dim_in, config.dim_out, bias=config.has_bias, **options)

    def forward(self, batch: Any) -> Any:
        """Replace ``batch.x`` by the output of the layer, and return the batch."""
        batch.x = self.model(batch.x, batch.edge_index)
        return batch
