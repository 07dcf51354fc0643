"""Export of layers: ONNX, traces, int8 weights, and meta tensors."""

import inspect

import pytest
import torch
from torch import nn as tnn

import gattn.nn
from gattn.layout import layout, onnx
from gattn.structure import return_probabilities
from tests.layers import BY_NAME, layers

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's exporters raise many warnings


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
def test_layout_offsets_by_onnx_operations_equal_those_of_torch(size, monkeypatch):
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
    args, options = entry.inputs(nodes, edges)
    options.pop("dim_size", None)
    options |= {term: torch.rand(edges) for term in terms}
    return dict(zip(("x", "index" if entry.readout else "edge_index"), args)) | options


def positional(entry, module, numbers=None, terms=()):
    """Return the module, its inputs, and the sizes of its inputs, all of which are dynamic."""
    example = named_inputs(entry, 12, 30, terms)
    along = {name: {1 if name == "edge_index" else 0: DYNAMIC} for name in example}
    if entry.bipartite:
        along["x"] = ({0: DYNAMIC}, {0: DYNAMIC})
    named = Named(module.eval(), list(example)[2:], numbers or {}).eval()
    return named, tuple(example.values()), (tuple(along.values()),)


def export(entry, module, numbers=None, terms=()):
    """Return the module and its exported program."""
    named, example, shapes = positional(entry, module, numbers, terms)
    return named, torch.export.export(named, example, dynamic_shapes=shapes).module()


def check_exported(entry, module, numbers=None, terms=()):
    named, program = export(entry, module, numbers, terms)
    for nodes, edges in RUNS:
        inputs_of_run = tuple(named_inputs(entry, nodes, edges, terms).values())
        with torch.no_grad():
            torch.testing.assert_close(
                program(*inputs_of_run), named(*inputs_of_run), rtol=1e-4, atol=1e-5
            )


def terms_of(entry):
    """Return the terms of edges that the layer's forward takes."""
    takes = inspect.signature(getattr(gattn.nn, entry.kind).forward).parameters
    return [term for term in ("edge_weight", "attn_bias") if term in takes]


def numbers_of(entry):
    numbers = SIZES.get(entry.name, {})
    return {"dim_size": GRAPHS} | numbers if entry.readout else numbers


ONNX = (
    *("GATConv, edges", "GATv2Conv, edges", "GPSConv", "HGTConv", "LearnedQueryReadout"),
    *("RGATConv, edges", "TransformerConv, edges and beta"),
)
"""Layers that are exported to ONNX: each score, sets, types and readouts. The other layers call the
same operators, and are exported by ``torch.export`` below.
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ONNX)
def test_exported_onnx_model_gives_the_same_outputs_on_graphs_of_other_sizes(name, tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    entry = BY_NAME[name]
    named, example, shapes = positional(entry, entry.called(6, 3), numbers_of(entry))
    before = named(*example)
    program = torch.onnx.export(
        named, example, dynamic_shapes=shapes, dynamo=True, verbose=False, optimize=False
    )
    # The export does not change what the layer computes.
    assert torch.equal(named(*example), before)
    program.save(tmp_path / "layer.onnx")
    assert not any(node.domain == "gattn" for node in program.model.graph)
    session = onnxruntime.InferenceSession(tmp_path / "layer.onnx")
    inputs = [each.name for each in session.get_inputs()]
    for size in ((6, 20), (40, 11), (9, 200), (5, 2)):
        args = tuple(named_inputs(entry, *size).values())
        (got,) = session.run(None, {n: a.numpy() for n, a in zip(inputs, args)})
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(got), named(*args), rtol=1e-5, atol=1e-5)


EXPORTED_DAILY = (
    *("GATConv, edges", "GraphAttention, edges", "TransformerBlock", "SetTransformerAggregation"),
)
"""Layers whose export takes a few seconds and which cover all ways to lay out edges and sets."""
SAME_CODE = (
    *("GATConv, plain", "GATConv, edges and averaged heads", "GATv2Conv, shared", "HANConv"),
    *("GeneralConv", "GraphAttention, cosine", "GraphAttention, embedded Gaussian", "HGTConv"),
    *("LearnedQueryReadout, normalised", "RGATConv", "ResGatedGraphConv", "TransformerBlock, post"),
    *("TransformerConv, edges", "GATv2Conv, bipartite", "TransformerConv, bipartite"),
)
"""Layers whose export calls the operators and layouts of another layer of the class."""
WITH_TERMS = (
    *("AGNNConv", "GATConv", "GATEConv", "GATv2Conv, edges", "GeneralConv, edges"),
    *("ResGatedGraphConv, edges", "SuperGATConv, SD", "TransformerConv, edges and beta"),
)
"""A layer of each class with ``edge_weight`` or ``attn_bias``, exported with these terms."""


EXPORTED = [
    pytest.param(entry, id=name, marks=() if name in EXPORTED_DAILY else pytest.mark.slow)
    for name, entry in BY_NAME.items()
    if name not in SAME_CODE
]


@pytest.mark.parametrize("layer", EXPORTED)
def test_layer_exported_by_torch_gives_the_same_outputs_on_graphs_of_other_sizes(layer):
    terms = terms_of(layer) if layer.name in WITH_TERMS else ()
    check_exported(layer, layer.called(6, 3), numbers_of(layer), terms)


def test_every_layer_that_takes_edge_weight_or_attn_bias_is_in_the_export_tests():
    convolutions = [one for one in layers(conv=True).values() if one.made_by is None]
    assert {one.kind for one in convolutions if terms_of(one)} == {
        BY_NAME[name].kind for name in WITH_TERMS
    }


class Walks(tnn.Module):
    """Module that computes the return probabilities of a graph."""

    def forward(self, edge_index):
        return return_probabilities(edge_index, 6, steps=3)


def test_exported_return_probabilities_equal_those_of_torch():
    edges = torch.tensor([[0, 1, 1, 4], [1, 2, 0, 5]])
    program = torch.export.export(Walks(), (edges.flip(1),), strict=False).module()
    torch.testing.assert_close(program(edges), Walks()(edges))


@pytest.mark.parametrize("name", ["LinearAttention", "SGFormer", "LearnedQueryReadout"])
def test_export_without_the_number_of_graphs_raises_error_that_names_it(name):
    with pytest.raises(ValueError, match="pass dim_size to a readout or batch_size"):
        export(BY_NAME[name], BY_NAME[name].called(6, 3))


FILLS = [("GATConv, edges", fill) for fill in (torch.ones(3), "add", "max")]
FILLS += [("GATv2Conv, edges", fill) for fill in (0.5, "min", "mul")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fill"), FILLS, ids=str)
def test_layer_exported_with_self_loop_features_gives_the_same_outputs_on_other_graph_sizes(
    name, fill
):
    check_exported(BY_NAME[name], BY_NAME[name].make(6, 3, fill_value=fill))
