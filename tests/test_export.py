"""Export of layers: ONNX, traces, int8 weights, and meta tensors."""

import inspect

import pytest
import torch
from torch import nn as tnn

import gattn
from gattn import nn as gnn
from gattn.layout import layout, onnx
from gattn.models import AttentiveFP
from tests.layers import BY_NAME, layers

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters raise many warnings
WIDTH = 16
TYPES = (["a"], [("a", "to", "a")])


class Call(tnn.Module):
    """Module whose forward method calls another function."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *args):
        return self.call(self.module, *args)


def readout(module):
    return Call(module, lambda m, x, batch: m(x, batch, dim_size=3))


ONNX = {
    "GATConv": (lambda: gnn.GATConv(WIDTH, 8, 2), "x edges"),
    "GATv2Conv": (lambda: gnn.GATv2Conv(WIDTH, 8, 2), "x edges"),
    "TransformerConv": (lambda: gnn.TransformerConv(WIDTH, 8, 2), "x edges"),
    "AGNNConv": (gnn.AGNNConv, "x edges"),
    "LearnedQueryReadout": (
        lambda: readout(gnn.LearnedQueryReadout(WIDTH, 8, num_queries=3, heads=2)), "x batch",
    ),
}  # fmt: skip
SLOW = {
    "SuperGATConv": (lambda: gnn.SuperGATConv(WIDTH, 8, 2), "x edges"),
    "GATConv, edges": (lambda: gnn.GATConv(WIDTH, 8, 2, edge_dim=3), "x edges features"),
    "GATConv, weights": (
        lambda: Call(
            gnn.GATConv(WIDTH, 8, 2),
            lambda m, x, edges: m(x, edges, return_attention_weights=True)[1][1],
        ),
        "x edges",
    ),
    "GATv2Conv, edges": (lambda: gnn.GATv2Conv(WIDTH, 8, 2, edge_dim=3), "x edges features"),
    "TransformerConv, edges": (
        lambda: gnn.TransformerConv(WIDTH, 8, 2, edge_dim=3, beta=True), "x edges features",
    ),
    "FAConv": (
        lambda: Call(gnn.FAConv(WIDTH), lambda m, x, edges: m(x, x, edges)), "x edges",
    ),
    "GATEConv": (lambda: gnn.GATEConv(WIDTH, WIDTH, 3), "x edges features"),
    "RGATConv": (
        lambda: Call(
            gnn.RGATConv(WIDTH, 4, 2, heads=2, edge_dim=3),
            lambda m, x, edges, a: m(x, edges, (a[:, 0] > 0).long(), a),
        ),
        "x edges features",
    ),
    "HGTConv": (
        lambda: Call(
            gnn.HGTConv(WIDTH, 8, TYPES, 2),
            lambda m, x, edges: m({"a": x}, {("a", "to", "a"): edges})["a"],
        ),
        "x edges",
    ),
    "HANConv": (
        lambda: Call(
            gnn.HANConv(WIDTH, 8, TYPES, 2),
            lambda m, x, edges: m({"a": x}, {("a", "to", "a"): edges})["a"],
        ),
        "x edges",
    ),
    "GPSConv": (
        lambda: Call(
            gnn.GPSConv(WIDTH, gnn.GATConv(WIDTH, 8, 2), heads=2),
            lambda m, *args: m(*args, batch_size=3, max_num_nodes=40),
        ),
        "x edges batch",
    ),
    "GraphAttention": (
        lambda: Call(
            gnn.GraphAttention(WIDTH, heads=2),
            lambda m, x, edges: m(x, x, x, gattn.Graph(edges, x.shape[0])),
        ),
        "x edges",
    ),
    "AttentionalAggregation": (
        lambda: readout(gnn.AttentionalAggregation(tnn.Linear(WIDTH, 1))), "x batch",
    ),
    "SetTransformerAggregation": (
        lambda: readout(gnn.SetTransformerAggregation(WIDTH, 2, heads=2, num_induced_points=3)),
        "x batch",
    ),
    "MultiReadout": (
        lambda: readout(
            gnn.MultiReadout(["sum", "mean", "max", gnn.LearnedQueryReadout(WIDTH, 4)])
        ),
        "x batch",
    ),
    "AttentiveFP": (
        lambda: Call(AttentiveFP(WIDTH, 8, 2, 3, 2, 2), lambda m, *args: m(*args, batch_size=3)),
        "x edges features batch",
    ),
}  # fmt: skip
ALL = ONNX | SLOW


def inputs(takes, nodes=6, edges=20):
    """Return random edges, some of which are repeated or self-loops. A third of the graphs of the
    batch is empty.
    """
    generator = torch.Generator().manual_seed(nodes + edges)
    tensors = {
        "x": torch.randn(nodes, WIDTH, generator=generator),
        "edges": torch.randint(0, max(nodes - 1, 1), (2, edges), generator=generator),
        "features": torch.randn(edges, 3, generator=generator),
        "batch": 2 * (torch.arange(nodes) >= nodes // 2),
    }
    return tuple(tensors[name] for name in takes.split())


def build(name):
    torch.manual_seed(0)
    return ALL[name][0]().eval()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "GATv2Conv" else pytest.mark.slow)
        for name in (*ONNX, *SLOW)
    ],
)
def test_onnx_gives_the_same_numbers_on_graphs_of_any_size(name, tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    layer, takes = build(name), ALL[name][1]
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    varies = {"x": {0: nodes}, "edges": {1: edges}, "features": {0: edges}, "batch": {0: nodes}}
    shapes = tuple(varies[part] for part in takes.split())
    # The forward of Call has a variadic parameter, whose shapes must be one tuple.
    shapes = (shapes,) if isinstance(layer, Call) else shapes
    before = layer(*inputs(takes))
    program = torch.onnx.export(
        layer, inputs(takes), dynamic_shapes=shapes, dynamo=True, verbose=False,
        optimize=name in ONNX,  # optimizing the ONNX graph would take half of the time of the test
    )  # fmt: skip
    # The export does not change what the layer computes.
    assert torch.equal(layer(*inputs(takes)), before)
    program.save(tmp_path / "layer.onnx")
    assert not any(node.domain == "gattn" for node in program.model.graph)
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    named = [each.name for each in session.get_inputs()]
    for size in ((6, 20), (40, 11), (9, 200), (5, 2)):
        args = inputs(takes, *size)
        (got,) = session.run(None, {n: a.numpy() for n, a in zip(named, args)})
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(got), layer(*args), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
def test_layouts_of_what_onnx_has_are_those_of_the_rest(size, monkeypatch):
    source, destination = torch.randint(7, (2, size))
    expected = layout.build(source, destination, 9, 8)
    owners = expected.destinations()
    monkeypatch.setattr(onnx, "exporting", lambda: True)
    assert torch.equal(layout.offsets(owners, 8, torch.int64), expected.rowptr.long())
    assert torch.equal(layout.owners(expected.rowptr, size), owners)


DYNAMIC = torch.export.Dim.DYNAMIC
GRAPHS = 3
SIZES = {
    "GPSConv": {"batch_size": GRAPHS, "max_num_nodes": 40},
    "GPSConv, layer norm": {"batch_size": GRAPHS, "max_num_nodes": 40},
    "GraphTransformerLayer": {"batch_size": GRAPHS, "max_num_nodes": 40},
    "GraphTransformerLayer, linear": {"batch_size": GRAPHS},
    "LinearAttention": {"dim_size": GRAPHS},
    "SGFormerAttention": {"dim_size": GRAPHS},
    "PolynormerAttention": {"dim_size": GRAPHS},
    "InducedSetAttentionBlock": {"dim_size": GRAPHS},
    "SetTransformerAggregation": {"max_num_elements": 40},
    "AttentiveFP": {"batch_size": GRAPHS},
    "SGFormer": {"batch_size": GRAPHS},
    "Polynormer": {"batch_size": GRAPHS},
}
"""Numbers that an export program cannot read from its inputs, by layer."""
REFUSED = {"RandomWalkEncoding": "compute the walk probabilities beforehand"}
"""Layers that cannot be exported, each with a part of the error message."""
RUNS = ((7, 20), (40, 11), (9, 200), (5, 2), (3, 1), (6, 0), (1, 1))
"""Numbers of nodes and edges for which the exported program is run."""


class Named(tnn.Module):
    """Module with positional inputs and constant numbers."""

    def __init__(self, module, names, numbers):
        super().__init__()
        self.module, self.names, self.numbers = module, names, numbers

    def forward(self, *inputs_of_run):
        return self.module(
            *inputs_of_run[:2], **dict(zip(self.names, inputs_of_run[2:])), **self.numbers
        )


def named_inputs(entry, nodes, edges, terms=()):
    """Return random inputs of a layer of the registry, by name."""
    generator = torch.Generator().manual_seed(nodes + edges)
    x = torch.randn(nodes, 6, generator=generator)
    batch = 2 * (torch.arange(nodes) >= nodes // 2)
    if entry.readout:
        return {"x": x, "index": batch}
    pairs = torch.randint(max(nodes - 1, 1), (2, edges), generator=generator)
    sources = torch.randn(nodes + 3, 3, generator=generator)
    tensors = {"x": (sources, x) if entry.bipartite else x, "edge_index": pairs}
    if entry.edge_attr:
        tensors["edge_attr"] = torch.randn(edges, 3, generator=generator)
    if entry.batch:
        tensors["batch"] = batch
    return tensors | {term: torch.rand(edges, generator=generator) for term in terms}


def export(entry, module, numbers=None, terms=()):
    """Return the module and its exported program, in which every size is dynamic."""
    example = named_inputs(entry, 12, 30, terms)
    names = list(example)[2:]
    along = {name: {1 if name == "edge_index" else 0: DYNAMIC} for name in example}
    if entry.bipartite:
        along["x"] = ({0: DYNAMIC}, {0: DYNAMIC})
    named = Named(module.eval(), names, numbers or {}).eval()
    shapes = (tuple(along.values()),)
    program = torch.export.export(named, tuple(example.values()), dynamic_shapes=shapes)
    return named, program.module()


def check_exported(entry, module, numbers=None, terms=()):
    named, program = export(entry, module, numbers, terms)
    for nodes, edges in RUNS:
        inputs_of_run = tuple(named_inputs(entry, nodes, edges, terms).values())
        with torch.no_grad():
            torch.testing.assert_close(
                program(*inputs_of_run), named(*inputs_of_run), rtol=1e-4, atol=1e-5
            )


def numbers_of(entry):
    numbers = SIZES.get(entry.name, {})
    return {"dim_size": GRAPHS} | numbers if entry.readout else numbers


EXPORTED_DAILY = (
    "GATConv, edges",
    "GraphAttention, edges",
    "TransformerBlock",
    "LinearAttention",
    "LearnedQueryReadout",
    "SetTransformerAggregation",
)
"""Layers whose export takes a few seconds and which cover all ways to lay out edges and sets."""


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(entry, id=name, marks=() if name in EXPORTED_DAILY else pytest.mark.slow)
        for name, entry in BY_NAME.items()
        if name not in REFUSED
    ],
)
def test_every_layer_is_exported_with_open_sizes(layer):
    check_exported(layer, layer.called(6, 3), numbers_of(layer))


@pytest.mark.parametrize("name", REFUSED)
def test_export_that_is_not_possible_says_what_to_do(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        export(BY_NAME[name], BY_NAME[name].called(6, 3))


@pytest.mark.parametrize("name", ["LinearAttention", "SGFormer", "LearnedQueryReadout"])
def test_export_without_the_number_of_graphs_says_which_argument_to_give(name):
    with pytest.raises(ValueError, match="pass dim_size to a readout or batch_size"):
        export(BY_NAME[name], BY_NAME[name].called(6, 3))


OPTIONS = {
    "GATConv, edges": [{"fill_value": fill} for fill in (0.0, torch.ones(3), "add", "max", "mul")],
    "GATv2Conv, edges": [{"fill_value": fill} for fill in (0.5, torch.ones(3), "add", "min")],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name, several in OPTIONS.items() for options in several],
    ids=lambda value: str(value),
)
def test_features_of_loops_are_exported_with_open_sizes(name, options):
    check_exported(BY_NAME[name], BY_NAME[name].make(6, 3, **options))


def takes(entry, term):
    return term in inspect.signature(entry.make(6, 3).forward).parameters


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "term"),
    [
        (name, term)
        for name, entry in layers(conv=True).items()
        if entry.made_by is None
        for term in ("edge_weight", "attn_bias")
        if takes(entry, term)
    ],
)
def test_terms_of_edges_are_exported_with_open_sizes(name, term):
    check_exported(BY_NAME[name], BY_NAME[name].make(6, 3), terms=(term,))
