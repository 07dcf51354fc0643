"""Layers of the molecule networks, implemented without importing PyTorch Geometric.

A prediction of a few molecules takes less time than the import of PyG, which :mod:`gattn.nn` needs.
Each of these layers has the same parameters and results as a layer of :mod:`gattn.nn` with the
settings of :class:`gattn.apps.molecules.network.MoleculeNetwork`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import Parameter

from gattn.functional import gat_attention
from gattn.graph import Graph, as_graph
from gattn.graph.cache import cached
from gattn.kernels.precision import infinite_as_nan
from gattn.layout.layout import owners
from gattn.nn.attention.learned_query import learned_query_pool, learned_query_score
from gattn.ops import projection
from gattn.ops.edges import sum_incoming
from gattn.ops.nodes import node_scores

SLOPE = 0.2
"""Negative slope of the LeakyReLU that is applied to the attention scores."""


@dataclass(frozen=True, eq=False)
class MoleculeBatch:
    """Batch of g molecules: their graphs, joined into one graph without edges between molecules,
    and their descriptors.

    Attributes:
        x: [n, len(ATOM_FEATURES)] float32, features of the atoms.
        edge_index: [2, e] int64, the bonds in both directions.
        edge_attr: [e, len(BOND_FEATURES)] float32, features of the bonds.
        batch: [n] int64, the molecule of each atom.
        ptr: [g + 1] int64, the index of each molecule's first atom.
        descriptors: [g, len(DESCRIPTORS)] float32.
        extra_descriptors: [g, f] float32, standardised descriptor columns of the user.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor
    ptr: Tensor
    descriptors: Tensor
    extra_descriptors: Tensor

    def apply(self, function: Callable[[Tensor], Tensor]) -> MoleculeBatch:
        """Return a batch in which a function was applied to each tensor."""
        return MoleculeBatch(*(function(getattr(self, field.name)) for field in fields(self)))

    def to(self, device: Any) -> MoleculeBatch:
        """Return a batch with all tensors on a device."""
        return self.apply(lambda tensor: tensor.to(device))


class BondAttention(nn.Module):
    r"""Graph attention along bonds, with the same results as :class:`gattn.nn.GATConv`.

    .. math::
        x'_i = \Big\Vert_h \sum_{j \in N(i)} \alpha_{ij} W x_j + b, \qquad
        \alpha_{ij} = \mathrm{softmax}_j\, \mathrm{LeakyReLU}
        (a_t \cdot W x_i + a_s \cdot W x_j + a_e \cdot W_e e_{ij})

    The graph is the result of :func:`with_atom_loops`, so that an atom attends to itself, too.

    Args:
        in_channels: features of an atom, d.
        out_channels: channels per head, c.
        heads: number of heads, h.
        edge_dim: features of a bond.

    Shapes:
        - **input:** x [n, d]; a graph of n nodes and e edges; edge_attr [e, edge_dim]
        - **output:** [n, h * c]

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).
    """

    def __init__(self, in_channels: int, out_channels: int, heads: int, edge_dim: int) -> None:
        super().__init__()
        width = heads * out_channels
        self.lin = _GlorotLinear(in_channels, width, bias=False)
        self.att_src = Parameter(torch.empty(1, heads, out_channels))
        self.att_dst = Parameter(torch.empty(1, heads, out_channels))
        self.lin_edge = _GlorotLinear(edge_dim, width, bias=False)
        self.att_edge = Parameter(torch.empty(1, heads, out_channels))
        self.bias = Parameter(torch.zeros(width))
        # GATConv initialises its weights twice. This layer does the same, so that a seed gives the
        # same parameters in both.
        parameters = self.lin.weight, self.lin_edge.weight, self.att_src, self.att_dst
        for parameter in (*parameters, self.att_edge):
            _draw_glorot(parameter)

    def forward(self, x: Tensor, graph: Graph, edge_attr: Tensor) -> Tensor:
        """Return new features of the atoms, computed by attention along the bonds.

        Args:
            x: features of the atoms, see Shapes.
            graph: the bonds and self-loops.
            edge_attr: features of the edges, see Shapes.

        Returns:
            The new features of the atoms.
        """
        projected = projection.linear(x, self.lin.weight)
        for_values, for_scores = projection.fork(projected)
        heads, channels = self.att_src.shape[1:]
        vectors = torch.cat([self.att_dst, self.att_src]).to(projected.dtype)
        scores = node_scores(for_scores.unflatten(1, (heads, channels)), vectors)
        query, key = infinite_as_nan(scores).unbind(0)
        weight = self.lin_edge.weight.view(heads, channels, -1)
        folded = (self.att_edge.transpose(0, 1) @ weight).squeeze(1)
        edge = infinite_as_nan(F.linear(edge_attr, folded))
        value = for_values.unflatten(1, (heads, channels))
        out = gat_attention(query, key, value, graph, edge_score=edge, negative_slope=SLOPE)
        out = out.flatten(1)
        return projection.add(out, self.bias.to(out.dtype))


class QueryReadout(nn.Module):
    r"""Readout by attention of learned queries, with the same results as
    :class:`gattn.nn.LearnedQueryReadout`.

    .. math::
        o_{gq} = W_o \Big\Vert_h \sum_{j \in g} \alpha_{jqh} W_v^{(h)} x_j + b, \qquad
        \alpha_{jqh} = \mathrm{softmax}_{j \in g}
        \frac{q_{qh} \cdot W_k^{(h)} x_j}{\sqrt{c}}

    Args:
        channels: features of an atom and of the result of a query, d.
        queries: number of learned queries, k.
        heads: heads of each query, h.

    Shapes:
        - **input:** x [n, d]; ptr [g + 1] int64, the first atom of each molecule
        - **output:** [g, k * d]; zeros for a molecule without atoms

    Reference:
        Lee et al., "Set Transformer" (ICML 2019), pooling by attention.
    """

    def __init__(self, channels: int, queries: int, heads: int) -> None:
        super().__init__()
        self.queries, self.heads = queries, heads
        self.query = Parameter(torch.empty(queries, channels))
        self.lin_key = nn.Linear(channels, channels, bias=False)
        self.lin_value = nn.Linear(channels, channels, bias=False)
        self.lin_out = nn.Linear(channels, channels)
        for parameter in (self.query, self.lin_key.weight, self.lin_value.weight):
            nn.init.xavier_uniform_(parameter)
        # LearnedQueryReadout initialises its weights twice. This layer does the same, so that a
        # seed gives the same parameters in both.
        self.lin_out.reset_parameters()

    def forward(self, x: Tensor, ptr: Tensor) -> Tensor:
        """Compute a weighted sum of the atoms of each molecule for each query.

        Args:
            x: features of the atoms, see Shapes.
            ptr: the index of each molecule's first atom, see Shapes.

        Returns:
            One row for each molecule.
        """
        # len() would make the sizes constants of an exported model.
        segments = _segments(ptr, x.shape[0])
        weight = self.lin_value.weight.unflatten(0, (self.heads, -1))
        out = self.lin_out(learned_query_pool(self._score(x), x, weight, segments, 0.0))
        empty = segments.layout.rowptr.diff() == 0
        return out.masked_fill(empty.view(-1, 1, 1), 0.0).flatten(1)

    def _score(self, x: Tensor) -> Tensor:
        weight = self.lin_key.weight.unflatten(0, (self.heads, -1))
        return learned_query_score(self.query, weight, x)


def sum_atoms(x: Tensor, batch: Tensor, molecules: int) -> Tensor:
    """Sum the features x [n, d] over the atoms of each molecule: [g, d]."""
    return x.new_zeros(molecules, x.shape[1]).scatter_add_(0, batch[:, None].expand_as(x), x)


class _GlorotLinear(nn.Linear):
    """Linear layer whose weight is initialised by the method of Glorot and Bengio (AISTATS
    2010).
    """

    def reset_parameters(self) -> None:
        _draw_glorot(self.weight)


def _draw_glorot(parameter: Tensor) -> None:
    bound = math.sqrt(6.0 / (parameter.shape[-2] + parameter.shape[-1]))
    nn.init.uniform_(parameter, -bound, bound)


def with_atom_loops(edge_index: Tensor, edge_attr: Tensor, atoms: int) -> tuple[Graph, Tensor]:
    """Add a self-loop at each atom. Its edge features are the mean of the features of the atom's
    bonds.

    Args:
        edge_index: [2, e] int64, the bonds in both directions.
        edge_attr: [e, d] features of the bonds.
        atoms: number of atoms n.

    Returns:
        The graph of e + n edges, and their features [e + n, d]; zeros for an atom without bonds.
    """
    graph = as_graph(edge_index, (atoms, atoms), self_loops=True)
    rows = edge_attr if graph.kept_edges is None else edge_attr[graph.kept_edges]
    total = sum_incoming(F.pad(rows, (0, 0, 0, graph.num_dst)), graph)
    degree = graph.in_degree()[:, None] - 1
    return graph, torch.cat([rows, total / degree.clamp(min=1).to(total.dtype)])


def _segments(ptr: Tensor, atoms: int) -> Graph:
    """Return the graph that connects each atom to its molecule. The graph is cached for ``ptr``."""

    def build() -> Graph:
        molecule = owners(ptr, atoms)
        atom = torch.arange(atoms, dtype=molecule.dtype, device=molecule.device)
        return Graph(torch.stack([atom, molecule]), (atoms, ptr.shape[0] - 1))

    return cached(ptr, ("molecules", atoms), build)
