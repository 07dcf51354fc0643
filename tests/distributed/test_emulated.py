"""Tests of DistributedGraph in threads of one process: layers equal those on the whole graph."""

import copy

import pytest
import torch

import gattn
from gattn import functional
from gattn.distributed import DistributedGraph, Partition
from tests.distributed.emulation import PARTITIONS, on_every_rank, parts_of, random_edges, scattered
from tests.layers import every, layers

NODES, EDGES = 37, 160
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
WHOLE_ONLY = {"RGATConv"}
"""Layers that need the whole graph: RGATConv sorts its edges by type."""


def run(layer, x, edges, **edge_features):
    """Return the output, and gradients of the input and of the parameters."""
    x = x.clone().requires_grad_()
    out = layer(x, edges, **edge_features)
    (out * out.detach().cos()).sum().backward()
    return out.detach(), x.grad, [p.grad for p in layer.parameters()]


def compare(layer, edge_index, partition, dtype, edge_width=0):
    """Compare the joined outputs and gradients of the parts with those of the whole graph."""
    torch.manual_seed(1)
    x = torch.randn(partition.num_nodes, 4, dtype=dtype)
    edge_features = {}
    if edge_width:
        edge_features["edge_attr"] = torch.randn(edge_index.shape[1], edge_width, dtype=dtype)
    layer = layer.to(dtype).eval()

    def part(graph):
        local = {name: rows[graph.edges] for name, rows in edge_features.items()}
        return graph, *run(copy.deepcopy(layer), x[graph.nodes], graph, **local)

    results = parts_of(edge_index, partition, part)
    layer.zero_grad()
    out, grad, grads = run(layer, x, edge_index, **edge_features)
    joined, joined_grad = torch.empty_like(out), torch.empty_like(grad)
    for graph, part_out, part_grad, _ in results:
        joined[graph.nodes], joined_grad[graph.nodes] = part_out, part_grad
    close = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    torch.testing.assert_close(joined, out, **close)
    torch.testing.assert_close(joined_grad, grad, **close)
    for position, whole in enumerate(grads):
        parts = [of_part[position] for *_, of_part in results]
        assert (whole is None) == all(one is None for one in parts)
        if whole is not None:
            torch.testing.assert_close(sum(one for one in parts if one is not None), whole, **close)


@pytest.mark.parametrize(
    ("size", "dtype"), [(1, torch.float32), (2, torch.float64), (4, torch.float32)]
)
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize(
    "name", ["GATConv, edges", "GATv2Conv, edges", "TransformerConv, edges and beta"]
)
def test_distributed_layer_matches_layer_on_whole_graph(name, kind, dtype, size):
    edge_index, partition = random_edges(NODES, EDGES), PARTITIONS[kind](NODES, size)
    compare(layers()[name].make(), edge_index, partition, dtype, edge_width=2)


@every(layers(conv=True))
def test_distributed_layer_equals_one_process_or_raises_error_if_it_needs_the_whole_graph(layer):
    edge_index, partition = random_edges(NODES, EDGES), scattered(NODES, 3)
    arguments = layer.called(), edge_index, partition, torch.float64, 2 * layer.edge_attr
    if layer.kind in WHOLE_ONLY:
        with pytest.raises(TypeError, match="needs the whole graph"):
            compare(*arguments)
    else:
        compare(*arguments)


@pytest.mark.parametrize("name", ["GATConv, edges", "GATv2Conv", "TransformerConv, edges"])
@pytest.mark.parametrize("fill_value", ["mean", "max", 2.0])
def test_distributed_outputs_with_a_message_hook_equal_those_of_one_process_for_each_fill_value(
    name, fill_value
):
    layer = layers()[name].make()
    layer.register_message_forward_hook(lambda *_: None)
    layer.fill_value = fill_value
    assert not layer.fused
    edge_index, partition = random_edges(NODES, EDGES), scattered(NODES, 3)
    compare(layer, edge_index, partition, torch.float64, 2 if "edges" in name else 0)


@pytest.mark.parametrize("edges", [0, 1])
def test_distributed_outputs_equal_those_of_one_process_if_some_processes_have_no_nodes(edges):
    edge_index = random_edges(3, edges)
    for name in ("GATConv", "GATv2Conv", "TransformerConv"):
        compare(layers()[name].make(), edge_index, Partition.contiguous(3, 4), torch.float64)


def test_operators_on_a_distributed_graph_equal_those_on_the_whole_graph():
    edge_index, partition = random_edges(NODES, EDGES), scattered(NODES, 3)
    q, k, v = torch.randn(3, NODES, 2, 4, dtype=torch.float64)
    score, weight = torch.randn(EDGES, 2).double(), torch.randn(2, 4).double()
    bias, of_edge = torch.randn(EDGES, 1).double(), torch.rand(EDGES).double()
    calls = {
        "dot": lambda i, e, g: functional.dot_product_attention(q[i], k[i], v[i], g),
        "gatv2": lambda i, e, g: functional.gatv2_attention(
            q[i], k[i], v[i], weight, g, attn_bias=bias[e], edge_weight=of_edge[e]
        ),
        "gat": lambda i, e, g: functional.gat_attention(
            q[i, :, 0], k[i, :, 0], v[i], g, edge_score=score[e]
        ),
        "aggregate": lambda i, e, g: functional.aggregate(score[e], v[i], g),
    }
    of_edges = {
        "edge_softmax": lambda i, e, g: functional.edge_softmax(score[e], g),
        "edge_dot": lambda i, e, g: functional.edge_dot(q[i], k[i], g),
        "dot weights": lambda i, e, g: functional.dot_product_attention_weights(q[i], k[i], g),
        "gatv2 weights": lambda i, e, g: functional.gatv2_attention_weights(q[i], k[i], weight, g),
        "gat weights": lambda i, e, g: functional.gat_attention_weights(q[i, :, 0], k[i, :, 0], g),
    }
    whole = gattn.Graph(edge_index, NODES)
    everything = slice(None), slice(None), whole
    every_call = {**calls, **of_edges}

    def part(graph):
        arguments = graph.nodes, graph.edges, graph
        return graph, {name: call(*arguments) for name, call in every_call.items()}

    parts = parts_of(edge_index, partition, part)
    assert len(parts) == 3
    for graph, outputs in parts:
        assert outputs.keys() == every_call.keys()
        for name, out in outputs.items():
            rows = graph.nodes if name in calls else graph.edges
            torch.testing.assert_close(out, every_call[name](*everything)[rows])


def test_second_derivatives_on_a_distributed_graph_equal_those_on_the_whole_graph():
    edge_index, partition = random_edges(6, 14), Partition.contiguous(6, 2)
    x = torch.randn(6, 1, 2, dtype=torch.float64)
    weight = torch.randn(14, 1, dtype=torch.float64)

    def twice(graph, rows, edges):
        """Return the gradient of the squared gradient."""
        inputs = x[rows].clone().requires_grad_()
        out = functional.aggregate(weight[edges], inputs, graph).pow(3).sum()
        (grad,) = torch.autograd.grad(out, inputs, create_graph=True)
        return torch.autograd.grad(grad.pow(2).sum(), inputs)[0]

    whole = twice(gattn.Graph(edge_index, 6), slice(None), slice(None))
    parts = parts_of(edge_index, partition, lambda g: twice(g, g.nodes, g.edges))
    torch.testing.assert_close(torch.cat(parts), whole)


def test_bytes_sent_and_received_equal_halo_rows_times_width():
    edge_index, partition = random_edges(NODES, EDGES), scattered(NODES, 3)
    widths = {
        "GATConv, plain": 3 + 1,  # The layer sends the values and one score for each head.
        "GATv2Conv": 2 * 4,  # The keys are also the values, so they are sent once.
        "TransformerConv": 2 * 2 * 4,  # The layer sends the keys and the values.
    }
    for name, width in widths.items():

        def part(graph, name=name):
            run(layers()[name].make(), torch.randn(graph.num_dst, 4), graph)
            return graph

        parts = parts_of(edge_index, partition, part)
        assert len(parts) == 3
        for rank, graph in enumerate(parts):
            read = graph.halo.num_rows - graph.num_dst
            assert read == len(set(edge_index[0, graph.edges].tolist()) - set(graph.nodes.tolist()))
            requested = sum(other.halo.recv_counts[rank] for other in parts)
            # The forward pass sends the rows that other processes read. The backward pass sends the
            # gradients of the rows that this process has read.
            assert graph.comm_stats.bytes_sent == (requested + read) * width * 4
            assert graph.comm_stats.bytes_received == (requested + read) * width * 4
            assert graph.comm_stats.exchanges == 2


def test_edge_offsets_of_graph_partitions_equal_positions_in_the_whole_graph():
    edge_index = random_edges(NODES, EDGES)
    whole = gattn.Graph(edge_index, NODES)
    for loops in (False, True):
        graph = whole.with_self_loops() if loops else whole

        def looped(part, loops=loops):
            return part.with_self_loops() if loops else part

        parts = parts_of(edge_index, Partition.contiguous(NODES, 4), looped)
        assert [part.local.edge_offset for part in parts] == [
            int(graph.layout.rowptr[part.partition.bounds[rank]]) for rank, part in enumerate(parts)
        ]
        sources = [part.halo.global_ids[part.local.layout.col.long()] for part in parts]
        assert torch.equal(torch.cat(sources), graph.layout.col.long())


def fail(message, work, size=2, error=ValueError):
    with pytest.raises(error, match=message):
        on_every_rank(size, work)


def test_invalid_edges_partition_or_rows_of_a_distributed_graph_raise_error():
    edges, partition = torch.tensor([[0, 1, 5], [1, 2, 0]]), Partition.contiguous(3, 2)
    build, build_local = DistributedGraph.from_edges, DistributedGraph.from_local_edges
    fail("source indices .* got 5 at edge 2", lambda p: build(edges, partition, group=p))
    flipped = edges.flip(0)
    fail("destination indices .* got 5", lambda p: build(flipped, partition, group=p))
    fail("must have 2 parts.* got 3", lambda p: build(
        edges[:, :2], Partition.contiguous(3, 3), group=p
    ))  # fmt: skip
    fail("process . must get only edges into its nodes; got edge", lambda p: build_local(
        edges[:, :2], partition, group=p
    ))  # fmt: skip
    fail("whole graph.*graph.local", lambda p: build(edges[:, :2], partition, group=p).edge_index,
         error=TypeError)  # fmt: skip
    conv = layers()["GATConv"].make()
    fail("x must have as many rows as the edges have nodes, . sources", lambda p: conv(
        torch.randn(3, 4), build(edges[:, :2], partition, group=p)
    ))  # fmt: skip
    fail(r"must have shape \(., \.\.\.\)", lambda p: build(
        edges[:, :2], partition, group=p
    ).fetch_source_rows(torch.randn(7, 2)))  # fmt: skip
    with pytest.raises(TypeError, match="from_edges or from_local_edges"):
        DistributedGraph()
    with pytest.raises(RuntimeError, match="init_processes"):
        build(edges, partition)


def test_all_processes_raise_error_if_their_edges_or_partitions_differ():
    edge_index = random_edges(NODES, EDGES)
    mine, other = Partition.contiguous(NODES, 2), Partition((0, 3, NODES))

    def error(peers, edges, partition):
        with pytest.raises(ValueError, match="must get the same") as caught:
            DistributedGraph.from_edges(edges, partition, group=peers)
        return str(caught.value)

    of_partition = on_every_rank(2, lambda p: error(p, edge_index, (mine, other)[p.rank]))
    of_edges = on_every_rank(2, lambda p: error(p, edge_index[:, p.rank :], mine))
    assert of_partition[0] == of_partition[1]
    assert "same partition; process 1 has a different partition than process 0" in of_partition[0]
    assert of_edges[0] == of_edges[1]
    assert "number of edges" in of_edges[0]
