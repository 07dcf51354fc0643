"""gattn's layers and readouts under names that PyG's resolvers and GraphGym find."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch.nn import Module

import gattn.nn
from gattn.compat import pyg as pyg_internals

READOUTS = ("AttentionalReadout", "LearnedQueryReadout", "MultiReadout", "SetTransformerReadout")
LAYERS = ("GATConv", "GATv2Conv", "SuperGATConv", "TransformerConv")


def register_readouts() -> None:
    """Have PyG's ``aggregation_resolver`` find gattn's readouts by name.

    ``aggr="gattn.LearnedQueryReadout"`` then works wherever PyG takes the name of an aggregation,
    with ``aggr_kwargs=`` for its arguments. PyG has no register of aggregations: its resolver reads
    the names of ``torch_geometric.nn.aggr``, and four that begin with ``gattn.`` are added there.

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
    """Have GraphGym find ``gattn.GATConv``, ``GATv2Conv``, ``SuperGATConv``, ``TransformerConv``.

    A configuration then says ``gnn.layer_type: gattn.GATConv``. GraphGym is imported, which needs
    yacs and PyTorch Lightning.

    Example:
        >>> import gattn
        >>> gattn.register_graphgym()  # doctest: +SKIP
    """
    from torch_geometric.graphgym import register

    for name in LAYERS:
        if f"gattn.{name}" not in register.layer_dict:
            register.register_layer(f"gattn.{name}", partial(GraphGymLayer, name))


class GraphGymLayer(Module):
    """A layer as GraphGym makes and calls one: from its settings, on a batch.

    Args:
        name: of a layer in :mod:`gattn.nn`.
        config: GraphGym's ``LayerConfig``, of which the widths and the bias are read.
        **options: of the layer.
    """

    def __init__(self, name: str, config: Any, **options: Any) -> None:
        super().__init__()
        make = getattr(gattn.nn, name)
        self.model = make(config.dim_in, config.dim_out, bias=config.has_bias, **options)

    def forward(self, batch: Any) -> Any:
        """Replace the batch's x by what the layer makes of it."""
        batch.x = self.model(batch.x, batch.edge_index)
        return batch
