"""The loop: what it lowers, what it chooses, and that it leaves no trace."""

import torch

from gattn.training.loop import LoopSettings, fit_network

SETTINGS = LoopSettings(epochs=6, batch_size=32, learning_rate=0.03, average=0.5)


def test_training_lowers_the_loss_and_keeps_the_best_epoch(toy) -> None:
    network = toy.network()
    history = fit_network(network, toy.squared, toy.train, toy.val, SETTINGS)
    losses = [record.validation_loss for record in history.records]
    assert len(losses) == 6
    assert losses[-1] < losses[0] / 2
    assert history.chosen == losses.index(min(losses))
    known = ~toy.val.y.isnan()
    with torch.no_grad():
        error = toy.squared(network(toy.val.x), toy.val.y.nan_to_num())[known].mean()
    torch.testing.assert_close(error.item(), min(losses), rtol=1e-5, atol=0)


def test_a_finished_training_is_not_repeated(toy, tmp_path) -> None:
    first, second = toy.network(), toy.network()
    history = fit_network(first, toy.squared, toy.train, toy.val, SETTINGS, folder=tmp_path)
    again = fit_network(second, toy.squared, toy.train, toy.val, SETTINGS, folder=tmp_path)
    assert again == history
    for one, other in zip(first.state_dict().values(), second.state_dict().values()):
        assert torch.equal(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]
