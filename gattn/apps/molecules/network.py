"""Neural networks for molecules, with attention along bonds and a readout of the atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.molecules.kernels.network import (
    NetworkGraph,
    NetworkSizes,
    molecule_network,
    obstacle,
)
from gattn.apps.molecules.layers import (
    BondAttention,
    MoleculeBatch,
    QueryReadout,
    sum_atoms,
    with_atom_loops,
)
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data.molecules.features import ATOM_FEATURES, BOND_FEATURES
from gattn.ops.registration import path_trace

if TYPE_CHECKING:
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.data.molecules.arrays import MoleculeArrays

QUERIES = 4
"""Number of learned queries in a readout, and number of heads of each query."""
ATOMS = 10.0
"""Sums over atoms are divided by this number, which is about the number of atoms in a small
molecule.
"""


def batch_inputs(inputs: MoleculeInputs) -> MoleculeBatch:
    """Combine molecules into one batch for a network.

    Args:
        inputs: g molecules.

    Returns:
        The batch: the graphs, joined as by :func:`gattn.data.batch_molecules`, and the descriptors.
        If a row has c molecules, ``batch`` and ``ptr`` are those of the g c molecules.
    """
    arrays = inputs.molecules.arrays.copy()
    extra, sizes = inputs.extra_descriptors.float(), inputs.molecule_sizes
    return join_graphs(arrays, inputs.descriptors, extra, sizes)


def join_graphs(
    arrays: MoleculeArrays,
    descriptors: Tensor,
    extra_descriptors: Tensor,
    sizes: Tensor | None = None,
) -> MoleculeBatch:
    """Combine molecules into one batch whose tensors share the memory of ``arrays``.

    Args:
        arrays: graphs of g molecules.
        descriptors: [g, len(DESCRIPTORS)] float32.
        extra_descriptors: [g, f] float32, descriptor columns of the user.
        sizes: [g, c] int64, the number of atoms of each molecule of a row; None if every row has
            one graph.
    """
    bonds = arrays.edge_ptr.diff()
    atoms = arrays.ptr.diff() if sizes is None else sizes.flatten()
    ptr = arrays.ptr if sizes is None else F.pad(atoms.cumsum(0), (1, 0))
    return MoleculeBatch(
        x=arrays.x,
        edge_index=arrays.edge_index + arrays.ptr[:-1].repeat_interleave(bonds),
        edge_attr=arrays.edge_attr,
        batch=torch.arange(len(atoms)).repeat_interleave(atoms),
        ptr=ptr,
        descriptors=descriptors,
        extra_descriptors=extra_descriptors,
    )


def feature_sizes(settings: MoleculeSettings) -> tuple[int, int]:
    """Return the number of features of an atom and of a bond. In a reaction, both sides have their
    own features.

    >>> feature_sizes(MoleculeSettings()), feature_sizes(MoleculeSettings(reaction=True))
    ((49, 14), (98, 28))
    """
    sides = 2 if settings.reaction else 1
    return sides * len(ATOM_FEATURES), sides * len(BOND_FEATURES)


class AtomLayers(nn.Module):
    r"""Attention layers that compute features of the atoms in molecules.

    .. math:: x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.

    Reference:
        Veličković et al., "Graph Attention Networks" (ICLR 2018).
    """

    def __init__(self, settings: MoleculeSettings) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        self.heads = heads
        atom_features, bond_features = feature_sizes(settings)
        self.dropout = nn.Dropout(settings.dropout)
        self.atoms = nn.Linear(atom_features, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(settings.layers))
        self.convs = nn.ModuleList(
            BondAttention(width, width // heads, heads, bond_features)
            for _ in range(settings.layers)
        )

    def atom_states(self, batch: MoleculeBatch) -> Tensor:
        """Return the features of the n atoms in a batch after the last layer: [n, width]."""
        x = self.atoms(batch.x).relu()
        # The self-loops are added once for all layers, because the number of operator calls limits
        # the speed of small batches.
        graph, bonds = with_atom_loops(batch.edge_index, batch.edge_attr, x.shape[0])
        for norm, conv in zip(self.norms, self.convs):
            x = x + self.dropout(F.elu(conv(norm(x), graph, bonds)))
        return x


class MoleculeNetwork(AtomLayers):
    r"""Graph attention network that predicts the targets of molecules from their atoms and bonds.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y = \mathrm{MLP}\Bigl(\mathrm{attend}(x) \,\Vert\, \tfrac{1}{10} \sum_j W x_j
        \,\Vert\, d\Bigr)

    The learned queries of ``attend`` compute weighted means of the atoms. The sum of the atoms is
    added because means do not depend on the number of atoms. d are the f
    descriptor columns of the user.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        targets: number t of targets.
        extra: number f of descriptor columns.
        molecules: number c of molecules in a row. The attention layers process each of the
            molecules with the same weights, and the MLP reads the vectors of all of them; see
            :class:`Readouts`.

    Attributes:
        threads: maximum number of threads that compute a batch on a CPU. It does not change the
            bits of the result.

    Shapes:
        - **input:** a batch of g molecules from :func:`batch_inputs` or
          :func:`gattn.data.batch_molecules`
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

    threads: int = 1

    def __init__(
        self, settings: MoleculeSettings, targets: int, extra: int = 0, molecules: int = 1
    ) -> None:
        super().__init__(settings)
        self.extra = extra
        width = settings.width
        self.attend = QueryReadout(width, QUERIES, QUERIES)
        self.project = nn.Linear(width, width)
        self.molecules = molecules
        vector = molecules * (QUERIES + 1) * width
        self.head = nn.Sequential(
            nn.Linear(vector + extra, width), nn.ReLU(), nn.Linear(width, targets)
        )

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predict the targets of every molecule in a batch.

        A CPU computes the whole network in one kernel, unless a gradient of the batch or dropout
        is needed.

        Args:
            batch: see Shapes.

        Returns:
            [g, t], one row for each molecule.
        """
        if self.molecules > 1:
            reason = "the kernel computes rows of one molecule"
        elif self.training and self.dropout.p:
            reason = "the kernel computes no dropout: call eval() or set dropout to 0"
        else:
            extra = (
                batch.extra_descriptors if self.extra else batch.x.new_empty(len(batch.ptr) - 1, 0)
            )
            graph = NetworkGraph(batch.x, batch.edge_index, batch.edge_attr, batch.ptr, extra)
            parameters = self._kernel_parameters()
            reason = obstacle(graph, parameters)
            if not reason:
                sizes = NetworkSizes(len(self.convs), self.heads, QUERIES, self.threads)
                return molecule_network(graph, parameters, sizes)
        if path_trace.listeners:
            path_trace.report("", "", "layer by layer", f"not one kernel: {reason}")
        return self.by_layers(batch)

    def by_layers(self, batch: MoleculeBatch) -> Tensor:
        """Compute the result of :meth:`forward`, with one operator call for each step of the
        network.
        """
        vector = self.dropout(self.embed(batch))
        return self.head(torch.cat([vector, batch.extra_descriptors], 1) if self.extra else vector)

    def embed(self, batch: MoleculeBatch) -> Tensor:
        """Compute the hidden vector of each row. The targets are predicted from it and the
        descriptors d.

        Args:
            batch: see Shapes.

        Returns:
            [g, 5 * width] for one molecule in a row; see :class:`Readouts` for several.
        """
        x = self.atom_states(batch)
        attended = self.attend(x, batch.ptr)
        # The sum of a molecule's atoms is projected, because this takes one product per molecule
        # instead of one per atom.
        total, count = sum_atoms(x, batch.batch, batch.ptr.shape[0] - 1), batch.ptr.diff()[:, None]
        projected = F.linear(total, self.project.weight) + count * self.project.bias
        vectors = torch.cat([attended, projected / ATOMS], 1)
        return vectors.unflatten(0, (-1, self.molecules)).flatten(1)

    def _kernel_parameters(self) -> list[Tensor]:
        """Return the parameters in the order of :func:`gattn.apps.molecules.kernels.network`."""
        layers: list[Tensor] = []
        for norm, layer in zip(self.norms, self.convs):
            norm, conv = cast(nn.LayerNorm, norm), cast(BondAttention, layer)
            layers += [
                norm.weight, norm.bias, conv.lin.weight, conv.att_src, conv.att_dst,
                conv.lin_edge.weight, conv.att_edge, conv.bias,
            ]  # fmt: skip
        readout = self.attend
        hidden, last = (cast(nn.Linear, self.head[i]) for i in (0, 2))
        return [
            self.atoms.weight, self.atoms.bias, *layers,
            readout.query, readout.lin_key.weight, readout.lin_value.weight,
            readout.lin_out.weight, readout.lin_out.bias, self.project.weight, self.project.bias,
            hidden.weight, hidden.bias, last.weight, last.bias,
        ]  # fmt: skip
