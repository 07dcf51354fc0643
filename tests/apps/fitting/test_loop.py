"""The training loop: its steps, the chosen epoch, and no side effects."""

import dataclasses
import logging
import signal
import warnings

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gattn.apps.fitting.loop import LoopSettings, TrainingError, fit_network

SETTINGS = LoopSettings(epochs=4, batch_size=32, learning_rate=0.03, average=0.5)


def test_training_loop_gives_the_same_weights_and_losses_as_a_loop_in_plain_pytorch(toy) -> None:
    """The result equals the result of the same epochs in plain PyTorch, with the items in the same
    order and with the same weights.
    """
    orders, original, weights = [], toy.train.batch, torch.rand(150, 1) + 0.5

    def batch(positions):
        orders.append(positions)
        return *original(positions)[:2], weights[positions]

    toy.train.batch = batch
    ours = toy.network(dropout=0.0)
    history = fit_network(ours, toy.squared, toy.train, toy.val, SETTINGS)
    assert len(orders) == 4 * 5
    epochs = [torch.cat(orders[i : i + 5]).tolist() for i in range(0, 20, 5)]
    assert all(sorted(epoch) == list(range(150)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 4

    bare = toy.network(dropout=0.0)
    average = AveragedModel(bare, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    optimizer = torch.optim.AdamW(bare.parameters(), 0.03, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.03, 20, pct_start=0.1)
    mask, losses = ~toy.val.y.isnan(), []
    for step, positions in enumerate(orders):
        x, y, _ = original(positions)
        bare.zero_grad()
        error = weights[positions] * toy.squared(bare(x), y.nan_to_num().float())
        error[~y.isnan()].mean().backward()
        nn.utils.clip_grad_norm_(bare.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        average.update_parameters(bare)
        if step % 5 == 4:
            with torch.no_grad():
                losses.append(toy.squared(average(toy.val.x), toy.val.y)[mask].mean().item())
    recorded = [record.validation_loss for record in history.records]
    torch.testing.assert_close(recorded, losses, rtol=1e-4, atol=0)
    assert history.chosen == losses.index(min(losses)) == 3
    for one, other in zip(ours.parameters(), average.module.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_network_after_training_has_the_weights_of_the_best_epoch(toy) -> None:
    network = toy.network()
    settings = dataclasses.replace(SETTINGS, epochs=20, learning_rate=0.3, average=0.0, patience=4)
    history = fit_network(network, toy.squared, toy.train, toy.val, settings)
    losses = [record.validation_loss for record in history.records]
    assert history.chosen == losses.index(min(losses)) < len(losses) - 1
    mask = ~toy.val.y.isnan()
    with torch.no_grad():
        error = toy.squared(network(toy.val.x), toy.val.y)[mask].mean()
    torch.testing.assert_close(error.item(), min(losses), rtol=1e-5, atol=0)
    assert not network.training


def test_training_leaves_random_state_files_output_and_signal_handlers_unchanged(
    toy, tmp_path, monkeypatch, capfd, caplog
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    handler, network = signal.getsignal(signal.SIGINT), toy.network()
    torch.manual_seed(5)
    with warnings.catch_warnings(), caplog.at_level(logging.DEBUG):
        warnings.simplefilter("error")
        fit_network(network, toy.squared, toy.train, toy.val, SETTINGS)
    assert torch.equal(torch.rand(3), expected)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    assert signal.getsignal(signal.SIGINT) is handler


def test_training_gives_the_same_weights_only_for_the_same_seed(toy) -> None:
    def trained(seed):
        network = toy.network()
        settings = dataclasses.replace(SETTINGS, epochs=1, seed=seed)
        fit_network(network, toy.squared, toy.train, toy.val, settings)
        return network

    assert toy.same(trained(0), trained(0))
    assert not toy.same(trained(0), trained(1))


def test_training_on_no_rows_or_on_missing_or_infinite_labels_raises_error(toy) -> None:
    blank, wild = toy.points(40, 1), toy.points(40, 1)
    blank.y.fill_(float("nan"))
    wild.y[0, 0] = float("inf")
    none = toy.points(0, 0)
    for parts, message in (
        ((none, toy.val), "the training part is empty"),
        ((blank, none), "the training part must have labels; all its labels are missing"),
        ((toy.train, blank), "the validation part must have labels; all its labels are"),
        ((toy.train, wild), "validation part is not finite in epoch 0"),
    ):
        with pytest.raises(TrainingError, match=message):
            fit_network(toy.network(), toy.squared, *parts, SETTINGS)


def test_training_on_a_missing_gpu_raises_error(toy, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    settings = dataclasses.replace(SETTINGS, accelerator="gpu")
    with pytest.raises(TrainingError, match="accelerator gpu needs a GPU, but torch finds none"):
        fit_network(toy.network(), toy.squared, toy.train, toy.val, settings)
