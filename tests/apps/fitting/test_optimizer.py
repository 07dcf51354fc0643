"""The optimizer of the training loop, compared with torch's classes."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from gattn.apps.fitting.optimizer import AdamW, OneCycle


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0.1), (2, 0.1), (10, 0.1), (21, 0.3), (50, 0.9)])
def test_one_cycle_schedule_equals_that_of_torch(steps: int, warmup: float) -> None:
    optimizer = torch.optim.AdamW([torch.zeros(1)], 1.0)
    # torch divides by zero if the warmup has exactly one step.
    share = warmup * (1 + 1e-9) if warmup * steps == 1 else warmup
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, steps, pct_start=share)
    for step in range(steps):
        (group,) = optimizer.param_groups
        expected = pytest.approx((group["lr"], group["betas"][0]), rel=1e-5)
        assert OneCycle(0.3, steps, warmup).at(step) == expected
        optimizer.step()
        schedule.step()


def test_steps_and_averaged_weights_equal_those_of_torch() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    network[0].bias.requires_grad_(False)
    bare, ours, average = (copy.deepcopy(network) for _ in range(3))
    cycle = OneCycle(0.1, 12, 0.25)
    optimizer = AdamW(ours, average, cycle, weight_decay=0.01, decay=0.6)
    trained = [parameter for parameter in bare.parameters() if parameter.requires_grad]
    expected = torch.optim.AdamW(trained, 0.1, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(expected, 0.1, 12, pct_start=0.25)
    mean = AveragedModel(bare, multi_avg_fn=get_ema_multi_avg_fn(0.6))
    for _ in range(12):
        x = torch.randn(7, 3, dtype=torch.float64)
        expected.zero_grad()
        bare(x).square().mean().backward()
        nn.utils.clip_grad_norm_(trained, 0.2)
        expected.step()
        schedule.step()
        mean.update_parameters(bare)
        optimizer.zero_grad()
        ours(x).square().mean().backward()
        optimizer.clip(0.2)
        optimizer.step()
        optimizer.update_average()
    for one, other in ((ours, bare), (average, mean.module)):
        for name, value in other.state_dict().items():
            if "running" not in name and "tracked" not in name:
                torch.testing.assert_close(one.state_dict()[name], value, rtol=1e-9, atol=1e-12)


def test_a_restored_optimizer_continues_with_the_same_bits() -> None:
    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    x = torch.randn(6, 5, 3)

    def run(count: int, begin: int, network: nn.Module, average: nn.Module, state: dict | None):
        optimizer = AdamW(network, average, OneCycle(0.1, 6, 0.3), weight_decay=0.1, decay=0.5)
        if state is not None:
            optimizer.load_state_dict(state)
        for some in x[begin : begin + count]:
            optimizer.zero_grad()
            network(some).square().sum().backward()
            optimizer.step()
            optimizer.update_average()
        return optimizer.state_dict()

    whole, whole_mean, parts, parts_mean = (copy.deepcopy(network) for _ in range(4))
    run(6, 0, whole, whole_mean, None)
    state = run(2, 0, parts, parts_mean, None)
    run(4, 2, parts, parts_mean, state)
    assert torch.equal(whole.weight, parts.weight)
    assert torch.equal(whole_mean.weight, parts_mean.weight)


def test_clipping_has_the_same_bits_for_any_number_of_threads() -> None:
    torch.manual_seed(0)
    network = nn.Linear(1000, 300)
    optimizer = AdamW(
        network, copy.deepcopy(network), OneCycle(0.1, 6, 0.3), weight_decay=0.1, decay=0.5
    )
    gradient = torch.randn_like(optimizer.gradients[0])
    clipped, threads = [], torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            optimizer.gradients[0].copy_(gradient)
            optimizer.clip(1.0)
            clipped.append(optimizer.gradients[0].clone())
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(clipped[0], clipped[1])
    assert torch.equal(clipped[0], clipped[2])
    torch.testing.assert_close(clipped[0].norm(), torch.tensor(1.0))


def test_starts_equal_parameter_groups_of_torch() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    bare, ours, average = (copy.deepcopy(network) for _ in range(3))
    starts = {"": 0.25, "2.": 0.0, "2.bias": 0.5}
    cycle = OneCycle(0.1, 12, 0.25)
    optimizer = AdamW(ours, average, cycle, weight_decay=0.01, decay=0.6, starts=starts)
    groups = [([*bare[0].parameters()], 0.25), ([bare[2].weight], 0.0), ([bare[2].bias], 0.5)]
    expected = torch.optim.AdamW([{"params": some} for some, _ in groups], weight_decay=0.01)
    for step in range(12):
        rate, momentum = cycle.at(step)
        for group, (_, start) in zip(expected.param_groups, groups):
            group["lr"] = rate * (step >= 12 * start)
            group["betas"] = momentum, 0.999
        x = torch.randn(7, 3, dtype=torch.float64)
        for module, steps in ((bare, expected), (ours, optimizer)):
            steps.zero_grad()
            module(x).square().mean().backward()
            steps.step()
        optimizer.update_average()
        unchanged = torch.equal(ours[0].weight, network[0].weight)
        assert unchanged == (step < 3)
    for one, other in zip(ours.parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
