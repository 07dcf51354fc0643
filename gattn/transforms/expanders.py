"""The transform AddExpander, which stores the edges of Exphormer's sparse attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.transforms import BaseTransform

from gattn import graphs
from gattn.graph.edge_input import check_count
from gattn.transforms.structures import edges_of


class AddExpander(BaseTransform):
    r"""Store the edges of Exphormer: the edges of the graph, of an expander graph, and of virtual
    nodes.

    .. math:: E = E_{\mathrm{own}} \cup E_{\mathrm{expander}} \cup E_{\mathrm{virtual}}

    Stores ``expander_index``, [2, e], and ``expander_type``, [e] int64: 0 for the graph's own
    edges in their order, 1 for edges of :func:`gattn.graphs.expander`, 2 for edges from a node to a
    virtual node, 3 for edges from a virtual node to a node. An edge that belongs to two of these
    sets is stored twice. PyG batches both attributes like edges. ``data.edge_index`` is not
    changed, so that a local layer can use it.

    Virtual nodes follow the nodes of the graph. They have zeros in ``data.x`` and are marked in
    ``data.is_virtual``, [n] bool. Other node attributes are not extended: apply this transform
    before transforms that store encodings.

    Args:
        degree: number of expander edges into each node; 0 for no expander.
        num_virtual_nodes: number of added nodes with edges to and from every node of the graph.
        seed: random seed of the expander.

    Raises:
        TypeError: data is no homogeneous ``Data``, or an argument is not an int.
        ValueError: an argument is negative.

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
        """Store the attributes of the class description in a graph, in place, and return the graph;
        calling the transform first makes a shallow copy. Raises TypeError unless it is a
        homogeneous ``Data``, and ValueError if it has no ``edge_index``. Raises the errors of
        :func:`gattn.graphs.expander`.
        """
        nodes, edges = edges_of(data)
        expander = graphs.expander([nodes], self.degree, seed=self.seed, device=edges.device)
        to_virtual = _to_virtual(nodes, self.num_virtual_nodes, edges.device)
        parts = [edges, expander.edge_index, to_virtual, to_virtual.flip(0)]
        counts = torch.tensor([part.shape[1] for part in parts], device=edges.device)
        data.expander_index = torch.cat(parts, dim=1)
        data.expander_type = torch.arange(len(parts), device=edges.device).repeat_interleave(counts)
        if self.num_virtual_nodes:
            if data.x is not None:
                zeros = data.x.new_zeros(self.num_virtual_nodes, *data.x.shape[1:])
                data.x = torch.cat([data.x, zeros])
            data.num_nodes = nodes + self.num_virtual_nodes
            data.is_virtual = torch.arange(data.num_nodes, device=edges.device) >= nodes
        return data

    def __repr__(self) -> str:
        """Return the class with its settings as text."""
        return (
            f"{self.__class__.__name__}({self.degree}, "
            f"num_virtual_nodes={self.num_virtual_nodes}, seed={self.seed})"
        )


def _to_virtual(nodes: int, virtual: int, device: torch.device) -> Tensor:
    """Return edges from every node to every virtual node: [2, nodes * virtual]."""
    node = torch.arange(nodes, device=device).repeat(virtual)
    return torch.stack(
        [node, nodes + torch.arange(virtual, device=device).repeat_interleave(nodes)]
    )
