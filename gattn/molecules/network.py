"""Graph networks of molecules: attention over bonds, then readouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import SumAggregation

from gattn.data import ATOM_FEATURES, BOND_FEATURES, batch_molecules
from gattn.graph import as_graph
from gattn.models import AttentiveFP
from gattn.molecules.settings import MoleculeSettings
from gattn.nn import GATConv, LearnedQueryReadout
from gattn.nn.common.edge_inputs import with_loop_features

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs

__all__ = ["AttentiveFPNetwork", "MoleculeNetwork", "batch_inputs"]

QUERIES = 4
TIMESTEPS = 2
"""Number of refinements of a molecule's vector in AttentiveFP."""
LOOPS = "mean"
"""Features of an atom's self-loop: the mean of those of its bonds."""
ATOMS = 10.0
"""Divisor of sums over atoms: about the number of atoms of a small molecule."""


def batch_inputs(inputs: MoleculeInputs) -> Data:
    """Join molecules into the batch that networks read.

    Args:
        inputs: g molecules.

    Returns:
        The batch of :func:`gattn.data.batch_molecules`, with ``descriptors`` [g, d].
    """
    batch = batch_molecules(inputs.molecules)
    batch.descriptors = inputs.descriptors
    return batch


class MoleculeNetwork(nn.Module):
    r"""Predict a molecule's targets from its atoms and bonds.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y = \mathrm{MLP}\Bigl(\mathrm{attend}(x) \,\Vert\, \tfrac{1}{10} \sum_j W x_j\Bigr)

    The learned queries of ``attend`` weigh the atoms, and the sum beside them counts them.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        targets: number t of targets.

    Shapes:
        - **input:** a batch of g molecules from :func:`batch_inputs`
        - **output:** [g, t], in the unit of the training; for classes logits

    Reference:
        Veličković et al., "Graph Attention Networks" (ICLR 2018); Lee et al., "Set Transformer"
        (ICML 2019), for the readout.

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = MoleculeNetwork(MoleculeSettings(width=16), targets=2)
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([2, 2])
    """

    def __init__(self, settings: MoleculeSettings, targets: int) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        self.dropout = nn.Dropout(settings.dropout)
        self.atoms = nn.Linear(len(ATOM_FEATURES), width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(settings.layers))
        self.convs = nn.ModuleList(
            GATConv(width, width // heads, heads, edge_dim=len(BOND_FEATURES), add_self_loops=False)
            for _ in range(settings.layers)
        )
        self.attend = LearnedQueryReadout(width, width, num_queries=QUERIES, heads=QUERIES)
        self.project, self.sum = nn.Linear(width, width), SumAggregation()
        self.head = nn.Sequential(
            nn.Linear((QUERIES + 1) * width, width), nn.ReLU(), nn.Linear(width, targets)
        )

    def forward(self, batch: Data) -> Tensor:
        """Predict every molecule's targets.

        Args:
            batch: see Shapes.

        Returns:
            [g, t], one row for each molecule.
        """
        return self.head(self.dropout(self.embed(batch)))

    def embed(self, batch: Data) -> Tensor:
        """Embed every molecule as the vector from which its targets are predicted.

        Args:
            batch: see Shapes.

        Returns:
            [g, 5 * width].
        """
        x, graphs = self._atoms(batch), len(batch.ptr) - 1
        attended = self.attend(x, ptr=batch.ptr)
        # Projecting the sum takes one product for each molecule instead of one for each atom.
        total, count = self.sum(x, batch.batch, dim_size=graphs), batch.ptr.diff()[:, None]
        projected = F.linear(total, self.project.weight) + count * self.project.bias
        return torch.cat([attended, projected / ATOMS], 1)

    def attention(self, batch: Data) -> Tensor:
        """Return the attention weights of the learned queries on every atom.

        Args:
            batch: see Shapes, of n atoms.

        Returns:
            [n, queries, heads]; for each query and head the weights of a molecule sum to one.
        """
        return self.attend.attention_weights(self._atoms(batch), ptr=batch.ptr)

    def _atoms(self, batch: Data) -> Tensor:
        """Return the atoms after the last layer: [n, width]."""
        x = self.atoms(batch.x).relu()
        # The self-loops are added once, not by each layer: a batch is small, and its calls count.
        graph = as_graph(batch.edge_index, len(x), self_loops=True)
        bonds = with_loop_features(batch["edge_attr"], graph, LOOPS)
        for norm, conv in zip(self.norms, self.convs):
            x = x + self.dropout(F.elu(conv(norm(x), graph, bonds)))
        return x


class AttentiveFPNetwork(nn.Module):
    """The published AttentiveFP, with the interface of :class:`MoleculeNetwork`.

    Args:
        settings: ``width``, ``layers`` and ``dropout`` are read.
        targets: t.

    Reference:
        :class:`gattn.models.AttentiveFP`.

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = AttentiveFPNetwork(MoleculeSettings(width=16), targets=2)
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([2, 2])
    """

    def __init__(self, settings: MoleculeSettings, targets: int) -> None:
        super().__init__()
        atoms, bonds, width = len(ATOM_FEATURES), len(BOND_FEATURES), settings.width
        self.model = AttentiveFP(
            atoms, width, width, bonds, settings.layers, TIMESTEPS, settings.dropout
        )
        self.head = nn.Linear(width, targets)

    def forward(self, batch: Data) -> Tensor:
        """Predict every molecule's targets: [g, t]."""
        return self.head(self.embed(batch))

    def embed(self, batch: Data) -> Tensor:
        """Embed every molecule as the vector that the linear head reads: [g, width]."""
        graphs = len(batch.ptr) - 1
        return self.model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, graphs)
