"""Attention network that predicts values for molecules, for their atoms and for their bonds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from gattn.apps.molecules.atoms.values import KINDS
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.network import AtomLayers, feature_sizes
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.ops.registration import path_trace

__all__ = ["AtomNetwork"]


class AtomNetwork(AtomLayers):
    r"""Graph attention network that has one output layer (head) for each kind of target.

    .. math::
        x \leftarrow x + \mathrm{ELU}(\mathrm{GATConv}(\mathrm{LayerNorm}(x)))
        \text{ for every layer}, \qquad
        y_i = \mathrm{MLP}(x_i), \qquad
        y_{ij} = \mathrm{MLP}(x_i + x_j \,\Vert\, |x_i - x_j| \,\Vert\, e_{ij})

    for the last features x of the atoms, after a LayerNorm, and the features e of the bonds. The
    result of a bond does not depend on its direction.

    Args:
        settings: ``width``, ``layers``, ``heads`` and ``dropout`` are read.
        targets: the number of targets by kind: ``"atom"`` or ``"bond"``.
        classes: number c of outputs of each target, 1 for numbers and for two classes.

    Attributes:
        threads: not used; the layers use torch's threads.

    Shapes:
        - **input:** a batch of g molecules, n atoms and b bonds from
          :func:`gattn.apps.molecules.network.batch_inputs`
        - **output:** [n t_a + b t_b, c], the values of all atoms, then of all bonds, with the
          targets of one row after another

    Example:
        >>> from gattn.data import batch_molecules, smiles_to_data
        >>> network = AtomNetwork(MoleculeSettings(width=16), {"atom": 1, "bond": 2})
        >>> network(batch_molecules([smiles_to_data("CCO"), smiles_to_data("C")])).shape
        torch.Size([8, 1])
    """

    threads: int = 1

    def __init__(
        self, settings: MoleculeSettings, targets: Mapping[str, int], classes: int = 1
    ) -> None:
        super().__init__(settings)
        self.targets = {kind: targets[kind] for kind in KINDS if targets.get(kind)}
        self.classes = classes
        width, bond_features = settings.width, feature_sizes(settings)[1]
        inputs = {"atom": width, "bond": 2 * width + bond_features}
        self.norm = nn.LayerNorm(width)
        self.head = nn.ModuleDict(
            {
                kind: nn.Sequential(
                    nn.Linear(inputs[kind], width), nn.ReLU(), nn.Linear(width, count * classes)
                )
                for kind, count in self.targets.items()
            }
        )

    def forward(self, batch: MoleculeBatch) -> Tensor:
        """Predict all targets of a batch; see Shapes."""
        if path_trace.listeners:
            reason = "not one kernel: the kernel returns molecules, not atoms and bonds"
            path_trace.report("", "", "layer by layer", reason)
        states = self.norm(self.atom_states(batch))
        outputs = []
        for kind, head in self.head.items():
            rows = self.dropout(self._rows(kind, states, batch))
            outputs.append(cast(nn.Sequential, head)(rows).reshape(-1, self.classes))
        return torch.cat(outputs)

    def _rows(self, kind: str, states: Tensor, batch: MoleculeBatch) -> Tensor:
        """Return the input of the output layer for one kind of target."""
        if kind == "atom":
            return states
        # Bond k has the edges 2 k and 2 k + 1 of the graph.
        one, other = states[batch.edge_index[:, ::2]].unbind(0)
        return torch.cat([one + other, (one - other).abs(), batch.edge_attr[::2]], 1)
