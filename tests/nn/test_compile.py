"""Every layer in one piece under torch.compile, and exported."""

import pytest
import torch
from torch import nn

from gattn import Graph
from gattn.models import AttentiveFP
from gattn.nn import (
    AGNNConv,
    FAConv,
    GATConv,
    GATEConv,
    GATv2Conv,
    GPSConv,
    GraphAttention,
    HANConv,
    HGTConv,
    RGATConv,
    SuperGATConv,
    TransformerConv,
)

EDGES = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 3, 4, 5, 2]])
METADATA = ["a", "b"], [("a", "to", "b"), ("b", "to", "a")]
KINDS = torch.arange(6) % 2
BATCH = torch.tensor([0, 0, 0, 1, 1, 1])


def _features():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(6, 8, generator=generator), torch.randn(6, 3, generator=generator)


def _typed(x):
    return {"a": x, "b": 2 * x}, dict.fromkeys(METADATA[1], EDGES)


CALLS = {
    "GATConv": (lambda: GATConv(8, 4, 2, residual=True), lambda x, e: (x, EDGES)),
    "GATConv, edges": (lambda: GATConv(8, 4, 2, edge_dim=3), lambda x, e: (x, EDGES, e)),
    "GATConv, sets": (lambda: GATConv(8, 4, 2), lambda x, e: (torch.stack([x, -x]), EDGES)),
    "GATv2Conv": (lambda: GATv2Conv(8, 4, 2, edge_dim=3), lambda x, e: (x, EDGES, e)),
    "TransformerConv": (
        lambda: TransformerConv(8, 4, 2, edge_dim=3, beta=True),
        lambda x, e: (x, EDGES, e),
    ),
    "AGNNConv": (AGNNConv, lambda x, e: (x, EDGES)),
    "SuperGATConv": (
        lambda: SuperGATConv(8, 4, 2),
        lambda x, e: (x, EDGES, torch.tensor([[0, 1], [3, 5]])),
    ),
    "FAConv": (lambda: FAConv(8), lambda x, e: (x, x, EDGES)),
    "GATEConv": (lambda: GATEConv(8, 8, 3), lambda x, e: (x, EDGES, e)),
    "RGATConv": (lambda: RGATConv(8, 4, 2), lambda x, e: (x, EDGES, KINDS)),
    "HGTConv": (lambda: HGTConv(8, 8, METADATA, 2), lambda x, e: _typed(x)),
    "HANConv": (lambda: HANConv(8, 8, METADATA, 2), lambda x, e: _typed(x)),
    "GPSConv": (
        lambda: GPSConv(8, GATConv(8, 4, 2), heads=2, norm="layer_norm"),
        lambda x, e: (x, EDGES),
    ),
    "AttentiveFP": (
        lambda: AttentiveFP(8, 8, 2, 3, 2, 2),
        lambda x, e: (x, EDGES, e, BATCH, 2),
    ),
}


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _joined(out):
    return out if isinstance(out, torch.Tensor) else torch.cat(list(out.values()))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_from_plain_edges(name):
    torch.manual_seed(0)
    build, inputs = CALLS[name]
    layer, args = build(), inputs(*_features())
    expected = _joined(layer(*args))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    got = _joined(compiled(*args))
    torch.testing.assert_close(got, expected)
    expected.square().sum().backward()
    grads = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    got.square().sum().backward()
    for p, grad in zip(layer.parameters(), grads):
        torch.testing.assert_close(p.grad, grad)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_model_on_a_graph_laid_out_before():
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
    assert not torch.equal(compiled(x, graph), first)  # a new mask each time
    first.sum().backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sets_of_nodes_need_their_sizes():
    layer = GPSConv(8, GATv2Conv(8, 4, 2), heads=2, norm="layer_norm")
    x, _ = _features()
    expected = layer(x, EDGES, BATCH)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    got = compiled(x, EDGES, BATCH, batch_size=2, max_num_nodes=3)
    torch.testing.assert_close(got, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["GATConv, edges", "GATv2Conv", "TransformerConv", "AGNNConv"])
def test_an_exported_layer_takes_other_edges(name):
    build, inputs = CALLS[name]
    layer, args = build().eval(), inputs(*_features())
    exported = torch.export.export(layer, args).module()
    torch.testing.assert_close(exported(*args), layer(*args))
    other = (args[0].flip(0), EDGES.flip(0).clamp(max=4), *args[2:])
    torch.testing.assert_close(exported(*other), layer(*other))


SIZED = ["GATConv, edges", "GATv2Conv", "TransformerConv", "AGNNConv", "FAConv", "GATEConv"]


def _sized(name, nodes, edges):
    """The inputs of a call on a random graph of this size."""
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(nodes, 8, generator=generator)
    pairs = torch.randint(nodes, (2, edges), generator=generator)
    inputs = CALLS[name][1](x, torch.randn(edges, 3, generator=generator))
    return tuple(pairs if t is EDGES else t for t in inputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", SIZED)
def test_graphs_of_every_size_share_what_was_compiled(name):
    torch._dynamo.reset()
    layer, frames = CALLS[name][0]().eval(), []

    def backend(module, inputs):
        frames.append(len(inputs))
        return module.forward

    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
    for nodes in range(5, 17):
        inputs = _sized(name, nodes, 2 * nodes + 7)
        torch.testing.assert_close(compiled(*inputs), layer(*inputs))
    assert len(frames) <= 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["GATConv, edges", "GATv2Conv", "TransformerConv"])
def test_an_exported_layer_takes_graphs_of_any_size(name, strict):
    layer = CALLS[name][0]().eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    sizes = ({0: nodes}, {1: edges}, {0: edges})
    inputs = _sized(name, 9, 20)
    exported = torch.export.export(layer, inputs, dynamic_shapes=sizes, strict=strict).module()
    for other in (_sized(name, 5, 30), _sized(name, 40, 11)):
        torch.testing.assert_close(exported(*other), layer(*other))
