"""AttentiveFP: a model of molecules with attention along bonds, followed by attention over
atoms.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

import torch.nn.functional as F
from torch import Tensor
from torch.nn import GRUCell, Linear, Module, ModuleList
from torch_geometric.typing import Adj

from gattn.functional import aggregate
from gattn.graph import Graph
from gattn.nn import GATConv, GATEConv
from gattn.nn.common.checks import check_at_least, check_input
from gattn.nn.common.segments import segment_graph


class AttentiveFP(Module):
    r"""AttentiveFP model, which computes one vector per molecule from its atoms and bonds.

    .. math::
        x \leftarrow \mathrm{GRU}(\mathrm{ELU}(\mathrm{conv}(x)), x) \text{ for every layer}, \qquad
        m \leftarrow \mathrm{GRU}(\mathrm{ELU}(\mathrm{attend}(m, x)), m)
        \text{ for every timestep}

    Has the arguments, parameters and outputs of ``torch_geometric.nn.models.AttentiveFP``.

    Args:
        in_channels: number of atom features.
        hidden_channels: hidden width.
        out_channels: number of output features.
        edge_dim: number of bond features.
        num_layers: number of attention layers among the atoms.
        num_timesteps: number of refinements of the molecule's vector.
        dropout: dropout probability of features and attention weights.

    Shapes:
        - **input:** x [n, in_channels]; edges as pairs (2, e), an adjacency [n, n] or a
          :class:`gattn.Graph`; edge features [e, edge_dim]; batch [n], the molecule of each atom
        - **output:** [g, out_channels]

    Raises:
        TypeError: edges have another type, or dtypes differ.
        ValueError: a shape is wrong, or an index is out of range.

    Reference:
        Xiong et al., "Pushing the boundaries of molecular representation for drug discovery with
        the graph attention mechanism" (J. Med. Chem. 2020).

    Example:
        >>> import torch
        >>> from gattn.models import AttentiveFP
        >>> model = AttentiveFP(9, 16, 1, edge_dim=3, num_layers=2, num_timesteps=2)
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> x, edge_attr, batch = torch.randn(4, 9), torch.randn(4, 3), torch.tensor([0, 0, 1, 1])
        >>> model(x, edge_index, edge_attr, batch).shape
        torch.Size([2, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        edge_dim: int,
        num_layers: int,
        num_timesteps: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_at_least(1, num_layers=num_layers)
        check_at_least(0, num_timesteps=num_timesteps)
        check_at_least(0, in_channels=in_channels)
        self.in_channels = in_channels
        self.hidden_channels = hidden_channels
        self.out_channels = out_channels
        self.edge_dim = edge_dim
        self.num_layers = num_layers
        self.num_timesteps = num_timesteps
        self.dropout = dropout

        def attention() -> GATConv:
            return GATConv(
                hidden_channels,
                hidden_channels,
                dropout=dropout,
                add_self_loops=False,
                negative_slope=0.01,
            )

        self.lin1 = Linear(in_channels, hidden_channels)
        self.gate_conv = GATEConv(hidden_channels, hidden_channels, edge_dim, dropout)
        self.gru = GRUCell(hidden_channels, hidden_channels)
        self.atom_convs = ModuleList()
        self.atom_grus = ModuleList()
        for _ in range(num_layers - 1):
            self.atom_convs.append(attention())
            self.atom_grus.append(GRUCell(hidden_channels, hidden_channels))
        self.mol_conv = attention()
        # PyG's explainers learn a weight for each bond. The readout has other edges, to which these
        # weights must not be applied.
        self.mol_conv.explain = False
        self.mol_gru = GRUCell(hidden_channels, hidden_channels)
        self.lin2 = Linear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters."""
        self.lin1.reset_parameters()
        self.gate_conv.reset_parameters()
        self.gru.reset_parameters()
        for layer in chain.from_iterable(zip(self.atom_convs, self.atom_grus)):
            cast(Any, layer).reset_parameters()
        self.mol_conv.reset_parameters()
        self.mol_gru.reset_parameters()
        self.lin2.reset_parameters()

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        edge_attr: Tensor,
        batch: Tensor,
        batch_size: int | None = None,
    ) -> Tensor:
        """Compute the output features of molecules.

        Args:
            x: atom features, see Shapes.
            edge_index: the bonds, see Shapes.
            edge_attr: bond features, see Shapes.
            batch: the molecule of each atom, [n].
            batch_size: number of molecules; None reads it from batch.

        Returns:
            One row per molecule, [g, out_channels].
        """
        check_input("x", x, self.in_channels, self.lin1)
        x = F.leaky_relu(self.lin1(x))
        x = self._refine(self.gru, self.gate_conv(x, edge_index, edge_attr), x)
        for conv, gru in zip(self.atom_convs, self.atom_grus):
            x = self._refine(gru, conv(x, edge_index), x)

        molecules = segment_graph(x, batch, dim_size=batch_size)
        out = aggregate(x.new_ones(x.shape[0], 1), x.unsqueeze(1), molecules).squeeze(1).relu()
        for _ in range(self.num_timesteps):
            out = self._refine(self.mol_gru, self.mol_conv((x, out), molecules), out)
        return self.lin2(F.dropout(out, self.dropout, self.training))

    def _refine(self, gru: Module, message: Tensor, state: Tensor) -> Tensor:
        message = F.dropout(F.elu(message), self.dropout, self.training)
        return gru(message, state).relu()

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}("
            f"in_channels={self.in_channels}, "
            f"hidden_channels={self.hidden_channels}, "
            f"out_channels={self.out_channels}, "
            f"edge_dim={self.edge_dim}, "
            f"num_layers={self.num_layers}, "
            f"num_timesteps={self.num_timesteps})"
        )
