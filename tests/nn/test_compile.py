"""Every layer compiles as one graph under torch.compile, and can be exported."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from gattn import Graph
from gattn.nn import FAConv, GATConv, GATv2Conv, GPSConv, GraphAttention
from tests.layers import BY_NAME

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 3, 4, 5, 2]])
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])


def _features():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 8, generator=generator), torch.randn(6, 3, generator=generator)


DAILY = ("GATConv, edges", "HypergraphConv")
DIFFERENTIATED = (
    *DAILY,
    *("FAConv", "GATConv, sets", "GATEConv", "GATv2Conv, edges", "HEATConv", "RGATConv"),
    *("HGTConv, two types", "SuperGATConv", "TransformerConv, edges and beta"),
)
"""Layers whose graphs are also differentiated by the compiler: each operator, and each layer that
adds a matrix product to its scores.
"""
TRACED = (
    *("AGNNConv", "AttentiveFP", "ExphormerConv", "GeneralConv, edges"),
    *("HANConv, two types", "PointTransformerConv, networks", "Polynormer", "SGFormer"),
    "ResGatedGraphConv, edges",
)
"""Layers that call the operators of the others in code of their own; GPSConv has its own test."""
INPUTS = {
    "GATConv, sets": lambda x, e: (torch.stack([x, -x]), EDGES),
    "SuperGATConv": lambda x, e: (x, EDGES, torch.tensor([[0, 1], [3, 5]])),
    "AttentiveFP": lambda x, e: (x, EDGES, e, BATCH, 2),
}
"""Inputs of the layers that need more than x, the edges and the edge features."""


NORMALISED = ["SGFormer", "Polynormer"]
"""Layers with a batch norm, which in training overwrites tensors of an earlier forward pass."""


def _layer(name):
    layer = BY_NAME[name.removesuffix(", sets")].called(8, 3)
    return layer.eval() if name in NORMALISED else layer


def _inputs(name, x, e):
    if name in INPUTS:
        return INPUTS[name](x, e)
    return (x, EDGES, e) if BY_NAME[name].edge_attr else (x, EDGES)


def _without_alpha(module, inputs):
    """Run a graph of aten's operators as it is, and check that no sum has the argument alpha.

    Inductor in PyTorch 2.13 computes a sum with a matrix product by ``addmm`` and ignores alpha.
    """
    sums = [node for node in module.graph.nodes if node.target is torch.ops.aten.add.Tensor]
    assert not [node for node in sums if "alpha" in node.kwargs]
    return make_boxed_func(module.forward)


CHECKED = aot_autograd(fw_compiler=_without_alpha, bw_compiler=_without_alpha)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *(
            pytest.param(name, CHECKED, id=name, marks=() if name in DAILY else pytest.mark.slow)
            for name in DIFFERENTIATED
        ),
        *(pytest.param(name, "eager", id=name, marks=pytest.mark.slow) for name in TRACED),
    ],
)
def test_compiled_layers_give_the_same_outputs_and_gradients_as_eager_layers(name, backend):
    layer, args = _layer(name), _inputs(name, *_features())
    expected = layer(*args)
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    got = compiled(*args)
    torch.testing.assert_close(got, expected)
    expected.square().sum().backward()
    grads = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    got.square().sum().backward()
    for p, grad in zip(layer.parameters(), grads, strict=True):
        torch.testing.assert_close(p.grad, grad)


# On a machine with other work, the C++ compiler can take longer than the usual limit of a test.
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_layers_compiled_by_inductor_equal_eager_layers():
    """The scores of nodes, of edges and of FAConv's x_0 are matrix products, which Inductor fuses
    with the operators that follow.
    """

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(8, 8)
            self.first, self.second = GATConv(8, 4, 2, edge_dim=3), FAConv(8, eps=0.5)

        def forward(self, x, edges, edge_attr):
            return self.second(self.first(x, edges, edge_attr), self.lin(x), edges)

    (x, e), model = _features(), Model().requires_grad_(False)
    compiled = torch.compile(model, fullgraph=True)
    for features in (x, x.index_fill(0, torch.tensor([2]), torch.inf)):
        expected = model(features, EDGES, e)
        torch.testing.assert_close(compiled(features, EDGES, e), expected, equal_nan=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_model_on_a_graph_equals_the_eager_model():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = GATConv(8, 4, 2, dropout=0.5)
            self.second = GraphAttention(8, heads=2, score="additive")

        def forward(self, x, graph):
            x = self.first(x, graph).relu()
            return self.second(x, x, x, graph)

    model, graph, (x, _) = Model().eval(), Graph(EDGES, 6), _features()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, graph), model(x, graph))
    model.train()
    torch.manual_seed(0)
    first = compiled(x, graph)
    assert not torch.equal(compiled(x, graph), first)  # each call draws a new dropout mask
    first.sum().backward()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_gps_conv_with_graph_sizes_equals_the_eager_layer():
    layer = GPSConv(8, GATv2Conv(8, 4, 2), heads=2, norm="layer_norm")
    x, _ = _features()
    expected = layer(x, EDGES, BATCH)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    got = compiled(x, EDGES, BATCH, batch_size=2, max_num_nodes=3)
    torch.testing.assert_close(got, expected)


def _sized(name, nodes, edges):
    """Return the inputs of a call on a random graph of this size."""
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(nodes, 8, generator=generator)
    pairs = torch.randint(nodes, (2, edges), generator=generator)
    inputs = _inputs(name, x, torch.randn(edges, 3, generator=generator))
    return tuple(pairs if t is EDGES else t for t in inputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["GATConv, edges", pytest.param("FAConv", marks=pytest.mark.slow)])
def test_layer_is_compiled_at_most_twice_for_graphs_of_different_sizes(name):
    torch._dynamo.reset()
    layer, frames = _layer(name).eval(), []

    def backend(module, inputs):
        frames.append(len(inputs))
        return module.forward

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    for nodes in range(5, 17):
        inputs = _sized(name, nodes, 2 * nodes + 7)
        torch.testing.assert_close(compiled(*inputs), layer(*inputs))
    assert len(frames) <= 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_layer_exported_in_strict_mode_gives_the_same_outputs_on_graphs_of_other_sizes():
    name = "GATConv, edges"
    layer = _layer(name).eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    sizes = ({0: nodes}, {1: edges}, {0: edges})
    inputs = _sized(name, 9, 20)
    exported = torch.export.export(layer, inputs, dynamic_shapes=sizes, strict=True).module()
    for other in (_sized(name, 5, 30), _sized(name, 40, 11)):
        torch.testing.assert_close(exported(*other), layer(*other))
