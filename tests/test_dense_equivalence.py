"""Attention on a graph equals torch's dense attention with the graph as its mask."""

import pytest
import torch
import torch.nn.functional as F

from gattn import Graph, functional, graphs
from gattn.nn import GraphAttention

GRAPHS = {
    "complete": lambda: graphs.complete([5, 1, 17, 3]),
    "complete, of one size": lambda: graphs.complete([6, 6, 6]),
    "causal": lambda: graphs.causal([4, 1, 19, 2]),
    "band": lambda: graphs.band([13, 2, 5], 2),
    "band, one-sided": lambda: graphs.band([13, 2, 5], 3, one_sided=True),
    "grid, 1-D": lambda: graphs.grid((9,), 2, batch=2),
    "grid, 2-D": lambda: graphs.grid((4, 5), 1, batch=2),
    "grid, 3-D": lambda: graphs.grid((2, 3, 4), graphs.window_offsets((0, 1, 1)), batch=2),
    "bipartite": lambda: graphs.bipartite([3, 1, 6], [2, 9, 4]),
    "readout": lambda: graphs.pooling_graph(torch.tensor([0, 0, 2, 1, 2, 2, 0]), 3, 3),
    "window and global tokens": lambda: graphs.band([12], 1) | graphs.grid((12,), [(0,), (5,)]),
    "nearest in space": lambda: graphs.knn(torch.linspace(0, 1, 15)[:, None] ** 2, 4),
    "virtual node": lambda: graphs.virtual_node(graphs.band([6], 1)),
}
EVERY_GRAPH = pytest.mark.parametrize("name", GRAPHS)


def dense_mask(graph: Graph) -> torch.Tensor:
    """Return the mask [n, m], True for an edge j -> i; the graphs have no multi-edges."""
    source, destination = graph.edge_index
    mask = torch.zeros(graph.num_dst, graph.num_src, dtype=torch.bool)
    mask[destination, source] = True
    assert int(mask.sum()) == graph.num_edges
    return mask


def inputs(graph: Graph, dtype: torch.dtype, heads: int = 3, channels: int = 8):
    generator = torch.Generator().manual_seed(0)

    def draw(rows):
        return torch.randn(rows, heads, channels, generator=generator, dtype=torch.float64).to(
            dtype
        )

    return draw(graph.num_dst), draw(graph.num_src), draw(graph.num_src)


def dense(query, key, value, mask, scale=None):
    """Compute torch's attention over all pairs of nodes; the first dimension contains the heads."""
    q, k, v = (t.transpose(0, 1)[None] for t in (query, key, value))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)[0].transpose(0, 1)


def with_gradients(function, tensors, grad):
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("backend", [None, "reference"])
@EVERY_GRAPH
def test_outputs_and_gradients_equal_dense_attention(name, backend, dtype, tolerance):
    graph = GRAPHS[name]()
    tensors = inputs(graph, dtype)
    mask = dense_mask(graph)
    grad = torch.randn_like(tensors[0])
    got = with_gradients(
        lambda q, k, v: functional.dot_product_attention(q, k, v, graph, backend=backend),
        tensors,
        grad,
    )
    expected = with_gradients(lambda q, k, v: dense(q, k, v, mask), tensors, grad)
    for what, a, b in zip(("out", "query", "key", "value"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=f"{name}: {what}")


@EVERY_GRAPH
def test_bias_equals_a_mask_of_numbers(name):
    graph = GRAPHS[name]()
    *tensors, bias = *inputs(graph, torch.float64), torch.randn(graph.num_edges, 3).double()
    grad = torch.randn_like(tensors[0])
    source, destination = graph.edge_index

    def masked(q, k, v, bias):
        mask = torch.full((graph.num_dst, graph.num_src, 3), -torch.inf, dtype=torch.float64)
        mask = mask.index_put((destination, source), bias)
        return dense(q, k, v, mask.permute(2, 0, 1), scale=0.3)

    got = with_gradients(
        lambda q, k, v, b: functional.dot_product_attention(q, k, v, graph, attn_bias=b, scale=0.3),
        [*tensors, bias],
        grad,
    )
    expected = with_gradients(masked, [*tensors, bias], grad)
    for what, a, b in zip(("out", "query", "key", "value", "bias"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=f"{name}: {what}")


@pytest.mark.bits
@pytest.mark.parametrize("build", [graphs.complete, graphs.causal, lambda s: graphs.band(s, 2)])
def test_batch_equals_its_members_alone(build):
    """For each graph of a batch with different sizes, the result has the same bits as for the graph
    alone.
    """
    sizes = [5, 0, 1, 9]
    query, key, value = inputs(build(sizes), torch.float32)
    together = functional.dot_product_attention(query, key, value, build(sizes))
    alone = [
        functional.dot_product_attention(q, k, v, build([len(q)]))
        for q, k, v in zip(query.split(sizes), key.split(sizes), value.split(sizes))
    ]
    assert torch.equal(together, torch.cat(alone))


def formula(name, attention, x, y, mask):
    """Compute O = softmax(f(W_q x, W_k y)) W_v y, [n, out], with f over all pairs."""
    h, c = attention.heads, attention.channels
    q = attention.lin_query(x).view(-1, 1, h, c)
    k = attention.lin_key(y).view(1, -1, h, c)
    v = attention.lin_value(y).view(-1, h, c)
    if name in ("dot", "embedded_gaussian"):
        score = (q * k).sum(-1)
    elif name == "scaled_dot":
        score = (q * k).sum(-1) / c**0.5
    elif name == "additive":
        score = (attention.weight * torch.tanh(q + k)).sum(-1)
    else:
        norms = q.norm(dim=-1) * k.norm(dim=-1)
        score = attention.beta * (q * k).sum(-1) / norms
    if name == "embedded_gaussian":
        # exp(q . k) divided by its sum, without subtracting the maximum.
        kernel = score.exp() * mask[..., None]
        alpha = kernel / kernel.sum(1, keepdim=True)
    else:
        alpha = score.masked_fill(~mask[..., None], -torch.inf).softmax(1)
    return attention.lin_out(torch.einsum("ijh,jhc->ihc", alpha, v).flatten(1))


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "embedded_gaussian", "additive", "cosine"])
@pytest.mark.parametrize(
    "name", ["complete", "causal", "band", "grid, 3-D", "bipartite", "window and global tokens"]
)
def test_every_score_equals_its_formula(name, score):
    torch.manual_seed(0)
    graph = GRAPHS[name]()
    attention = GraphAttention(6, 8, heads=2, key_channels=5, score=score).double()
    if attention.beta is not None:
        torch.nn.init.uniform_(attention.beta, 0.5, 2.0)
    x = torch.randn(graph.num_dst, 6, dtype=torch.float64)
    y = torch.randn(graph.num_src, 5, dtype=torch.float64)
    grad = torch.randn(graph.num_dst, 8, dtype=torch.float64)
    got = with_gradients(lambda x, y: attention(x, y, y, graph), [x, y], grad)
    expected = with_gradients(
        lambda x, y: formula(score, attention, x, y, dense_mask(graph)), [x, y], grad
    )
    for what, a, b in zip(("out", "query", "memory"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=f"{name}, {score}: {what}")
