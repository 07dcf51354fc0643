"""Tests with processes that use gloo: the training equals the training in one process, also from a
checkpoint.
"""

import pytest
import torch

from gattn.distributed import Partition
from tests.distributed import ranks
from tests.distributed.emulation import scattered
from tests.distributed.ranks import CONVS, NODES, STEPS, Task

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def check(parts, whole, dtype=torch.float64):
    """Compare the joined results of the processes with those of one process."""
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    assert parts
    out = torch.empty_like(whole["out"])
    for part in parts:
        out[part["nodes"]] = part["out"]
        for name in ("losses", "grads"):
            torch.testing.assert_close(part[name], whole[name], **close)
    torch.testing.assert_close(out, whole["out"], **close)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_fifty_distributed_training_steps_equal_those_of_one_process(run, size):
    partitions = {torch.float64: scattered(NODES, size),
                  torch.float32: Partition.contiguous(NODES, size)}  # fmt: skip
    cases = [(conv, dtype, partition) for conv in CONVS for dtype, partition in partitions.items()]
    results = run(size, ranks.train, cases)
    assert len(results) == size
    for (conv, dtype, _), *parts in zip(cases, *results, strict=True):
        whole = Task(conv, dtype)
        losses = [whole.step() for _ in range(STEPS)]
        assert losses[-1] < 0.9 * losses[0]
        check(parts, whole.results(losses), dtype)


def test_distributed_step_with_dropout_equals_that_of_one_process(run):
    results = run(2, ranks.drop, list(CONVS))
    assert len(results) == 2
    for conv, *parts in zip(CONVS, *results, strict=True):
        whole = Task(conv, dropout=0.5)
        torch.manual_seed(9)
        loss = whole.step()
        for part in parts:
            # The outputs are not compared, because their dropout masks differ from those of one
            # process.
            torch.testing.assert_close(part["losses"], [loss], rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(part["grads"], whole.results([loss])["grads"])


def test_data_parallel_gradients_equal_those_of_one_process(run):
    whole = Task("GATv2Conv")
    whole.loss(whole.outputs()).backward()
    results = run(2, ranks.average)
    assert len(results) == 2
    for grads in results:
        torch.testing.assert_close(grads, [p.grad for p in whole.network.parameters()])


def test_training_of_two_processes_resumed_in_three_equals_training_in_one_process(run, tmp_path):
    path = tmp_path / "checkpoint.pt"
    run(2, ranks.resume, path, 10)
    results = run(3, ranks.resume, path, 10)
    whole = Task("TransformerConv")
    check(results, whole.results([whole.step() for _ in range(20)]))


def test_summed_gradient_is_none_only_if_the_gradient_is_missing_on_all_processes(run):
    results = run(2, ranks.lone_gradient)
    assert len(results) == 2
    for first, second, third in results:
        assert (first.tolist(), second.tolist(), third) == ([3, 3], [5, 5], None)


def test_layer_reads_new_edges_received_into_a_reused_buffer(run):
    for edges, out, expected, before in run(2, ranks.receive):
        assert edges.tolist() == [[0, 0, 2, 3], [3, 2, 1, 0]]
        assert torch.equal(out, expected)
        assert not torch.equal(out, before)
