"""Attention network that predicts values for the atoms or the bonds of molecules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from gattn.apps.fitting.losses import cross_entropy, multiclass_cross_entropy, regression_loss
from gattn.apps.fitting.types import History, Loss
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.members import MoleculeBatches, batch_elements, fit_member
from gattn.apps.molecules.network import AtomLayers, feature_sizes
from gattn.apps.molecules.rows import LabelledMolecules
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.runtime.threads import limited_threads
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


def new_network(settings: MoleculeSettings, level: str, outputs: int, member: int) -> AtomNetwork:
    """Create a network. Its weights are drawn from a seed, and torch's global generator is not
    used.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed + member)
        return AtomNetwork(settings, level, outputs)


def fit_networks(
    train: LabelledMolecules, val: LabelledMolecules, level: str, task: Task,
    settings: MoleculeSettings, *, classes: Sequence[int] = (), folder: Path | None = None,
    progress: bool = False, threads: int = 0,
) -> tuple[list[AtomNetwork], list[History]]:  # fmt: skip
    """Train the networks of an ensemble one after another.

    Args:
        train: the training part, with the labels [r, o] on the scale of the outputs.
        val: the validation part, on which the epoch is chosen.
        level: ``"atom"`` or ``"bond"``.
        task: the task.
        settings: settings of the networks and their training.
        classes: number of classes of each target if the task is multiclass.
        folder: folder for checkpoints, or None.
        progress: whether to show the progress.
        threads: number of threads, 0 for one per processor.

    Returns:
        The networks in evaluation mode, and their histories.
    """
    loss: Loss = cross_entropy
    if task != "classification":
        loss = multiclass_cross_entropy(classes) if classes else regression_loss(settings.error)
    counts = train.y.isfinite().sum(0).double()
    # Every target has the same weight, however many labels it has.
    weights = (counts.mean() / counts.clamp(min=1)).float()
    batches, val_batches = (_AtomBatches(part, weights) for part in (train, val))
    networks, histories = [], []
    with limited_threads(batch_elements(settings.batch_size, settings), threads):
        for member in range(settings.ensemble):
            network = new_network(settings, level, train.y.shape[1], member)
            histories.append(
                fit_member(
                    network, loss, batches, val_batches, settings, member, folder=folder,
                    progress=progress,
                )
            )  # fmt: skip
            networks.append(network.eval())
    return networks, histories


class _AtomBatches:
    """Data set for the training loop: molecules, and the labels of their atoms or bonds."""

    def __init__(self, part: LabelledMolecules, weights: Tensor) -> None:
        assert part.ptr is not None
        self._graphs = MoleculeBatches(part.inputs, torch.zeros(len(part), 1))
        self._y, self._ptr, self._weights = part.y.float(), part.ptr, weights

    def __len__(self) -> int:
        return len(self._graphs)

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, Tensor]:
        """Return a batch, and the labels and the weights of its N atoms or bonds, [N, o] each."""
        y = self._y[ranges(self._ptr, positions)[0]]
        return self._graphs.batch(positions)[0], y, self._weights.expand_as(y)
