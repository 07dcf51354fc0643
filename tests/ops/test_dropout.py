"""Dropout of attention weights and of numbers: Philox with the key (seed, position, head)."""

import pytest
import torch

from gattn import Graph
from gattn.kernels import philox
from gattn.ops.dropout import dropout as drop_numbers
from gattn.ops.registration import checks
from gattn.ops.registration.backend import why_not
from tests.families import ATTENTION, FAMILIES


def _seed():
    """Return the key that the next operator will draw."""
    with torch.random.fork_rng(devices=[]):
        return checks.new_seed(0.5, torch.device("cpu"))


def _weights(attention, inputs, graph, **options):
    """Return the weights [e, h] of an attention: its output for one-hot values.

    The graph must not have repeated edges.
    """
    heads = next(t for k, t in inputs.items() if k in ("query", "query_score")).shape[1]
    value = torch.eye(graph.num_src, dtype=torch.float64)[:, None].expand(-1, heads, -1)
    tensors = {**inputs, "value": value}
    out = attention.but(shared={})(tensors, graph, **options)  # [n, h, m]
    source, destination = graph.edge_index
    return out[destination, :, source]


@pytest.fixture
def graph_():
    """Graph without repeated edges, with edges in random order and a row of three segments."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.cartesian_prod(torch.arange(60), torch.arange(30))
    return Graph(pairs[torch.randperm(1800, generator=generator)[:900]].t(), (60, 30))


IN_VALUE = {
    name
    for name, attention in ATTENTION.items()
    if FAMILIES[attention.family].edges_in_value and "edge_attr" in attention.shapes
}


@pytest.mark.parametrize("name", [name for name in ATTENTION if name not in IN_VALUE])
@pytest.mark.parametrize(("dropout", "heads"), [(0.1, 8), (0.5, 3), (0.9, 1)])
def test_dropout_mask_equals_that_of_the_philox_generator(name, dropout, heads, operators, graph_):
    inputs = operators[name].inputs(graph_, heads, 4, grad=False)
    plain = _weights(operators[name], inputs, graph_)
    torch.manual_seed(11)
    keep = philox.keep(_seed(), graph_.num_edges, heads, dropout)
    dropped = _weights(operators[name], inputs, graph_, dropout=dropout)
    ours = torch.empty_like(keep)
    ours[graph_.layout.perm.long()] = keep
    torch.testing.assert_close(dropped, plain * ours / (1 - dropout))


@pytest.mark.parametrize("dropout", [0.3, 1.0])
def test_attention_gradients_with_dropout_equal_the_reference(
    attention, precision, dropout, compare, hub_graph, random_graph
):
    """The backward pass drops the same edges as the forward pass."""
    graph = random_graph if precision.itemsize == 2 else hub_graph

    def seeded(**arguments):
        torch.manual_seed(3)
        return attention.function(**arguments)

    compare(attention.but(function=seeded), graph, 3, 8, precision, dropout=dropout)


def test_derivatives_of_attention_with_dropout_pass_gradcheck(attention):
    graph = Graph(torch.tensor([[0, 1, 2, 2, 0, 0, 1], [2, 2, 0, 1, 1, 2, 0]]), 3)
    inputs = attention.inputs(graph, 2, 2, d=2, w=1)

    def function(*tensors):
        torch.manual_seed(0)
        return attention(dict(zip(inputs, tensors)), graph, dropout=0.4)

    assert torch.autograd.gradcheck(function, tuple(inputs.values()), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tuple(inputs.values()), fast_mode=True)


def test_dropout_of_zero_has_no_effect_and_dropout_of_one_gives_zeros(attention, random_graph):
    inputs = attention.inputs(random_graph)
    state = torch.get_rng_state()
    plain = attention(inputs, random_graph)
    assert torch.equal(attention(inputs, random_graph, dropout=0.0), plain)
    assert torch.equal(torch.get_rng_state(), state)
    zeros = attention.gradients(inputs, random_graph, dropout=1.0)
    assert all(t.eq(0).all() for t in zeros.values())


def test_equal_torch_seeds_give_equal_dropout_masks(attention, random_graph):
    inputs = attention.inputs(random_graph)

    def draw(seed):
        torch.manual_seed(seed)
        return [attention(inputs, random_graph, dropout=0.5) for _ in range(2)]

    first, second = draw(0)
    assert not torch.equal(first, second)
    assert all(map(torch.equal, draw(0), (first, second)))
    assert not torch.equal(draw(1)[0], first)


def test_dropout_mask_does_not_depend_on_the_order_of_edges(attention, graph_):
    order = torch.randperm(graph_.num_edges, generator=torch.Generator().manual_seed(1))
    shuffled = Graph(graph_.edge_index[:, order], graph_.size)
    inputs = attention.inputs(graph_, grad=False)
    moved = {k: t[order] if attention.shapes[k][0] == "e" else t for k, t in inputs.items()}
    outputs = []
    for tensors, graph in ((inputs, graph_), (moved, shuffled)):
        torch.manual_seed(0)
        outputs.append(attention(tensors, graph, dropout=0.5))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_attention_has_the_same_dropout_mask_on_a_subgraph_as_on_the_whole_graph(
    attention, random_graph, backend
):
    """A part of a graph, which contains the edges into a range of destinations, has the same
    dropout masks as the whole graph, in the forward and the backward pass.
    """
    inputs = attention.inputs(random_graph)
    torch.manual_seed(0)
    whole = attention(inputs, random_graph, dropout=0.5, backend=backend)
    source, destination = random_graph.edge_index
    half = random_graph.num_dst // 2
    grads = {name: torch.zeros_like(t) for name, t in inputs.items()}
    for first, last in ((0, half), (half, random_graph.num_dst)):
        mask = (destination >= first) & (destination < last)
        pairs = torch.stack([source[mask], destination[mask] - first])
        layout = Graph(pairs, (random_graph.num_src, last - first)).layout
        edge_offset = int(random_graph.layout.rowptr[first])
        part = Graph.from_layout(layout, edge_offset=edge_offset)
        rows = {"n": slice(first, last), "e": mask}
        of_part = {
            name: t[rows.get(attention.shapes[name][0], slice(None))] for name, t in inputs.items()
        }
        torch.manual_seed(0)
        out = attention(of_part, part, dropout=0.5, backend=backend)
        torch.testing.assert_close(out, whole[first:last])
        part_grads = torch.autograd.grad(out.sum(), list(inputs.values()))
        for grad, (name, _) in zip(part_grads, inputs.items()):
            grads[name] += grad
    part_grads = torch.autograd.grad(whole.sum(), list(inputs.values()))
    for grad, (name, total) in zip(part_grads, grads.items(), strict=True):
        torch.testing.assert_close(grad, total, msg=name)


# Tests of dropout of the elements of a tensor, for example of features.

of_numbers = pytest.mark.skipif(bool(why_not("cpu", "cpu")), reason="the C++ kernels are not built")


@of_numbers
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("p", [0.5, 1.0])
@pytest.mark.parametrize("shape", [(2500,), (50, 51), (0,), ()])
def test_elementwise_dropout_equals_multiplication_by_the_philox_mask(dtype, p, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
    torch.manual_seed(3)
    out = drop_numbers(x, p)
    out.sum().backward()
    torch.manual_seed(3)
    seed = checks.new_seed(p, x.device)
    mask = philox.keep_numbers(seed, x.numel(), p).view(shape) & (p < 1)
    scale = mask.double() / (1 - p if p < 1 else 1)
    assert torch.equal(out, (x.double() * scale).to(dtype))
    assert torch.equal(x.grad, scale.to(dtype))


@of_numbers
@pytest.mark.parametrize("first", [1, 700, 1024, 5000])
@pytest.mark.parametrize("count", [1, 300, 2500])
def test_elementwise_dropout_with_an_offset_drops_the_same_elements_as_for_the_whole_tensor(
    first, count
):
    x = torch.rand(first + count) + 1
    overload = torch.ops.gattn.dropout.default
    whole = overload(x, torch.tensor([7, 0]), 0.5, "cpu")
    assert torch.equal(overload(x[first:], torch.tensor([7, first]), 0.5, "cpu"), whole[first:])
    mask = philox.keep_numbers(torch.tensor([7, first]), count, 0.5)
    assert torch.equal(whole[first:] != 0, mask)


@of_numbers
def test_derivatives_of_elementwise_dropout_pass_gradcheck():
    x = torch.randn(60, dtype=torch.float64, requires_grad=True)

    def drop(x):
        torch.manual_seed(0)
        return drop_numbers(x * x, 0.4)

    assert torch.autograd.gradcheck(drop, x)
    assert torch.autograd.gradgradcheck(drop, x)


@of_numbers
def test_elementwise_dropout_of_a_transposed_tensor_does_not_depend_on_threads():
    x = torch.randn(600, 700)
    threads, outs = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(0)
            outs.append(drop_numbers(x.t(), 0.5))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*outs)
    mask = outs[0] != 0
    assert torch.equal(outs[0][mask], 2 * x.t()[mask])
    assert abs(mask.double().mean().item() - 0.5) < 0.005


@of_numbers
def test_elementwise_dropout_under_vmap_has_a_different_mask_for_each_row():
    x = torch.ones(4, 100)
    out = torch.vmap(lambda row: drop_numbers(row, 0.5), randomness="different")(x)
    assert set(out.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(out[0], out[1])
