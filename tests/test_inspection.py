"""Tests of explain_path: it names the path of every layer, and the change that would make a slow
layer faster.
"""

import pytest
import torch
import torch_geometric.nn as pyg

import gattn
from gattn import explain_path, graphs, nn
from gattn.nn.common.edge_terms import FEW_EDGES, FEW_OF_TYPE, NARROW, SMALL_GRAPH
from gattn.ops.custom_score import edge_function
from gattn.ops.custom_score.chunks import CHUNK, MAX_CHUNKS_AT_ONCE, MIN_COMPILED_CHUNKS
from tests.layers import LAYERS, every

NODES = 30
READS_FLOATS = {"RGATConv", "HEATConv"}
"""Layers whose forward pass reads values of floating-point tensors: in these tests, they compute
types from features.
"""


def edges(count, nodes=NODES):
    return torch.randint(0, nodes, (2, count))


def own_score(query, key, edge_attr):
    return (query * key).sum(-1).tanh()


class OnGraph(torch.nn.Module):
    """Model with a layer of self-attention on a graph."""

    def __init__(self, **options):
        super().__init__()
        self.attention = nn.GraphAttention(8, heads=2, **options)

    def forward(self, x, graph):
        return self.attention(x, x, x, graph)


def only(report):
    assert len(report.records) == 1, report
    return report.records[0]


@every({layer.kind: layer for layer in LAYERS})
def test_explain_path_lists_operators_unless_a_layer_reads_float_values(layer):
    module, (inputs, options) = layer.called(6, 3), layer.inputs(NODES, 100)
    if layer.kind in READS_FLOATS:
        with pytest.raises(RuntimeError, match="reads the value of a floating-point tensor"):
            explain_path(module, *inputs, **options)
        return
    report = explain_path(module, *inputs, **options)
    assert report.records
    for record in report.records:
        assert record.operator
        assert record.path in ("fused", "reference", "custom score, all edges at once")
        is_fast = not record.reason or SMALL_GRAPH in record.reason
        assert (record.path == "fused") == is_fast


def test_explain_path_states_why_a_layer_runs_on_the_reference(monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", "reference")
    record = only(explain_path(nn.GATv2Conv(8, 4), torch.randn(NODES, 8), edges(100)))
    assert (record.path, record.backend) == ("reference", "reference")
    assert record.operator == "gatv2_attention"
    assert record.reason == "GATTN_BACKEND=reference forces plain PyTorch: unset it"


@pytest.mark.parametrize(
    ("count", "path", "reason"),
    [
        (100, "all edges at once", "on all 100 edges: up to 32,768 edges, autograd stores"),
        (MAX_CHUNKS_AT_ONCE * CHUNK + 1, "chunked and uncompiled", "compiles it from 65,536 edges"),
        (MIN_COMPILED_CHUNKS * CHUNK, "chunked and compiled", "in plain PyTorch on 16,384 edges"),
    ],
)
def test_explain_path_states_how_a_custom_score_is_computed_for_each_edge_count(
    count, path, reason, monkeypatch
):
    monkeypatch.setattr(edge_function, "_has_compiler", lambda: True)
    graph = gattn.Graph(edges(count), NODES)
    record = only(explain_path(OnGraph(score=own_score), torch.randn(NODES, 8), graph))
    assert (record.module, record.path) == ("attention", f"custom score, {path}")
    assert reason in record.reason
    assert "a built-in score runs on the kernels" in record.reason


@pytest.mark.parametrize("count", [FEW_EDGES - 1, FEW_EDGES])
def test_explain_path_states_that_pyg_may_be_faster_for_few_edges(count):
    record = only(
        explain_path(nn.GATConv(8, 4, add_self_loops=False), torch.randn(9, 8), edges(count, 9))
    )
    assert (record.path, record.operator) == ("fused", "node_scores, gat_attention")
    assert record.reason == (SMALL_GRAPH if count < FEW_EDGES else "")


@pytest.mark.parametrize(
    ("width", "count"),
    [(NARROW - 1, FEW_OF_TYPE), (NARROW, FEW_OF_TYPE - 1), (NARROW, FEW_OF_TYPE)],
)
def test_explain_path_of_han_conv_states_that_pyg_may_be_faster_for_few_channels_or_edges(
    width, count
):
    x, metadata = torch.randn(NODES, 8), (["v"], [("v", "to", "v")])
    graph = {("v", "to", "v"): edges(count)}
    reason = only(explain_path(nn.HANConv(8, width, metadata), {"v": x}, graph)).reason
    is_slow = width < NARROW or count < FEW_OF_TYPE
    assert reason.startswith("with fewer than 8 channels or 1,500 edges of a type, PyG") == is_slow
    assert is_slow or not reason


@pytest.mark.parametrize("width", [1, 2])
def test_explain_path_states_that_pyg_may_be_faster_for_layers_with_few_channels(width):
    x = torch.randn(NODES, 8)
    reason = only(explain_path(nn.GATConv(8, width), x, edges(FEW_EDGES))).reason
    assert reason.startswith("with fewer than 2 channels, PyG's layer may") == (width == 1)
    assert width == 1 or not reason
    x, narrow = torch.randn(NODES, NARROW - 1), "with fewer than 8 channels, PyG's layer may"
    assert only(explain_path(nn.FAConv(7), x, x, edges(FEW_EDGES))).reason.startswith(narrow)
    for kind in (nn.GATConv, nn.GATv2Conv, nn.TransformerConv):
        layer, attributes = kind(7, 7, edge_dim=2), torch.randn(FEW_EDGES, 2)
        reason = only(explain_path(layer, x, edges(FEW_EDGES), edge_attr=attributes)).reason
        assert reason.startswith(narrow)


def test_explain_path_reports_a_score_that_torch_cannot_compile(monkeypatch):
    graph = gattn.Graph(edges(MIN_COMPILED_CHUNKS * CHUNK), NODES)
    model, x = OnGraph(score=own_score), torch.randn(NODES, 8)
    monkeypatch.setattr(edge_function, "_has_compiler", lambda: False)
    record = only(explain_path(model, x, graph))
    assert record.path == "custom score, chunked and uncompiled"
    assert "install a C++ compiler" in record.reason
    monkeypatch.setattr(edge_function, "_uncompilable", {own_score.__code__: "Unsupported: if"})
    record = only(explain_path(model, x, graph))
    assert "torch could not compile it (Unsupported: if)" in record.reason


def test_explain_path_names_dense_attention_for_complete_graphs():
    x, graph = torch.randn(128, 8), graphs.complete([64, 64])
    record = only(explain_path(OnGraph(), x, graph))
    assert (record.path, record.operator) == ("dense", "scaled_dot_product_attention")


def test_explain_path_reports_that_triton_copies_a_non_contiguous_value(monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", "triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton")

    class Strided(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.GraphAttention(8, heads=2)  # the report has a row for this layer
            self.lin.lin_value = Transposed()

        def forward(self, x, graph):
            return self.lin(x, x, x, graph)

    class Transposed(torch.nn.Module):
        def forward(self, x):
            return x.T.contiguous().T

    graph = gattn.Graph(edges(100), NODES)
    record = only(explain_path(Strided(), torch.randn(NODES, 8), graph))
    assert (record.path, record.backend) == ("fused", "triton")
    assert "dot_product_attention copies value [30, 2, 4]" in record.reason
    assert "pass contiguous tensors" in record.reason


def test_explain_path_lists_layers_of_pyg_and_layers_without_a_call():
    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.theirs = pyg.GATConv(8, 8)
            self.ours = nn.GATConv(8, 8)
            self.unused = nn.GATConv(8, 8)
            self.dense = torch.nn.MultiheadAttention(8, 2)

        def forward(self, x, edge_index):
            return self.ours(self.theirs(x, edge_index), edge_index)

    report = explain_path(Mixed(), torch.randn(NODES, 8), edges(100))
    records = {record.module: record for record in report.records}
    assert list(records) == ["theirs", "ours", "unused", "dense"]
    assert records["theirs"].reason == "PyG's layer: gattn.convert(model) replaces it"
    assert records["unused"].path == "not called"
    assert records["dense"].reason.startswith("gattn.convert leaves it: gattn has no Multihead")
    lines = str(report).splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["module", "layer", "operator", "backend", "path", "reason"]


def test_explain_path_leaves_model_and_random_state_unchanged():
    model = gattn.models.GAT(8, 8, num_layers=2, norm="BatchNorm", dropout=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attributes = {name: dict(vars(module)) for name, module in model.named_modules()}
    x, edge_index = torch.randn(NODES, 8), edges(100)
    state = torch.get_rng_state()
    explain_path(model, x, edge_index)
    assert torch.equal(state, torch.get_rng_state())
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert attributes == {name: dict(vars(module)) for name, module in model.named_modules()}
    assert model(x, edge_index).isfinite().all()


def test_explain_path_of_invalid_arguments_raises_error():
    with pytest.raises(TypeError, match=r"model must be a torch.nn.Module; got function"):
        explain_path(own_score)
    lazy = nn.GATConv(-1, 4)
    with pytest.raises(ValueError, match="has no shape yet: call the model once"):
        explain_path(lazy, torch.randn(NODES, 8), edges(10))
    with pytest.raises(ValueError, match="source indices must be in"):
        explain_path(nn.GATConv(8, 4), torch.randn(NODES, 8), edges(10, nodes=NODES * 9))
    model = torch.nn.Linear(8, 2)
    assert explain_path(model, torch.randn(3, 8)).records == ()
    assert str(explain_path(model, torch.randn(3, 8))).startswith("no attention layer")
