"""Training and prediction of the networks in an ensemble."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.fitting.tasks import Task
from gattn.apps.molecules.network import (
    MoleculeBatch,
    MoleculeColumns,
    MoleculeNetwork,
    batch_inputs,
    join_graphs,
    network_counts,
)
from gattn.apps.molecules.pretrained import encoder_folder, encoder_names, resolve
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.stacking import varied
from gattn.apps.run.model_io import RunError, read_model, remove_prefix, write_model
from gattn.apps.runtime.processes import in_order, processor_count
from gattn.apps.runtime.threads import share_threads
from gattn.data.molecules.features import FEATURISER

if TYPE_CHECKING:
    from gattn.apps.fitting.loop import History
    from gattn.apps.fitting.types import Loss
    from gattn.apps.molecules.model_inputs import MoleculeInputs
    from gattn.data.molecules.arrays import MoleculeArrays

HEAD = "head."
"""Beginning of the names of the parameters that are not part of the encoder."""
KEY = "foundation"
"""Key of a pretrained encoder in its card."""
ARCHITECTURE = ("width", "layers", "heads", "reaction")
"""Settings that determine the shapes of the encoder's parameters."""
FINE_TUNING_STARTS = {"": 0.1, HEAD: 0.0}
"""Fractions of the steps in which parameters of a network that starts from an encoder do not
change, by the beginning of their names: in the first tenth of the steps, only the head is trained.
"""


@dataclass(frozen=True, eq=False)
class Foundation:
    """Weights of an encoder, from which networks start.

    Attributes:
        source: the name or the folder.
        settings: settings of its network.
        tensors: the parameters of the encoder by name, in float32.
    """

    source: str
    settings: MoleculeSettings
    tensors: dict[str, Tensor]

    def check(self, settings: MoleculeSettings) -> None:
        """Check that networks with these settings can start from the encoder.

        Raises:
            ValueError: the encoder has another architecture, or no readout of molecules.
        """
        if "attend.query" not in self.tensors:
            raise ValueError(
                f"from_foundation {self.source} is a run of atoms or bonds, whose network has no "
                "readout of molecules: use a run of molecules or an encoder"
            )
        mine, other = (
            {name: getattr(each, name) for name in ARCHITECTURE}
            for each in (settings, self.settings)
        )
        if mine != other:
            differ = [name for name in other if mine[name] != other[name]]
            has, got = (
                ", ".join(f"{name} {each[name]}" for name in differ) for each in (other, mine)
            )
            raise ValueError(
                f"from_foundation {self.source} has a network with {has}; got {got}: use the same "
                "settings, or leave out from_foundation"
            )

    @torch.no_grad()
    def load_into(self, network: nn.Module) -> None:
        """Copy the weights into the encoder of a network in place; its head does not change. Raises
        KeyError if the encoder lacks one of the parameters.
        """
        for name, parameter in network.named_parameters():
            if not name.startswith(HEAD):
                parameter.copy_(self.tensors[name])


def read_foundation(source: str | os.PathLike[str]) -> Foundation:
    """Read the encoder of a network.

    Args:
        source: the name of an encoder that gattn ships, the folder of a pretrained encoder, or the
            folder of a training run, whose first network is read.

    Raises:
        RunError: the folder contains no network, or one of another version of the features.
    """
    folder = Path(source)
    if str(folder) in encoder_names() and not folder.exists():
        folder = encoder_folder(str(folder))
    folder = resolve(folder)
    if not folder.is_dir():
        names = ", ".join(encoder_names())
        raise RunError(
            "from_foundation must be the folder of a run or of an encoder"
            f"{', or one of ' if names else ''}{names}; got {source}"
        )
    tensors, card = read_model(folder)
    state = card.get(KEY)
    if not isinstance(state, dict):
        state = card.get("predictor")
        tensors = remove_prefix("networks.0.", tensors)
    if not isinstance(state, dict) or not tensors or "settings" not in state:
        raise RunError(
            f"{source} contains no network of molecules, so no training can start from it"
        )
    check_feature_version(source, state)
    settings = from_table(MoleculeSettings, cast("Mapping[str, object]", state["settings"]))
    encoder = {name: each.float() for name, each in tensors.items() if not name.startswith(HEAD)}
    return Foundation(str(source), settings, encoder)


def read_foundation_of(settings: MoleculeSettings) -> Foundation | None:
    """Read and check the encoder from which networks with these settings start; None if they start
    from random weights.

    Raises:
        RunError: see :func:`read_foundation`.
        ValueError: the encoder has another architecture.
    """
    if not settings.from_foundation:
        return None
    foundation = read_foundation(settings.from_foundation)
    foundation.check(settings)
    return foundation


def write_foundation(
    folder: Path, network: nn.Module, settings: MoleculeSettings, facts: Mapping[str, Any]
) -> None:
    """Write the encoder of a network to a folder, in float16.

    Args:
        folder: the folder, which is created if it is missing.
        network: the network.
        settings: its settings.
        facts: other values of the card, which JSON can store.

    Raises:
        ValueError: ``facts`` contains a value that JSON does not support.
        OSError: the folder cannot be written.
    """
    tensors = {
        name: parameter.detach().half()
        for name, parameter in network.named_parameters()
        if not name.startswith(HEAD)
    }
    state = {"settings": to_table(settings), "featuriser": FEATURISER}
    write_model(folder, tensors, {**facts, KEY: cast(Any, state)})


FIRST = "1"
"""Version of a state without an entry, because the first version of gattn wrote no entry."""


def check_feature_version(source: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Check the version of the features in the stored state of a predictor or an encoder.

    Args:
        source: folder or name of the model, for the message.
        state: the state; its entry ``featuriser`` is the version.

    Raises:
        RunError: this gattn computes another version.
    """
    version = state.get("featuriser", FIRST)
    if version != FEATURISER:
        raise RunError(
            f"the model in {source} was trained on version {version} of the features of "
            f"molecules, and this version of gattn computes version {FEATURISER}: train the "
            "model again"
        )


PREDICTION_BATCH = 512
"""Number of molecules in a batch of predictions."""
RECORDED_OUTPUTS = 4096
"""Maximum number of validation molecules for which the outputs of each epoch are recorded. They are
needed to choose the epoch by cross-fitting, which has little effect for more molecules.
"""

ATOMS = 25
"""Typical number of atoms of a molecule, used to estimate the size of a batch."""
FEW = 20_000
"""An ensemble is trained in several processes only if epochs x training molecules is at least
this number. For less work, starting the processes takes longer than it saves.
"""


FEW_MOLECULES, SMALL_BATCH = 600, 32
"""Number of training molecules below which a batch has at most SMALL_BATCH molecules, because few
steps leave the network untrained (``python -m benchmarks.molecules.curves --datasets freesolv``).
"""
MAX_EXPANDED = 8192
"""Maximum number of training molecules whose graphs are stored as tensors, which take about ten
kilobytes per molecule. If there are more, the graphs are unpacked for each batch.
"""


SIMILAR, MISSING_OF_DIFFERENT = 0.6, 0.8
"""Mean similarity of validation molecules to the most similar training molecule below which a
network misses more columns, and the probability that it misses one. Molecules that share few
environments are otherwise memorised by them.
"""


class MoleculeBatches:
    """Data set of molecules and targets that yields batches to the training loop.

    Args:
        inputs: k molecules.
        y: [k, t], scaled to the unit of the network; NaN for missing labels.
        weights: [k] weights of the rows, by which their losses are multiplied.
        bounds: [k, t, 2], the lower and upper ends of the labels in the same unit, for a bounded
            loss; by default both ends are y.
        bounded: whether the loss reads ends instead of y.
        columns: whether the networks also read descriptors and counts of environments.
        similarity: mean similarity of validation molecules to the most similar of these molecules.

    Attributes:
        recorded_outputs: maximum number of validation molecules whose outputs are recorded.
    """

    recorded_outputs = RECORDED_OUTPUTS

    def __init__(
        self,
        inputs: MoleculeInputs,
        y: Tensor,
        weights: Tensor,
        bounds: Tensor | None = None,
        *,
        bounded: bool = False,
        columns: bool = False,
        similarity: float = 1.0,
    ) -> None:
        self.inputs, self.y, self.bounded, self.columns = inputs, y.float(), bounded, columns
        self.similarity = similarity
        self.weights = weights.float()[:, None]
        self.targets = self.y
        if bounded:
            ends = self.y[..., None].expand(-1, -1, 2) if bounds is None else bounds.float()
            self.targets = ends.contiguous()

    @property
    def outputs(self) -> int:
        """Number of outputs of a network for the targets."""
        return self.y.shape[1]

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, positions: Tensor) -> tuple[MoleculeBatch, Tensor, Tensor]:
        """Return a batch of the molecules at these positions [g], their targets [g, t] float32 (for
        a bounded loss the ends of their targets, [g, t, 2]), and the weights of their rows, [g, 1].
        """
        return self._graphs(positions), self.targets[positions], self.weights[positions]

    def _graphs(self, positions: Tensor) -> MoleculeBatch:
        """Return the batch of the molecules at some positions.

        Few molecules are expanded once for all batches, and many in each batch, which saves memory.
        """
        if len(self) > MAX_EXPANDED:
            return batch_inputs(self.inputs[positions], counts=self.columns)
        arrays, *descriptors = self._expanded
        sizes = self.inputs.molecule_sizes
        some = None if sizes is None else sizes[positions]
        chosen = (each[positions] for each in descriptors)
        return join_graphs(arrays.take(positions), *chosen, sizes=some)

    @cached_property
    def _expanded(self) -> tuple[MoleculeArrays, Tensor, Tensor, Tensor]:
        """Graphs, descriptors [k, d], columns of the user [k, f] and counts [k, c] of all
        molecules, stored as tensors. c is 0 if the networks do not read counts.
        """
        inputs = self.inputs
        counts = network_counts(inputs) if self.columns else torch.empty(len(inputs), 0)
        extra = inputs.extra_descriptors.float()
        return inputs.molecules.arrays, inputs.descriptors, extra, counts

    def make_network(self, settings: MoleculeSettings, seed: int) -> Any:
        """Return a new network whose sizes fit the targets, the molecules in a row and the
        descriptor columns. Its weights are drawn from the seed. With ``columns``, the columns that
        it reads are fitted to these molecules.
        """
        extra, molecules = self.inputs.extra_descriptors.shape[1], molecules_in_row(self.inputs)
        columns = None
        if self.columns:
            pieces = torch.arange(len(self)).split(PREDICTION_BATCH)
            columns = MoleculeColumns.fit(map(self._graphs, pieces))
            if self.similarity < SIMILAR:
                columns.missing = MISSING_OF_DIFFERENT
        return make_network(
            settings, self.outputs, extra=extra, molecules=molecules, columns=columns, seed=seed
        )


def batch_elements(molecules: int, settings: MoleculeSettings) -> int:
    """Estimate the size of a batch of molecules as the number of atoms times the number of
    features.

    The size decides how many threads compute a batch; see
    :func:`gattn.apps.runtime.threads.choose_threads`.
    """
    return molecules * ATOMS * settings.width


def molecules_in_row(inputs: MoleculeInputs) -> int:
    """Return the number of molecules in a row; a reaction counts as one molecule."""
    sizes = inputs.molecule_sizes
    return 1 if sizes is None else sizes.shape[1]


def make_network(
    settings: MoleculeSettings, outputs: int, *, extra: int = 0, molecules: int = 1,
    columns: MoleculeColumns | None = None, seed: int = 0,
) -> MoleculeNetwork:  # fmt: skip
    """Create a network. Its weights are drawn from a seed, and torch's global generator is not
    used.

    ``extra`` is the number of descriptor columns of the user, ``molecules`` the number of
    molecules in a row, and ``columns`` the other columns that the network reads; None for the
    graph alone.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MoleculeNetwork(settings, outputs, extra, molecules, columns)


def fit_members(
    train: MoleculeBatches,
    val: MoleculeBatches,
    task: Task,
    settings: MoleculeSettings,
    *,
    classes: Sequence[int] = (),
    folder: Path | None = None,
    progress: bool = False,
    threads: int = 0,
) -> tuple[list[Any], list[History]]:
    """Train the networks of an ensemble, each with a different seed.

    Several networks are trained in parallel, with one process for each processor and one thread in
    each process. A network does not depend on the process that trains it.

    Args:
        train: training part.
        val: validation part, which is used to choose the epoch. If no target has two different
            values in it, the last epoch is used, because the loss would prefer a constant
            prediction.
        task: regression minimises ``settings.loss_function``, classification the cross entropy.
        settings: settings of the networks and their training. With fewer than 600 molecules, a
            batch has at most 32.
        classes: for the task multiclass, the number of classes of each target.
        folder: folder of checkpoints, one folder for each network; training continues from them.
        progress: whether to show a progress bar, for the networks of this process.
        threads: number of threads that compute a batch; 0 to choose it.

    Returns:
        The networks with their averaged weights, and their training histories.

    Raises:
        TrainingError: a checkpoint is damaged or belongs to another training, or the loss is not
            finite.
        RunError: the folder of the encoder contains no network, or one of another version.
        ValueError: the encoder has another architecture.
        RuntimeError: a process was killed, for example because memory was exhausted.
    """
    if not len(val) or not varied(val.y).any():
        none = val.inputs[torch.arange(0)]
        val = MoleculeBatches(none, val.y[:0], val.weights[:0, 0], bounded=val.bounded)
    if len(train) < FEW_MOLECULES:
        settings = replace(settings, batch_size=min(settings.batch_size, SMALL_BATCH))
    foundation = read_foundation_of(settings)
    work = partial(_fit_some, train, val, task, settings, folder, classes, threads, foundation)
    processes = _process_count(settings, len(train))
    # This process trains the last group of networks. This group is the largest, because the other
    # processes need time to start.
    shares = [range(first, settings.ensemble, processes) for first in reversed(range(processes))]
    tasks = [(share, (share, progress and share is shares[-1])) for share in shares]
    if processes > 1:
        trained = in_order(work, tasks, processes, ahead=1)
    else:
        trained = ((share, work(task)) for share, task in tasks)
    pairs: dict[int, tuple[Any, History]] = {}
    for share, some in trained:
        pairs |= dict(zip(share, some))
    networks, histories = zip(*(pairs[member] for member in range(settings.ensemble)))
    return list(networks), list(histories)


def _fit_some(
    train: MoleculeBatches, val: MoleculeBatches, task: Task, settings: MoleculeSettings,
    folder: Path | None, classes: Sequence[int], threads: int, foundation: Foundation | None,
    share: tuple[range, bool],
) -> list[tuple[Any, History]]:  # fmt: skip
    """Train some networks of an ensemble in one process; return them with their training histories.
    ``share`` contains their numbers, and whether to show the progress. Checkpoints are written
    below ``folder``, if it is not None. Raises TrainingError as :func:`fit_members`.
    """
    from gattn.apps.fitting.loop import LoopSettings, fit_network

    (numbers, progress), pairs = share, []
    for member in numbers:
        network = train.make_network(settings, settings.seed + member)
        starts: Mapping[str, float] = {}
        if foundation is not None:
            foundation.load_into(network)
            starts = FINE_TUNING_STARTS
        network.threads = share_threads(threads)
        names = [field.name for field in fields(LoopSettings) if hasattr(settings, field.name)]
        loop = LoopSettings(**{name: getattr(settings, name) for name in names})
        loop = replace(loop, seed=settings.seed + member, recorded_outputs=train.recorded_outputs)
        history = fit_network(
            network, _loss(task, settings, classes), train, val, loop,
            folder=None if folder is None else folder / f"member-{member}",
            progress=progress, title=f"network {member + 1} of {settings.ensemble}", starts=starts,
        )  # fmt: skip
        pairs.append((network.eval(), history))
    return pairs


def _process_count(settings: MoleculeSettings, molecules: int) -> int:
    """Return the number of processes in which an ensemble is trained.

    It is 1 if a GPU is available and may be used, in a process that another Python process started
    (as in a parallel search), and for less work than :data:`FEW`.
    """
    accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
    nested = multiprocessing.parent_process() is not None
    if (accelerated and settings.accelerator != "cpu") or nested:
        return 1
    if settings.epochs * molecules < FEW:
        return 1
    return min(settings.ensemble, processor_count())


def cross_fit_members(
    networks: Sequence[MoleculeNetwork],
    histories: Sequence[History],
    val: MoleculeBatches,
    folds: Tensor,
    task: Task,
    settings: MoleculeSettings,
    classes: Sequence[int] = (),
    *,
    threads: int = 0,
) -> Tensor:
    """Predict each fold of the validation part with the weights of the epoch that is best on the
    other folds.

    The networks themselves predict a fold if the outputs of the epochs were not recorded, or if no
    target has two different labels in the other folds.

    Args:
        networks: K networks, with the weights of the epoch that was chosen on the whole validation
            part.
        histories: training histories of the networks, with the outputs after each epoch.
        val: m validation molecules.
        folds: [m] int64, the fold of each.
        task: the task, which chooses the loss.
        settings: settings of the training.
        classes: for the task multiclass, the number of classes of each target.
        threads: number of threads that compute a batch; 0 to choose it.

    Returns:
        [K, m, o] float64 for the o outputs of a network, in the unit of the training; for classes
        logits.
    """
    outputs = predict_members(networks, val.inputs, val.outputs, threads=threads)
    loss = _loss(task, settings, classes)
    measured = ~val.targets.isnan()
    if val.bounded:  # A label is known if both of its ends are known.
        measured = measured.all(2)
    for member, history in enumerate(histories):
        if history.outputs is None:
            continue
        losses = torch.stack([loss(each, val.targets.nan_to_num(0.0)) for each in history.outputs])
        # The losses of the molecules after each epoch, [epochs, m].
        losses = (val.weights * losses).where(measured, 0.0).double().sum(2)
        for fold in folds.unique():
            inside = folds == fold
            if inside.all() or not varied(val.y[~inside]).any():
                # If all labels outside this fold are equal or missing, their losses cannot rank the
                # epochs (see fit_members).
                continue
            epoch = int(losses[:, ~inside].sum(1).argmin())
            if epoch != history.chosen:
                outputs[member, inside] = history.outputs[epoch, inside].double()
    return outputs


def predict_members(
    networks: Sequence[Any], inputs: MoleculeInputs, outputs: int, *, threads: int = 0
) -> Tensor:
    """Return the outputs of each of K networks, [K, k, o] float64: scaled targets, or logits
    of classes.

    ``outputs`` is the number o of outputs, and ``threads`` is the number of threads that compute a
    batch; 0 to choose it. It is stored in the attribute ``threads`` of each network. The networks
    compute in their mode, training or evaluation.
    """
    for network in networks:
        network.threads = share_threads(threads)
    if not networks:
        return torch.empty(0, len(inputs), outputs, dtype=torch.float64)
    pieces = []
    with torch.inference_mode():
        for positions in torch.arange(len(inputs)).split(PREDICTION_BATCH):
            batch = batch_inputs(inputs[positions], counts=networks[0].reads_counts)
            pieces.append(torch.stack([network(batch) for network in networks]).double())
    return torch.cat(pieces, 1)


def _loss(task: Task, settings: MoleculeSettings, classes: Sequence[int]) -> Loss:
    """Return a function that computes the loss of outputs for a batch of g molecules, [g, t]."""
    return task.loss(classes, error=settings.error, is_bounded=settings.bounded)
