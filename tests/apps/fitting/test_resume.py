"""An interrupted training resumes after its last checkpoint and gives the same bits."""

import dataclasses

import pytest
import torch

from gattn.apps.fitting import loop
from gattn.apps.fitting.loop import LoopSettings, TrainingError, fit_network

# 5 epochs of 5 batches each.
SETTINGS = LoopSettings(epochs=5, batch_size=32, learning_rate=0.03, average=0.5, seed=3)


class Stopped(Exception):
    """Exception with which these tests end a training."""


@pytest.fixture(autouse=True)
def interval(monkeypatch):
    """Set the interval between checkpoints to zero, because the epochs of these tests are short."""
    monkeypatch.setattr(loop, "CHECKPOINT_INTERVAL", 0.0)


@pytest.fixture
def whole(toy):
    """Network and history of an uninterrupted training."""
    network = toy.network()
    return network, fit_network(network, toy.squared, toy.train, toy.val, SETTINGS)


def without_seconds(history):
    return [dataclasses.replace(record, seconds=0.0) for record in history.records]


@pytest.mark.bits
@pytest.mark.parametrize("interval", [0.0, 1e6])
@pytest.mark.parametrize("batches", [3, 5, 24])
def test_resumed_training_gives_the_same_bits_as_uninterrupted_training(
    toy, whole, tmp_path, monkeypatch, batches, interval
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_INTERVAL", interval)
    left = [batches]

    def batch(positions, original=toy.train.batch):
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return original(positions)

    stopped = toy.points(150, 0)
    stopped.batch = batch
    network = toy.network()
    with pytest.raises(Stopped):
        fit_network(network, toy.squared, stopped, toy.val, SETTINGS, folder=tmp_path)
    network = toy.network()
    history = fit_network(network, toy.squared, toy.train, toy.val, SETTINGS, folder=tmp_path)
    assert toy.same(network, whole[0])
    assert without_seconds(history) == without_seconds(whole[1])


def test_finished_training_is_not_repeated(toy, whole, tmp_path) -> None:
    first, second = toy.network(), toy.network()
    history = fit_network(first, toy.squared, toy.train, toy.val, SETTINGS, folder=tmp_path)
    toy.train.batch = None  # if the second training called batch, calling None would raise an error
    again = fit_network(second, toy.squared, toy.train, toy.val, SETTINGS, folder=tmp_path)
    assert again == history
    assert toy.same(first, second)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_checkpoint_of_other_settings_or_initial_weights_raises_error(toy, tmp_path) -> None:
    short = dataclasses.replace(SETTINGS, epochs=1)
    fit_network(toy.network(), toy.squared, toy.train, toy.val, short, folder=tmp_path)
    before = (tmp_path / "checkpoint.pt").read_bytes()
    for changes in ({"epochs": 2}, {"seed": 4}, {"learning_rate": 0.1}):
        settings = dataclasses.replace(short, **changes)
        with pytest.raises(TrainingError, match="with other settings, data or initial weights"):
            fit_network(toy.network(), toy.squared, toy.train, toy.val, settings, folder=tmp_path)
    moved = toy.network()
    torch.nn.init.zeros_(moved[0].bias)
    with pytest.raises(TrainingError, match="initial weights"):
        fit_network(moved, toy.squared, toy.train, toy.val, short, folder=tmp_path)
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
