"""A transform that stores the sparse edges that a graph transformer attends along."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.transforms import BaseTransform

from gattn import graphs
from gattn.graph.edge_input import check_count
from gattn.transforms.structures import edges_of


class AddExpander(BaseTransform):
    r"""Store the graph's own edges, those of an expander and those of virtual nodes, with types.

    .. math:: E = E_{\mathrm{own}} \cup E_{\mathrm{expander}} \cup E_{\mathrm{virtual}}

    Stores ``expander_index``, [2, e], and ``expander_type``, [e] int64: 0 for the graph's own
    edges, in their order, 1 for :func:`gattn.graphs.expander`, 2 for an edge from a node to a
    virtual node, 3 for one from a virtual node to a node. An edge that is in two of these is stored
    twice. PyG batches both as it does edges; ``data.edge_index`` stays as it is, for a local layer.

    Virtual nodes follow the nodes of the graph. They get rows of zeros in ``data.x``, and
    ``data.is_virtual``, [n] bool, tells them. Other attributes of nodes are not lengthened: put
    this transform before those that store encodings.

    Args:
        degree: edges of the expander into each node; 0 for no expander.
        num_virtual_nodes: nodes that are joined both ways with every node of the graph.
        seed: of the expander.

    Raises:
        TypeError: for other than a homogeneous ``Data``, or a setting that is no int.
        ValueError: for a negative setting.

    Reference:
        Shirzad et al., "Exphormer: sparse transformers for graphs" (ICML 2023).

    Example:
        >>> import torch
        >>> from gattn.transforms import AddExpander
        >>> from torch_geometric.data import Data
        >>> data = Data(edge_index=torch.tensor([[0], [1]]), x=torch.ones(2, 1))
        >>> data = AddExpander(1, num_virtual_nodes=1)(data)
        >>> data.expander_index
        tensor([[0, 1, 0, 0, 1, 2, 2],
                [1, 0, 1, 2, 2, 0, 1]])
        >>> data.expander_type
        tensor([0, 1, 1, 2, 2, 3, 3])
    """

    def __init__(self, degree: int, *, num_virtual_nodes: int = 0, seed: int = 0) -> None:
        check_count("degree", degree)
        check_count("num_virtual_nodes", num_virtual_nodes)
        check_count("seed", seed)
        self.degree = degree
        self.num_virtual_nodes = num_virtual_nodes
        self.seed = seed

    def forward(self, data: Any) -> Any:
        """Store them in a copy of data."""
        nodes, own = edges_of(data)
        drawn = graphs.expander([nodes], self.degree, seed=self.seed, device=own.device)
        to_virtual = _to_virtual(nodes, self.num_virtual_nodes, own.device)
        parts = [own, drawn.edge_index, to_virtual, to_virtual.flip(0)]
        counts = torch.tensor([part.shape[1] for part in parts], device=own.device)
        data.expander_index = torch.cat(parts, dim=1)
        data.expander_type = torch.arange(len(parts), device=own.device).repeat_interleave(counts)
        if self.num_virtual_nodes:
            if data.x is not None:
                zeros = data.x.new_zeros(self.num_virtual_nodes, *data.x.shape[1:])
                data.x = torch.cat([data.x, zeros])
            data.num_nodes = nodes + self.num_virtual_nodes
            data.is_virtual = torch.arange(data.num_nodes, device=own.device) >= nodes
        return data

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.degree}, "
            f"num_virtual_nodes={self.num_virtual_nodes}, seed={self.seed})"
        )


def _to_virtual(nodes: int, virtual: int, device: torch.device) -> Tensor:
    """An edge from every node to every virtual node, by virtual node: [2, nodes * virtual]."""
    node = torch.arange(nodes, device=device).repeat(virtual)
    return torch.stack(
        [node, nodes + torch.arange(virtual, device=device).repeat_interleave(nodes)]
    )
