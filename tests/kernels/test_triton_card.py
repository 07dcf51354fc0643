"""Backend triton on a card: large graphs, repeated runs, CUDA graphs and compute-sanitizer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gattn import Graph
from tests.kernels.triton_cases import (
    CUDA,
    DEVICE,
    check,
    each_case,
    gradient_of,
    graph,
    run,
    tiles,
)

no_device = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
pytestmark = [pytest.mark.usefixtures("small_tiles"), pytest.mark.gpu, no_device]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@each_case
def test_triton_operators_on_a_large_graph_equal_the_reference(case, dtype):
    torch.manual_seed(0)
    n, e = 20_000, 300_000
    source = (torch.rand(e, device=DEVICE) ** 3 * n).long()
    destination = (torch.rand(e, device=DEVICE) ** 3 * n).long()
    g = Graph(torch.stack([source, destination]), n)
    with tiles.override():
        tiles._override.clear()
        check(case.operator, g, 8, 16, dtype, dims=case.dims, **case.options)


@each_case
def test_triton_operators_give_the_same_bits_in_twenty_calls(case):
    g = graph("hub")
    tensors = case.operator.inputs(g, 4, 16, **case.dims)
    first = run(case.operator, g, tensors, case.options, torch.float32, "triton")
    for _ in range(20):
        again = run(case.operator, g, tensors, case.options, torch.float32, "triton")
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@each_case
def test_replay_of_a_cuda_graph_gives_the_same_bits_as_a_direct_call(case):
    g = graph("hub")
    tensors = case.operator.inputs(g, 4, 16, **case.dims)
    options = {k: v for k, v in case.options.items() if k != "dropout"}
    want = run(case.operator, g, tensors, options, torch.float32, "triton")
    arguments = {name: t.detach().float().requires_grad_() for name, t in tensors.items()}
    grad = gradient_of(want[0])

    def step():
        out = case.operator(arguments, g, **options, backend="triton")
        return [out.detach(), *torch.autograd.grad(out, list(arguments.values()), grad)]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        got = step()
    for t in got:
        t.fill_(torch.nan)
    captured.replay()
    assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))


SANITIZED = """
import sys, torch, gattn
from tests.families import OPERATORS
device = sys.argv[1]
edges = torch.tensor([[0, 1, 2, 2], [1, 1, 0, 1]], device=device)
for g in (gattn.Graph(edges, 3), gattn.graphs.complete([3], device=device)):
    outs = []
    for operator in OPERATORS.values():
        inputs = operator.inputs(g, 3, 7, dtype=torch.float32, d=5)
        dropped = {"dropout": 0.5} if operator.family else {}
        outs += [operator(inputs, g, **options, backend="triton") for options in ({}, dropped)]
    sum(out.sum() for out in outs).backward()
"""
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("compute-sanitizer") is None, reason="needs compute-sanitizer")
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compute_sanitizer_reports_no_error_in_triton_kernels(tool):
    command = ["compute-sanitizer", f"--tool={tool}", "--error-exitcode=9", sys.executable]
    # Each tensor needs a separate allocation, because the sanitizer checks only the bounds of
    # allocations.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(
        [*command, "-c", f"{SANITIZED}torch.cuda.synchronize()", "cuda"],
        capture_output=True, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    if "Device not supported" in done.stdout:
        pytest.skip("this compute-sanitizer does not know the device")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
