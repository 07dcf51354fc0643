"""Parametrize tests over all operators, and compare them with the reference and float64."""

import math

import pytest
import torch

from gattn import Graph
from gattn.kernels import cpu
from gattn.layout.layout import Layout
from gattn.testing import awkward_graphs, random_graphs
from tests.families import ATTENTION, OPERATORS

WIDTHS = [(8, 1), (1, 3), (3, 4), (16, 8), (8, 16), (2, 17), (9, 32), (2, 64), (3, 128)]
"""Pairs of heads and channels, with numbers of channels for which the kernels were compiled, and
with other numbers.
"""
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def pytest_generate_tests(metafunc):
    """Parametrize arguments named operator, attention, graph, width or precision."""
    explicit = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    for name, values in {
        "operator": OPERATORS.items(),
        "attention": ATTENTION.items(),
        "graph": GRAPHS.items(),
        "precision": [(str(d).split(".")[1], d) for d in DTYPES],
        "width": [("x".join(map(str, width)), width) for width in WIDTHS],
    }.items():
        if name in metafunc.fixturenames and name not in explicit:
            values = list(values)
            metafunc.parametrize(name, [v for _, v in values], ids=[k for k, _ in values])


@pytest.fixture(autouse=True)
def _kernels(request, monkeypatch):
    """Skip comparisons without a compiler, and ignore GATTN_BACKEND."""
    names = {"operator", "operators", "attention", "compare"}
    if cpu.unavailable_reason() and names & set(request.fixturenames):
        pytest.skip(cpu.unavailable_reason())
    monkeypatch.delenv("GATTN_BACKEND", raising=False)


@pytest.fixture
def operators():
    return OPERATORS


@pytest.fixture
def compare():
    return _compare


def _compare(
    operator, graph, heads=2, channels=4, dtype=torch.float64, *, dims=None, frozen=(), **options
):
    """Compare the compiled kernels with the reference in the same dtype and in float64.

    In float64 the two agree to 1e-10. In other dtypes the kernels' error is at most twice the
    reference's error plus a few units in the last place. Rounding errors are random: if one draw
    exceeds this bound, the largest errors of six draws are compared.
    """
    results, worst, failed = {}, {}, []
    for seed in range(1 if dtype == torch.float64 else 6):
        inputs = operator.inputs(graph, heads, channels, dtype=dtype, seed=seed, **(dims or {}))
        for name in frozen:
            inputs[name].requires_grad_(False)
        errors, results = _errors(operator, inputs, graph, channels, options)
        failed = []
        for name, (ours, theirs, unit) in errors.items():
            worst[name] = [max(pair) for pair in zip(worst.get(name, (0, 0)), (ours, theirs))]
            ours, theirs = worst[name]
            allowed = unit if dtype == torch.float64 else 2 * theirs + unit
            if not ours <= allowed:
                failed.append(f"{name}: error {ours:.2e}, the reference's {theirs:.2e}, {unit=}")
        if not failed:
            break
    assert not failed
    return results


def _errors(operator, inputs, graph, channels, options):
    """Return the largest error of the kernels, the largest error of the reference, and the rounding
    error, by name.

    Sums use at least fp32, and a 16-bit result is rounded once, by half a unit in the last place.
    If an exact gradient cancels to zero, the rounding error of <dO, O> remains, whose scale is an
    inner product over channels and edge features. With edge weights this rounding error grows
    with the weights, and is multiplied by the scale of a second product.
    """
    exact = {k: t.detach().double().requires_grad_(t.requires_grad) for k, t in inputs.items()}
    exact = operator.gradients(exact, graph, backend="reference", **options)
    plain = operator.gradients(inputs, graph, backend="reference", **options)
    results = operator.gradients(inputs, graph, backend="cpu", **options)
    assert results.keys() == exact.keys()
    dtype = results["out"].dtype
    short = dtype.itemsize == 2
    eps = {torch.float64: 1e-10, torch.float32: 1e-6}.get(dtype, torch.finfo(dtype).eps / 2)
    inner = math.sqrt(channels)
    if "edge_attr" in inputs:
        inner *= 1 + inputs["edge_attr"].shape[1]
    if "edge_weight" in inputs:
        inner *= math.sqrt(channels) * max([1.0, *inputs["edge_weight"].detach().abs().tolist()])
    errors = {}
    for name, expected in exact.items():
        assert results[name].dtype == dtype, name
        assert results[name].shape == expected.shape, name
        if expected.numel():
            largest = float(expected.abs().max())
            scale = max(largest, 1e-3 * inner if short else inner)
            ours, theirs = (
                float((t[name].double() - expected).abs().max()) for t in (results, plain)
            )
            errors[name] = ours, theirs, eps * scale
    return errors, results


def wide(graph):
    """Return the same graph with int64 indices."""
    return Graph.from_layout(Layout(*(t.long() for t in graph.layout)))


def _random():
    """Return a graph with multi-edges, self-loops and isolated nodes, and with edges in random
    order.
    """
    generator = torch.Generator().manual_seed(2)
    return Graph(torch.randint(0, 23, (2, 120), generator=generator), 25)


def hubs(degree=4500):
    """Return a graph in which node 0 has many incoming edges and node 1 has many outgoing edges.
    The kernels divide their rows into three segments.
    """
    generator = torch.Generator().manual_seed(3)
    other = torch.randint(0, 40, (2, degree), generator=generator)
    into = torch.stack([other[0], torch.zeros(degree, dtype=torch.long)])
    out = torch.stack([torch.ones(degree, dtype=torch.long), other[1]])
    return Graph(torch.cat([into, out], 1), 40)


def split_rows():
    """Return a graph with rows that are shorter and longer than a segment and than a block, in both
    directions.
    """
    degree = torch.tensor([3, 2047, 1, 2048, 2049, 0, 2, 4096, 4097, 5, 2050, 1])
    nodes = torch.arange(len(degree))
    generator = torch.Generator().manual_seed(4)
    into, out = (
        nodes.repeat_interleave(count)[torch.randperm(int(degree.sum()), generator=generator)]
        for count in (degree, degree.flip(0))
    )
    return Graph(torch.stack([out, into]), len(degree))


GRAPHS = {case.name: case.graph() for case in awkward_graphs() + random_graphs(1)}
GRAPHS |= {case.name: case.graph() for case in random_graphs(1, seed=1, bipartite=True)}
GRAPHS["int64 indices"] = wide(_random())


@pytest.fixture
def random_graph():
    return _random()


@pytest.fixture
def hub_graph():
    return hubs()


@pytest.fixture
def split_graph():
    return split_rows()


@pytest.fixture
def wide_graph():
    return wide(_random())


def strided(name, tensor):
    """Return the same numbers in the memory layout of this name."""
    if name == "slice of a wider projection":
        base = torch.empty(len(tensor), 3 * tensor[0].numel(), dtype=tensor.dtype)
        view = base.as_strided(tensor.shape, (base.stride(0), *tensor[:1].stride()[1:]), 1)
        view.copy_(tensor)
    elif name == "transposed":
        view = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    elif name == "every other row":
        view = tensor.new_empty(2 * tensor.shape[0], *tensor.shape[1:])[::2]
        view.copy_(tensor)
    else:
        assert name == "misaligned"
        view = tensor.new_empty(tensor.numel() + 1)[1:].view(tensor.shape)
        view.copy_(tensor)
    assert torch.equal(view, tensor)
    return view


STRIDES = ["slice of a wider projection", "transposed", "every other row", "misaligned"]


@pytest.fixture(params=STRIDES)
def restride(request):
    return lambda tensor: strided(request.param, tensor)
