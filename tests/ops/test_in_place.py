"""The caller may write to the output of an attention, because backward does not read it."""

import pytest
import torch
import torch_geometric.nn as pyg

from gattn import Graph, convert, functional
from tests.families import FAMILIES

EDGES = torch.randint(0, 20, (2, 90), generator=torch.Generator().manual_seed(0))
GRAPH = Graph(EDGES, 20)


def _rows(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(20, *shape, generator=generator).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("name", FAMILIES)
def test_attention_modified_in_place_gives_the_same_bits_as_out_of_place_operations(
    name, dropout, dtype
):
    operator, results = FAMILIES[name].variants[""], []
    for write in (False, True):
        inputs = operator.inputs(GRAPH, dtype=dtype)
        torch.manual_seed(0)
        out = operator(inputs, GRAPH, dropout=dropout).flatten(1)
        out = out.mul_(3).relu_() if write else out.mul(3).relu()
        results.append([out, *torch.autograd.grad(out.square().sum(), [*inputs.values()])])
    for expected, actual in zip(*results, strict=True):
        assert torch.equal(actual, expected)


def test_edge_softmax_modified_in_place_gives_the_same_gradients_as_out_of_place():
    score = torch.randn(90, 2, requires_grad=True)
    (expected,) = torch.autograd.grad(functional.edge_softmax(score, GRAPH).sin().sum(), score)
    (got,) = torch.autograd.grad(functional.edge_softmax(score, GRAPH).sin_().sum(), score)
    torch.testing.assert_close(got, expected)


def test_attention_input_modified_in_place_before_backward_raises_error():
    value = _rows(2, 4)
    query = value * 2
    out = functional.dot_product_attention(query, value, value, GRAPH)
    query.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_second_backward_pass_of_attention_gives_the_same_bits_as_the_first():
    value = _rows(2, 4)
    out = functional.dot_product_attention(value, value, value, GRAPH).tanh_()
    first, second = (torch.autograd.grad(out.sum(), value, retain_graph=True) for _ in range(2))
    assert torch.equal(first[0], second[0])


@pytest.mark.parametrize(
    "make",
    [
        pyg.AGNNConv,
        lambda: pyg.GATConv(8, 4, 2, bias=False),
        lambda: pyg.GATv2Conv(8, 4, 2, bias=False),
        lambda: pyg.TransformerConv(8, 4, 2, root_weight=False),
        lambda: pyg.SuperGATConv(8, 4, 2, bias=False),
    ],
    ids=["AGNNConv", "GATConv", "GATv2Conv", "TransformerConv", "SuperGATConv"],
)
def test_in_place_activation_after_a_layer_gives_the_same_gradients_as_in_pyg(make):
    theirs, x, act = make().eval(), _rows(8), torch.nn.ReLU(inplace=True)
    expected = torch.autograd.grad(act(theirs(x, EDGES)).square().sum(), x)
    ours = convert(theirs)
    assert type(ours).__module__.startswith("gattn.")
    got = torch.autograd.grad(act(ours(x, EDGES)).square().sum(), x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_apply_edges_output_modified_in_place_gives_the_same_gradients_as_out_of_place():
    """The result shares no memory with recorded tensors or parameters."""
    results = []
    for write in (False, True):
        x = _rows(2, 3)
        out = functional.apply_edges(lambda q, k, e: (q * k).sum(-1).sigmoid(), x, x, GRAPH)
        out = out.mul_(3) if write else out.mul(3)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x])])
    for expected, actual in zip(*results, strict=True):
        assert torch.equal(expected, actual)

    class Constant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.score = torch.nn.Parameter(torch.ones(2))

        def forward(self, query, key, edge_attr):
            return self.score.expand(len(query), 2)

    constant = Constant()
    functional.apply_edges(constant, _rows(2), _rows(2), GRAPH).mul_(5)
    assert torch.equal(constant.score, torch.ones(2))
