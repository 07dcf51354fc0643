"""Attention network that predicts values for the atoms or the bonds of molecules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.members import MoleculeBatches
from gattn.apps.molecules.network import AtomLayers, feature_sizes
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data.molecules.arrays import ranges
from gattn.ops.registration import path_trace


class AtomNetwork(AtomLayers):
    r"""Graph attention network that predicts values of atoms or of bonds.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y_i = \mathrm{MLP}(x_i) \text{ or }
        y_{ij} = \mathrm{MLP}(x_i + x_j \,\Vert\, |x_i - x_j| \,\Vert\, e_{ij})

    for the last features x of the atoms, after a LayerNorm, and the features e of the bonds. The
    result of a bond does not depend on its direction.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        level: ``"atom"`` or ``"bond"``.
        outputs: number o of outputs.

    Attributes:
        threads: not used; the layers use torch's threads.

    Shapes:
        - **input:** a batch of molecules with n atoms or bonds from
          :func:`gattn.apps.molecules.network.batch_inputs`
        - **output:** [n, o]

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = AtomNetwork(MoleculeSettings(width=16), "bond", 2)
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([2, 2])
    """

    threads: int = 1

    def __init__(self, settings: MoleculeSettings, level: str, outputs: int) -> None:
        super().__init__(settings)
        self.level = level
        width, bond_features = settings.width, feature_sizes(settings)[1]
        inputs = width if level == "atom" else 2 * width + bond_features
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predict all targets of a batch; see Shapes."""
        if path_trace.listeners:
            reason = "not one kernel: the kernel returns molecules, not atoms and bonds"
            path_trace.report("", "", "layer by layer", reason)
        rows = self.norm(self.atom_states(batch))
        if self.level == "bond":
            # Bond k has the edges 2 k and 2 k + 1 of the graph.
            one, other = rows[batch.edge_index[:, ::2]].unbind(0)
            rows = torch.cat([one + other, (one - other).abs(), batch.edge_attr[::2]], 1)
        return self.head(self.dropout(rows))


class AtomBatches(MoleculeBatches):
    """Data set of molecules and the labels of their atoms or bonds for the training loop.

    Args:
        part: molecules, with the labels [r, o] on the scale of the outputs.
        level: ``"atom"`` or ``"bond"``.
        weights: [o] weights of the targets.
    """

    recorded_outputs = 0

    def __init__(self, part: LabelledMolecules, level: str, weights: Tensor) -> None:
        super().__init__(part.inputs, part.y)
        assert part.ptr is not None
        self._ptr, self._level, self._of_targets = part.ptr, level, weights

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, Tensor]:
        """Return a batch, and the labels and the weights of its N atoms or bonds, [N, o] each."""
        y = self.y[ranges(self._ptr, positions)[0]]
        return self._graphs(positions), y, self._of_targets.expand_as(y)

    def make_network(self, settings: MoleculeSettings, seed: int) -> AtomNetwork:
        """Return a new network for the atoms or bonds."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AtomNetwork(settings, self._level, self.outputs)
