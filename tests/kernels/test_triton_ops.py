"""Every operator on backend triton against the reference: outputs, gradients and the contract.

Without a CUDA device these run in Triton's interpreter: see test_triton_interpreter.py.
"""

import os

import pytest
import torch

import gattn
from gattn import Graph

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
CUDA = torch.cuda.is_available() and not INTERPRETED
DEVICE = "cuda" if CUDA else "cpu"
if INTERPRETED:
    import triton.language
    from triton.runtime.interpreter import InterpretedFunction, _patch_lang

    def call_helper(self, *args, _patched=set(), **kwargs):  # noqa: B006
        """Call a helper without patching triton.language anew, which takes most of the time."""
        module = self.fn.__globals__
        if module.get("tl") is not triton.language and module["__name__"] not in _patched:
            _patch_lang(self.fn)
            _patched.add(module["__name__"])
        return self.rewrite()(*args, **kwargs)

    InterpretedFunction.__call__ = call_helper
if INTERPRETED or CUDA:
    from gattn.kernels.triton import tiles

pytestmark = pytest.mark.skipif(
    not (INTERPRETED or CUDA),
    reason="needs a CUDA device; without one, test_triton_interpreter.py runs it",
)
gpu = pytest.mark.gpu
needs_cuda = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")


@pytest.fixture(autouse=True)
def small_tiles():
    """Tiles small enough that little graphs have cut rows and several programs."""
    with tiles.override(segment=4, rows=4, unroll=2):
        yield


def graph(name: str) -> Graph:
    generator = torch.Generator().manual_seed(1)

    def random(n, m, e):
        sizes = torch.tensor([[m], [n]])
        return (torch.rand(2, e, generator=generator) * sizes).long(), (m, n)

    if name == "plain":
        edges, size = random(6, 6, 17)
    elif name == "bipartite":
        edges, size = random(3, 7, 11)
    elif name == "hub":  # one row of eight segments and one column of three
        edges, size = random(5, 5, 50)
        edges[1, :34], edges[0, 34:] = 2, 1
    elif name == "multi":  # repeated edges and loops
        edges, size = torch.tensor([[0, 0, 0, 1, 2, 2], [1, 1, 1, 1, 2, 2]]), (3, 3)
    elif name == "isolated":
        edges, size = torch.tensor([[4], [0]]), (5, 6)
    elif name == "edgeless":
        edges, size = torch.empty(2, 0, dtype=torch.long), (2, 3)
    else:
        edges, size = torch.empty(2, 0, dtype=torch.long), (0, 0)
    return Graph(edges.to(DEVICE), size)


GRAPHS = ["plain", "bipartite", "hub", "multi", "isolated", "edgeless", "empty"]


def inputs(op: str, g: Graph, heads: int, channels: int, **options) -> tuple[dict, dict]:
    """Differentiable inputs of an operator, by name, in float64, and its options."""
    generator = torch.Generator().manual_seed(2)
    n, m, e = g.num_dst, g.num_src, g.num_edges

    def new(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=generator).to(DEVICE)

    wide = options.pop("value_channels", channels)
    value_heads = options.pop("value_heads", heads)
    features = options.pop("features", None)
    tensors = {
        "additive_attention": {
            "query_score": (n, heads), "key_score": (m, heads), "value": (m, value_heads, channels),
        },
        "dot_product_attention": {
            "query": (n, heads, channels), "key": (m, heads, channels), "value": (m, heads, wide),
        },
        "mlp_attention": {
            "query": (n, heads, channels), "key": (m, heads, channels), "value": (m, heads, wide),
            "weight": (heads, channels),
        },
        "mlp_attention_weights": {
            "query": (n, heads, channels), "key": (m, heads, channels), "weight": (heads, channels),
        },
        "edge_softmax": {"score": (e, heads)},
        "aggregate": {"weight": (e, heads), "value": (m, value_heads, channels)},
        "edge_dot": {"query": (n, heads, channels), "key": (m, heads, channels)},
    }[op]  # fmt: skip
    tensors = {name: new(*shape) for name, shape in tensors.items()}
    if options.pop("edge_score", False):
        tensors["edge_score"] = new(e, heads)
    if options.pop("bias", False):
        tensors["bias"] = new(e, heads)
    if features is not None:
        tensors["edge_attr"] = new(e, features)
        tensors["edge_proj"] = new(heads, channels, features)
    if options.pop("shared", False):
        tensors["value"] = tensors["key"]
    return tensors, options


def run(op: str, g: Graph, tensors: dict, options: dict, dtype: torch.dtype, impl: str) -> list:
    """The output and the gradient with respect to every input."""
    unique = {id(t): t.to(dtype).detach().requires_grad_() for t in tensors.values()}
    given = {name: unique[id(t)] for name, t in tensors.items()}
    positional = [given.pop(name) for name in list(given) if name not in KEYWORDS]
    torch.manual_seed(3)
    out = getattr(gattn.functional, op)(*positional, g, **given, **options, impl=impl)
    grad = torch.linspace(-1, 1, out.numel(), dtype=torch.float64, device=out.device)
    leaves = list(unique.values())
    grads = torch.autograd.grad(out, leaves, grad.sin().view_as(out).to(dtype))
    return [out.detach(), *grads]


KEYWORDS = ("edge_score", "bias", "edge_attr", "edge_proj")


def check(op: str, g: Graph, heads: int, channels: int, dtype=torch.float64, **options) -> None:
    """Compare with the reference in float64, allowing twice the reference's own error."""
    tensors, options = inputs(op, g, heads, channels, **options)
    exact = run(op, g, tensors, options, torch.float64, "reference")
    plain = run(op, g, tensors, options, dtype, "reference")
    found = run(op, g, tensors, options, dtype, "triton")
    scale = max([x.abs().max().item() for x in exact if x.numel()], default=0.0)
    for x, p, f in zip(exact, plain, found, strict=True):
        assert f.dtype == dtype
        assert f.shape == x.shape
        if x.numel():
            error = (f.double() - x).abs().max().item()
            own = (p.double() - x).abs().max().item()
            assert error <= 2 * own + 16 * torch.finfo(dtype).eps * scale


CASES = [
    ("additive_attention", {}),
    ("additive_attention", {"edge_score": True, "dropout": 0.4}),
    ("additive_attention", {"value_heads": 2, "negative_slope": 0.0}),
    ("dot_product_attention", {}),
    ("dot_product_attention", {"bias": True, "features": 3, "dropout": 0.4}),
    ("dot_product_attention", {"value_channels": 7, "scale": 1.5}),
    ("mlp_attention", {"shared": True}),
    ("mlp_attention", {"activation": "tanh", "value_channels": 7, "dropout": 0.4}),
    ("mlp_attention", {"features": 3, "shared": True}),
    ("edge_softmax", {}),
    ("aggregate", {"value_heads": 2}),
    ("edge_dot", {}),
]
NAMES = [f"{op}-{'-'.join(options)}" for op, options in CASES]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("op", "options"), CASES, ids=NAMES)
def test_awkward_graphs(op, options, name):
    check(op, graph(name), 4, 5, **options)


@pytest.mark.parametrize(("heads", "channels"), [(1, 1), (3, 5), (2, 33)])
@pytest.mark.parametrize(("op", "options"), CASES, ids=NAMES)
def test_single_precision_and_odd_shapes(op, options, heads, channels):
    options = {k: v for k, v in options.items() if k != "value_heads"}
    check(op, graph("plain"), heads, channels, torch.float32, **options)
