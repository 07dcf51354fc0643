"""Attention on a graph equals torch's dense attention with the graph as its mask."""

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.transforms import VirtualNode

from gattn import Graph, functional, graphs


def with_virtual_node(graph: Graph) -> Graph:
    data = VirtualNode()(Data(edge_index=graph.edge_index, num_nodes=graph.num_src))
    return Graph(data.edge_index, data.num_nodes)


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
    "virtual node": lambda: with_virtual_node(graphs.band([6], 1)),
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
def test_attention_on_edges_equals_dense_attention_with_a_mask(name, backend, dtype, tolerance):
    graph = GRAPHS[name]()
    tensors = inputs(graph, dtype)
    mask = dense_mask(graph)
    grad = torch.randn_like(tensors[0])
    attend = functional.dot_product_attention
    got = with_gradients(lambda *args: attend(*args, graph, backend=backend), tensors, grad)
    expected = with_gradients(lambda q, k, v: dense(q, k, v, mask), tensors, grad)
    for what, a, b in zip(("out", "query", "key", "value"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=f"{name}: {what}")


@EVERY_GRAPH
def test_attention_with_a_bias_equals_dense_attention_with_a_float_mask(name):
    graph = GRAPHS[name]()
    *tensors, bias = *inputs(graph, torch.float64), torch.randn(graph.num_edges, 3).double()
    grad = torch.randn_like(tensors[0])
    source, destination = graph.edge_index

    def masked(q, k, v, bias):
        mask = torch.full((graph.num_dst, graph.num_src, 3), -torch.inf, dtype=torch.float64)
        mask = mask.index_put((destination, source), bias)
        return dense(q, k, v, mask.permute(2, 0, 1), scale=0.3)

    def attend(*qkv_and_bias):
        *qkv, bias = qkv_and_bias
        return functional.dot_product_attention(*qkv, graph, attn_bias=bias, scale=0.3)

    got = with_gradients(attend, [*tensors, bias], grad)
    expected = with_gradients(masked, [*tensors, bias], grad)
    for what, a, b in zip(("out", "query", "key", "value", "bias"), got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12, msg=f"{name}: {what}")
