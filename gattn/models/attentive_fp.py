"""AttentiveFP: a model of molecules with attention along bonds, followed by attention over
atoms.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList
from torch_geometric.nn.models import attentive_fp as pyg
from torch_geometric.typing import Adj

from gattn.compat.pyg import retyped
from gattn.functional import aggregate
from gattn.graph import Graph
from gattn.models._pyg import PyGModel
from gattn.nn import GATConv, GATEConv
from gattn.nn.common.checks import check_input
from gattn.nn.common.segments import segment_graph


class AttentiveFP(pyg.AttentiveFP, PyGModel):
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

    def _complete(self, arguments: dict[str, Any]) -> None:
        """Replace PyG's layers in place by gattn's, with the same parameters."""
        self.gate_conv = retyped(self.gate_conv, GATEConv)
        self.atom_convs = ModuleList(retyped(conv, GATConv) for conv in self.atom_convs)
        self.mol_conv = retyped(self.mol_conv, GATConv)
        # PyG's explainers learn a weight for each bond. The readout has other edges, to which these
        # weights must not be applied.
        self.mol_conv.explain = False

    def forward(
        self,
        x: Tensor,
        edge_index: Adj | Graph,
        edge_attr: Tensor,
        batch: Tensor,
        batch_size: int | None = None,
    ) -> Tensor:
        """Compute the output features of molecules, in training with dropout. The attention weights
        of the layers are passed to the active recordings.

        Args:
            x: atom features, see Shapes.
            edge_index: the bonds, see Shapes.
            edge_attr: bond features, see Shapes.
            batch: the molecule of each atom, [n].
            batch_size: number of molecules; None reads it from batch.

        Returns:
            One row per molecule, [g, out_channels].

        Raises:
            ValueError: if an input has a wrong shape, or an index is out of range.
            TypeError: if the edges have another type, or an input not the dtype of the model.
            RuntimeError: under torch.jit.trace.
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
