"""Large complete and causal graphs use dense attention, with the same results."""

import weakref

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import gattn
from gattn import graphs
from gattn.functional import dot_product_attention
from gattn.ops.attention import sdpa

BLOCKS = {
    "complete, one size": lambda: graphs.complete([64, 64, 64]),
    "complete, many sizes": lambda: graphs.complete([40, 64, 40, 100]),
    "complete, large and small": lambda: graphs.complete([3, 70, 0, 1, 5, 40, 70, 2]),
    "causal, one size": lambda: graphs.causal([80, 80]),
    "causal, large and small": lambda: graphs.causal([80, 7, 0, 64, 90, 1]),
    "bipartite": lambda: graphs.bipartite([70, 2, 40, 0, 3], [30, 9, 100, 4, 0]),
}
EVERY = pytest.mark.parametrize("name", BLOCKS)


@pytest.fixture
def calls(monkeypatch):
    """List of the shapes with which torch's attention is called."""
    seen = []
    attention = sdpa._call

    def counted(query, *args):
        seen.append(tuple(query.shape))
        return attention(query, *args)

    monkeypatch.setattr(sdpa, "_call", counted)
    monkeypatch.delenv("GATTN_BACKEND", raising=False)
    return seen


def inputs(graph, dtype=torch.float64, heads=2, channels=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    rows = graph.num_dst, graph.num_src, graph.num_src
    drawn = [torch.randn(n, heads, channels, generator=generator) for n in rows]
    return [t.to(dtype).requires_grad_() for t in drawn]


@EVERY
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
def test_dense_attention_equals_attention_on_edges(name, dtype, tolerance, calls):
    graph = BLOCKS[name]()
    tensors = inputs(graph, dtype)
    grad = torch.randn(tensors[0].shape).to(dtype)
    results = []
    for backend in (None, "reference"):
        out = dot_product_attention(*tensors, graph, scale=0.4, backend=backend)
        assert out.dtype == dtype
        assert out.is_contiguous()
        results.append([out, *torch.autograd.grad(out, tensors, grad)])
    assert calls
    for label, a, b in zip(("out", "query", "key", "value"), *results, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=f"{name}: {label}")


def test_causal_dense_attention_equals_its_formula_and_builds_no_layout(calls):
    graph = graphs.causal([12_000])
    query, key, value = (t.detach() for t in inputs(graph, torch.float32, heads=1))
    out = dot_product_attention(query, key, value, graph)
    assert "_layout" not in graph.__dict__
    torch.testing.assert_close(out[0], value[0])
    last = (key[:, 0] @ query[-1, 0] / 2).softmax(0) @ value[:, 0]
    torch.testing.assert_close(out[-1, 0], last, rtol=1e-4, atol=1e-4)


@pytest.mark.bits
@pytest.mark.parametrize("build", [graphs.complete, graphs.causal])
def test_dense_attention_gives_the_same_bits_for_a_graph_alone_and_in_a_batch(build, calls):
    sizes = [70, 3, 80, 70, 90, 1, 64]
    graph = build(sizes)
    tensors = inputs(graph, torch.float32)
    together = dot_product_attention(*tensors, graph).split(sizes)
    for number, size in enumerate(sizes):
        parts = [t.split(sizes)[number] for t in tensors]
        assert torch.equal(dot_product_attention(*parts, build([size])), together[number]), size


def test_calls_with_unsupported_options_of_dense_attention_use_edge_kernels(calls, monkeypatch):
    graph = graphs.complete([64])
    query, key, value = inputs(graph)
    bias = torch.zeros(graph.num_edges, 2, dtype=torch.float64)
    dot_product_attention(query, key, value, graph, attn_bias=bias)
    dot_product_attention(query, key, value, graph, dropout=0.5)
    dot_product_attention(query, key, value[..., :2].contiguous(), graph)
    attr, proj = torch.randn(graph.num_edges, 3).double(), torch.randn(2, 4, 3).double()
    dot_product_attention(query, key, value, graph, edge_attr=attr, edge_proj=proj)
    dot_product_attention(query, key, value, graph.transpose())
    dot_product_attention(query, key, value, graph.with_self_loops())
    dot_product_attention(query, key, value, gattn.Graph(graph.edge_index, 64))
    assert not calls
    dot_product_attention(query, key, value, graph)
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["complete, large and small", "causal, large and small"])
def test_derivatives_of_dense_attention_pass_gradcheck(name, calls, monkeypatch):
    monkeypatch.setitem(sdpa.FEWEST_PAIRS, "complete", 16)
    monkeypatch.setitem(sdpa.FEWEST_PAIRS, "causal", 16)
    monkeypatch.setattr(sdpa.cut, "__defaults__", (sdpa.FEWEST_PAIRS, 3))
    sizes = [5, 2, 0, 5, 4]
    graph = graphs.causal(sizes) if "causal" in name else graphs.complete(sizes)
    tensors = inputs(graph, heads=1, channels=2)
    assert torch.autograd.gradcheck(lambda *t: dot_product_attention(*t, graph), tensors)
    assert torch.autograd.gradgradcheck(lambda *t: dot_product_attention(*t, graph), tensors)
    assert (2, 5, 1, 2) in calls


def test_gradients_of_dense_attention_have_the_same_bits_in_two_backward_passes(calls):
    graph = graphs.complete([40, 40])
    query, key, value = inputs(graph)
    out = dot_product_attention(query, key.detach(), value, graph)
    grad = torch.ones_like(out)
    first = torch.autograd.grad(out, [query, value], grad, retain_graph=True)
    again = torch.autograd.grad(out, [query, value], grad)
    assert all(torch.equal(a, b) for a, b in zip(first, again))
    same = inputs(graph)[0]
    dot_product_attention(same, same, same, graph).sum().backward()
    assert same.grad is not None


def test_nan_in_dense_attention_reaches_only_outputs_of_its_graph(calls):
    graph = graphs.complete([40, 64])
    query, key, value = (t.detach() for t in inputs(graph))
    value[0] = torch.nan
    with torch.inference_mode():
        out = dot_product_attention(query, key, value, graph)
    assert out[:40].isnan().all()
    assert out[40:].isfinite().all()


@pytest.mark.parametrize("name", ["complete, one size", "causal, one size", "complete, many sizes"])
def test_dense_attention_compiles_without_a_graph_break(name):
    graph = BLOCKS[name]()
    tensors = inputs(graph, torch.float32)
    compiled = torch.compile(
        lambda q, k, v: dot_product_attention(q, k, v, graph), fullgraph=True, backend="aot_eager"
    )
    out = compiled(*tensors)
    torch.testing.assert_close(out, dot_product_attention(*tensors, graph), rtol=1e-5, atol=1e-5)
    grads = torch.autograd.grad(out.sum(), tensors)
    expected = torch.autograd.grad(dot_product_attention(*tensors, graph).sum(), tensors)
    for a, b in zip(grads, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_dense_attention_has_equal_derivatives_under_torch_func_and_autograd():
    q, graph = torch.randn(64, 2, 8, requires_grad=True), graphs.complete([64])

    def loss(q):
        return dot_product_attention(q, q, q, graph).square().sum()

    (expected,) = torch.autograd.grad(loss(q), q)
    torch.testing.assert_close(torch.func.grad(loss)(q), expected)
    tangent = torch.func.jvp(loss, (q,), (q,))[1]
    torch.testing.assert_close(tangent, (expected * q).sum(), rtol=1e-4, atol=1e-4)
    q = q.detach()
    both = torch.vmap(lambda q: dot_product_attention(q, q, q, graph))(torch.stack([q, -q]))
    torch.testing.assert_close(both[0], dot_product_attention(q, q, q, graph))


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], ids=str)
def test_checkpointed_dense_attention_stores_no_activation(backend, calls):
    """After the forward pass, only the input of each step is in memory, and after the backward pass
    no saved tensor is.
    """
    graph = graphs.causal([80, 80])
    query, key, value = inputs(graph)
    alive = weakref.WeakSet()

    def step(x):
        scaled = [key * x.mean(), value * x.mean()]
        alive.update(t.untyped_storage() for t in scaled)
        return dot_product_attention(x, *scaled, graph)

    def gradients(run):
        with sdpa_kernel(backend):
            out = run(run(query))
            count = len(alive)
            grads = torch.autograd.grad(out.square().sum(), [query, key, value])
        assert not alive, f"{len(alive)} tensors of the forward outlive backward"
        return count, grads

    count, expected = gradients(step)
    assert count == 4
    count, grads = gradients(lambda x: checkpoint(step, x, use_reentrant=False))
    assert count == 0
    assert all(torch.equal(a, b) for a, b in zip(grads, expected))


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], ids=str)
@pytest.mark.parametrize("name", ["complete, one size", "complete, many sizes"])
def test_in_place_relu_of_dense_attention_gives_the_same_gradients_as_out_of_place_relu(
    name, backend, calls
):
    graph = BLOCKS[name]()
    tensors = inputs(graph)
    with sdpa_kernel(backend):
        grads = [
            torch.autograd.grad(act(dot_product_attention(*tensors, graph)).sum(), tensors)
            for act in (torch.relu, torch.relu_)
        ]
    assert all(torch.equal(a, b) for a, b in zip(*grads))
