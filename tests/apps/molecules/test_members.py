"""Networks of an ensemble: training in several processes gives the same networks as training one by
one.
"""

import os
from dataclasses import replace

import pytest
import torch

from gattn.apps.fitting.loop import TrainingError
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules import members
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.members import MoleculeBatches, fit_members
from gattn.apps.molecules.settings import MoleculeSettings

SMILES = ["C" * a + b for a in range(1, 9) for b in ("", "O", "N", "C(=O)O", "c1ccccc1")]
SETTINGS = MoleculeSettings(epochs=3, width=16, layers=2, heads=2, batch_size=16, dropout=0.1)


@pytest.fixture(scope="module")
def batches() -> tuple[MoleculeBatches, MoleculeBatches]:
    inputs = featurise(SMILES).inputs
    y = torch.tensor([[len(text) / 10 - 0.5] for text in SMILES])
    rows = torch.arange(len(SMILES))
    train, val = rows[rows % 4 > 0], rows[rows % 4 == 0]
    return tuple(
        MoleculeBatches(inputs[part], y[part], torch.ones(len(part))) for part in (train, val)
    )


def train(batches, settings, **options):
    """Train an ensemble with one thread, as in child processes, and return its weights and
    histories.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        networks, histories = fit_members(*batches, TASKS["regression"], settings, **options)
    finally:
        torch.set_num_threads(threads)
    assert not any(network.training for network in networks)
    return [network.state_dict() for network in networks], histories


def same(one, other) -> bool:
    """Compare weights, chosen epochs and losses, bit by bit."""
    (states, histories), (other_states, other_histories) = one, other
    losses, other_losses = (
        [[(r.train_loss, r.validation_loss) for r in history.records] for history in each]
        for each in (histories, other_histories)
    )
    return (
        losses == other_losses
        and [h.chosen for h in histories] == [h.chosen for h in other_histories]
        and all(torch.equal(a.outputs, b.outputs) for a, b in zip(histories, other_histories))
        and all(torch.equal(a[name], b[name]) for a, b in zip(states, other_states) for name in a)
    )


@pytest.mark.bits
@pytest.mark.slow
def test_number_of_processes_does_not_change_weights(batches, monkeypatch, tmp_path) -> None:
    settings = replace(SETTINGS, ensemble=3)
    alone = train(batches, settings, folder=tmp_path / "alone")
    monkeypatch.setattr(members, "FEW", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    folder = tmp_path / "shared"
    shared = train(batches, settings, folder=folder)
    assert len(shared[0]) == 3
    assert same(alone, shared)
    assert not torch.equal(shared[0][0]["atoms.weight"], shared[0][1]["atoms.weight"])
    for member in range(3):
        single = train(batches, replace(SETTINGS, seed=member))
        assert same(single, ([shared[0][member]], [shared[1][member]]))
    # The members of an ensemble are trained together or in separate processes. Both ways can
    # continue from the checkpoints of the other.
    written = {path: path.read_bytes() for path in folder.rglob("checkpoint.pt")}
    assert len(written) == 3
    monkeypatch.setattr(members, "FEW", 10**9)
    assert same(shared, train(batches, settings, folder=folder))
    assert {path: path.read_bytes() for path in folder.rglob("checkpoint.pt")} == written


@pytest.mark.slow
def test_error_in_a_worker_process_is_raised_in_the_caller(batches, monkeypatch) -> None:
    monkeypatch.setattr(members, "FEW", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    settings = replace(SETTINGS, ensemble=2, learning_rate=1e30)
    with pytest.raises(TrainingError, match="is not finite"):
        train(batches, settings)
