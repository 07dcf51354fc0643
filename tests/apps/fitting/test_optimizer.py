"""The optimizer of the training loop, compared with torch's classes."""

import copy

import pytest
import torch
from torch import nn

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


def test_clipped_gradients_have_the_same_bits_with_1_2_or_3_threads() -> None:
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
