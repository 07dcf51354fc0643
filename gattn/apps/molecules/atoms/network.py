"""Attention network that predicts values for molecules, for their atoms and for their bonds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from gattn.apps.fitting.losses import cross_entropy, regression_loss
from gattn.apps.fitting.types import History, Loss
from gattn.apps.molecules.atoms.values import KINDS, LabelledAtoms, Targets, Values
from gattn.apps.molecules.layers import MoleculeBatch
from gattn.apps.molecules.members import MoleculeBatches, batch_elements, fit_member
from gattn.apps.molecules.model_inputs import MoleculeInputs
from gattn.apps.molecules.network import AtomLayers, feature_sizes
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.runtime.threads import limited_threads
from gattn.ops.registration import path_trace


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


def new_network(
    settings: MoleculeSettings, targets: Targets, width: int, member: int
) -> AtomNetwork:
    """Create a network. Its weights are drawn from a seed, and torch's global generator is not
    used.
    """
    counts = {kind: len(targets.of(kind)) for kind in targets.kinds}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed + member)
        return AtomNetwork(settings, counts, width)


def output_width(task: Task, classes: Sequence[int]) -> int:
    """Return the number of outputs per target: the largest number of classes of a target, or 1."""
    return max(classes) if task == "multiclass" else 1


def one_hot_labels(y: Tensor, width: int) -> Tensor:
    """Convert labels [r, t] to [r, t, width]: one-hot for several classes, and unchanged if the
    width is 1.

    >>> one_hot_labels(torch.tensor([[1.0]]), 3).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if width == 1:
        return y[..., None]
    labels = (y[..., None] == torch.arange(width)).double()
    return labels.masked_fill(y.isnan()[..., None], torch.nan)


@dataclass(frozen=True, eq=False)
class AtomTraining:
    """Trainer of the networks of an ensemble.

    Attributes:
        task: the task.
        settings: settings of the networks and their training.
        targets: the names of the targets by kind.
        classes: for classes the number of classes of each target.
        scaling: ``mean.KIND`` and ``scale.KIND`` [t], by which the labels are scaled.
    """

    task: Task
    settings: MoleculeSettings
    targets: Targets
    classes: tuple[int, ...]
    scaling: Mapping[str, Tensor]

    @property
    def width(self) -> int:
        """Number of outputs per target."""
        return output_width(self.task, self.classes)

    def fit(
        self, train: LabelledAtoms, val: LabelledAtoms, folder: Path | None = None, *,
        progress: bool = False, threads: int = 0,
    ) -> tuple[list[AtomNetwork], list[History]]:  # fmt: skip
        """Train the networks of the ensemble one after another.

        Returns:
            The networks with their averaged weights, and their training histories.
        """
        settings = self.settings
        share = self._label_weights(train)
        batches, val_batches = (
            _AtomBatches(part.inputs, self._loop_targets(part), self._loop_weights(part, share))
            for part in (train, val)
        )
        networks, histories = [], []
        with limited_threads(batch_elements(settings.batch_size, settings), threads):
            for member in range(settings.ensemble):
                network = new_network(settings, self.targets, self.width, member)
                histories.append(
                    fit_member(
                        network, self._loss(), batches, val_batches, settings, member,
                        folder=folder, progress=progress,
                    )
                )  # fmt: skip
                networks.append(network.eval())
        return networks, histories

    def _label_weights(self, train: LabelledAtoms) -> dict[str, Tensor]:
        """Return the weight of each target's labels, [t] by kind. Every target then has the same
        share of the loss.
        """
        counts = {kind: train.y.rows[kind].isfinite().sum(0).double() for kind in train.y.rows}
        total = sum(float(count.sum()) for count in counts.values())
        share = total / len(self.targets)
        return {kind: share / count.clamp(min=1) for kind, count in counts.items()}

    def _loop_targets(self, part: LabelledAtoms) -> Values:
        """Return the scaled targets of the loss by kind, [r, t, c]."""
        rows: dict[str, Tensor] = {}
        for kind in self.targets.kinds:
            mean, scale = self.scaling[f"mean.{kind}"], self.scaling[f"scale.{kind}"]
            labels = one_hot_labels(part.y.rows[kind], self.width)
            rows[kind] = ((labels - mean[:, None]) / scale[:, None]).float()
        return Values(rows, part.y.ptr)

    def _loop_weights(self, part: LabelledAtoms, share: Mapping[str, Tensor]) -> Values:
        """Return the weights of the targets by kind, [r, t, 1]."""
        rows: dict[str, Tensor] = {}
        for kind in self.targets.kinds:
            weight = share[kind].expand(len(part.y.rows[kind]), -1)
            rows[kind] = weight[..., None].float()
        return Values(rows, part.y.ptr)

    def _loss(self) -> Loss:
        if self.task == "regression":
            return regression_loss(self.settings.error)
        return cross_entropy if self.task == "classification" else _several_classes


class _AtomBatches:
    """Data set for the training loop. It contains molecules, and the targets of their atoms and
    their weights.
    """

    def __init__(self, inputs: MoleculeInputs, targets: Values, weights: Values) -> None:
        self._graphs = MoleculeBatches(inputs, torch.zeros(len(inputs), 1))
        self._values = targets, weights

    def __len__(self) -> int:
        return len(self._graphs)

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, Tensor]:
        """Return a batch, and for all of its N outputs the targets, [N, c], and the
        weights, [N, 1].
        """
        targets, weights = (
            torch.cat([each.flatten(0, 1) for each in values[positions].rows.values()])
            for values in self._values
        )
        return self._graphs.batch(positions)[0], targets, weights


def _several_classes(logits: Tensor, label: Tensor) -> Tensor:
    """Return the cross entropy of several classes. Its mean over the outputs is the cross
    entropy of a label.
    """
    return -logits.shape[-1] * label * logits.log_softmax(-1)
