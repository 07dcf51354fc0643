"""Results have equal bits for all runs, thread counts, batches and orders of the edges."""

import pytest
import torch

from gattn import Graph


@pytest.fixture(scope="module")
def large():
    """Graph that is large enough for several threads, with rows of several segments and without
    repeated edges.
    """
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, 5000, (2, 12_000), generator=generator)
    everyone = torch.arange(5000)
    into = torch.stack([everyone, torch.zeros_like(everyone)])
    pairs = torch.cat([pairs, into, into.flip(0)], 1).unique(dim=1)
    return Graph(pairs[:, torch.randperm(pairs.shape[1], generator=generator)], 5000)


@pytest.fixture
def restore_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def _same(actual, expected):
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


@pytest.mark.bits
def test_operators_give_the_same_bits_with_1_2_or_3_threads(operator, large, restore_threads):
    inputs = operator.inputs(large, 3, 8, dtype=torch.float32)
    torch.set_num_threads(1)
    expected = operator.gradients(inputs, large)
    for threads in (1, 2, 2, 3):
        torch.set_num_threads(threads)
        _same(operator.gradients(inputs, large), expected)


@pytest.mark.bits
def test_operators_give_the_same_bits_for_shuffled_edges(operator, large):
    order = torch.randperm(large.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = Graph(large.edge_index[:, order], large.size)
    inputs = operator.inputs(large, 3, 8, dtype=torch.float32)
    moved = {
        name: t.detach()[order].requires_grad_() if operator.shapes[name][0] == "e" else t
        for name, t in inputs.items()
    }
    out = operator(inputs, large)
    per_edge = len(out) == large.num_edges
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    expected = operator.gradients(inputs, large, grad)
    actual = operator.gradients(moved, shuffled, grad[order] if per_edge else grad)
    for name, value in expected.items():
        edges = per_edge if name == "out" else operator.shapes[name][0] == "e"
        assert torch.equal(actual[name], value[order] if edges else value), name


@pytest.mark.bits
def test_operators_give_the_same_bits_for_a_graph_alone_and_in_a_batch(operator):
    """The results of a graph do not depend on the other graphs of its batch.

    Gradients of tensors that all graphs share are sums over all graphs, and are not compared.
    """
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for nodes, edges in ((300, 150_000), (40, 90), (1, 0), (7, 9000), (50, 3000)):
        graphs.append(Graph(torch.randint(0, nodes, (2, edges), generator=generator), nodes))
    shift = torch.tensor([0, *(g.num_dst for g in graphs)]).cumsum(0)
    pairs = torch.cat([g.edge_index + s for g, s in zip(graphs, shift)], 1)
    batch = Graph(pairs, int(shift[-1]))
    inputs = operator.inputs(batch, 2, 4, dtype=torch.float32, d=2)
    grad = torch.randn(operator(inputs, batch).shape, generator=generator)
    together = operator.gradients(inputs, batch, grad)
    shapes = operator.shapes | {"out": "e" if len(grad) == batch.num_edges else "n"}
    edge_offset = 0
    for number, graph in enumerate(graphs):
        edges = slice(edge_offset, edge_offset + graph.num_edges)
        rows = {"n": slice(*map(int, shift[number : number + 2])), "e": edges, "h": slice(None)}
        rows["m"] = rows["n"]
        edge_offset += graph.num_edges
        part = {
            name: t.detach()[rows[shapes[name][0]]].requires_grad_() for name, t in inputs.items()
        }
        alone = operator.gradients(part, graph, grad[rows[shapes["out"]]])
        for name, value in alone.items():
            if shapes[name][0] != "h":
                assert torch.equal(value, together[name][rows[shapes[name][0]]]), (number, name)
