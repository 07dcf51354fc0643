"""Every operator as a table, and the comparison of a backend with the reference and float64."""

import dataclasses
import math

import pytest
import torch

from gattn import Graph
from gattn import functional as F
from gattn.kernels import cpu
from gattn.kernels.layout import Layout
from gattn.testing import awkward_graphs, random_graphs


@dataclasses.dataclass(frozen=True)
class Operator:
    """A function of gattn.functional with the shapes of its tensors.

    Letters: n, m, e, h, c, d as everywhere, u heads of value, w channels of value.
    """

    function: object
    shapes: dict
    options: dict = dataclasses.field(default_factory=dict)
    shared: dict = dataclasses.field(default_factory=dict)
    """Arguments that are the very tensor of another one."""

    def but(self, **fields):
        """The same with other fields."""
        return dataclasses.replace(self, **fields)

    def inputs(self, graph, heads=2, channels=4, *, dtype=torch.float64, seed=0, grad=True, **dims):
        """Normal draws, as leaves."""
        sizes = {"n": graph.num_dst, "m": graph.num_src, "e": graph.num_edges}
        sizes |= {"h": heads, "c": channels, "d": 3, "u": heads, "w": channels + 1} | dims
        generator = torch.Generator().manual_seed(seed)
        return {
            name: torch.randn([sizes[x] for x in letters], generator=generator, dtype=torch.float64)
            .to(dtype)
            .requires_grad_(grad)
            for name, letters in self.shapes.items()
        }

    def __call__(self, tensors, graph, **options):
        shared = {name: tensors[other] for name, other in self.shared.items()}
        return self.function(**tensors, **shared, graph=graph, **{**self.options, **options})

    def gradients(self, tensors, graph, grad=None, **options):
        """The output and the gradients of <grad, output>, by name."""
        out = self(tensors, graph, **options)
        if grad is None:
            generator = torch.Generator().manual_seed(5)
            grad = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
        wanted = {name: t for name, t in tensors.items() if t.requires_grad}
        found = torch.autograd.grad(out, list(wanted.values()), grad, allow_unused=True)
        return {"out": out.detach(), **dict(zip(wanted, found))}


QKV = {"query": "nhc", "key": "mhc", "value": "mhc"}
EDGES = {"edge_attr": "ed", "edge_proj": "hcd"}
SCALARS = {"query_score": "nh", "key_score": "mh"}
OPERATORS = {
    "additive": Operator(F.additive_attention, SCALARS | {"value": "mhc"}),
    "additive, edges": Operator(
        F.additive_attention, SCALARS | {"value": "muc", "edge_score": "eh"}
    ),
    "dot": Operator(F.dot_product_attention, QKV),
    "dot, wide": Operator(F.dot_product_attention, QKV | {"value": "mhw", "bias": "eh"}),
    "dot, edges": Operator(F.dot_product_attention, QKV | {"bias": "eh"} | EDGES),
    "mlp": Operator(F.mlp_attention, {"query": "nhc", "key": "mhc", "weight": "hc"},
                    shared={"value": "key"}),
    "mlp, wide": Operator(F.mlp_attention, QKV | {"value": "mhw", "weight": "hc"}),
    "mlp, edges": Operator(F.mlp_attention, QKV | {"weight": "hc"} | EDGES),
    "mlp, tanh": Operator(F.mlp_attention, QKV | {"weight": "hc"} | EDGES, {"activation": "tanh"}),
    "edge_softmax": Operator(F.edge_softmax, {"score": "eh"}),
    "aggregate": Operator(F.aggregate, {"weight": "eh", "value": "muc"}),
    "edge_dot": Operator(F.edge_dot, {"query": "nhc", "key": "muc"}),
}  # fmt: skip
ATTENTION = [name for name in OPERATORS if name.split(",")[0] in ("additive", "dot", "mlp")]
WIDTHS = [(8, 1), (1, 3), (3, 4), (16, 8), (8, 16), (2, 17), (9, 32), (2, 64), (3, 128)]
"""Heads and channels: channel counts that are compiled in and ones that are not."""
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def pytest_generate_tests(metafunc):
    """Tests over every operator, every attention, width, graph or precision ask for it by name."""
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    for name, values in {
        "operator": OPERATORS.items(),
        "attention": [(name, OPERATORS[name]) for name in ATTENTION],
        "graph": GRAPHS.items(),
        "precision": [(str(d).split(".")[1], d) for d in DTYPES],
        "width": [("x".join(map(str, width)), width) for width in WIDTHS],
    }.items():
        if name in metafunc.fixturenames and name not in given:
            values = list(values)
            metafunc.parametrize(name, [v for _, v in values], ids=[k for k, _ in values])


@pytest.fixture(autouse=True)
def _kernels(request, monkeypatch):
    """Nothing to compare where there is no compiler; no backend forced from outside."""
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
    """The compiled kernels against the reference in the same dtype and in float64.

    In float64 the two agree to 1e-10. Below it, the kernels' error is at most twice the
    reference's own and a few units of the last place. Rounding errors are random: where one draw
    exceeds that, the largest errors of five draws are compared.
    """
    found, worst, failed = {}, {}, []
    for seed in range(1 if dtype == torch.float64 else 6):
        inputs = operator.inputs(graph, heads, channels, dtype=dtype, seed=seed, **(dims or {}))
        for name in frozen:
            inputs[name].requires_grad_(False)
        errors, found = _errors(operator, inputs, graph, channels, options)
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
    return found


def _errors(operator, inputs, graph, channels, options):
    """By name: the kernels' largest error, the reference's, and what rounding alone may cost.

    Sums are kept in fp32 at least, and a 16-bit result is rounded once: half a unit of its last
    place. Elsewhere, where an exact gradient cancels, what remains is the rounding of <dO, O>: the
    scale of an inner product over channels and edge features counts.
    """
    exact = {k: t.detach().double().requires_grad_(t.requires_grad) for k, t in inputs.items()}
    exact = operator.gradients(exact, graph, impl="reference", **options)
    plain = operator.gradients(inputs, graph, impl="reference", **options)
    found = operator.gradients(inputs, graph, impl="cpu", **options)
    assert found.keys() == exact.keys()
    dtype = found["out"].dtype
    short = dtype.itemsize == 2
    eps = {torch.float64: 1e-10, torch.float32: 1e-6}.get(dtype, torch.finfo(dtype).eps / 2)
    inner = math.sqrt(channels)
    if "edge_attr" in inputs:
        inner *= 1 + inputs["edge_attr"].shape[1]
    errors = {}
    for name, wanted in exact.items():
        assert found[name].dtype == dtype, name
        assert found[name].shape == wanted.shape, name
        if wanted.numel():
            largest = float(wanted.abs().max())
            scale = max(largest, 1e-3 * inner if short else inner)
            ours, theirs = (float((t[name].double() - wanted).abs().max()) for t in (found, plain))
            errors[name] = ours, theirs, eps * scale
    return errors, found


def wide(graph):
    """The same graph with int64 indices."""
    return Graph.from_layout(Layout(*(t.long() for t in graph.layout)))


def _random():
    """Multi-edges, loops, isolated nodes, in no order."""
    generator = torch.Generator().manual_seed(2)
    return Graph(torch.randint(0, 23, (2, 120), generator=generator), 25)


def hubs(degree=4500):
    """Node 0 has so many edges in, node 1 so many out: rows of three segments."""
    generator = torch.Generator().manual_seed(3)
    other = torch.randint(0, 40, (2, degree), generator=generator)
    into = torch.stack([other[0], torch.zeros(degree, dtype=torch.long)])
    out = torch.stack([torch.ones(degree, dtype=torch.long), other[1]])
    return Graph(torch.cat([into, out], 1), 40)


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
def wide_graph():
    return wide(_random())


def strided(name, tensor):
    """The same numbers in the memory layout of this name."""
    if name == "slice of a wider projection":
        base = torch.empty(*tensor.shape[:-1], 3 * tensor.shape[-1], dtype=tensor.dtype)
        base = base.flatten(1)
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
