"""Layer-wise inference on ranges of nodes equals the model on the whole graph."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as pyg

import gattn
from gattn import Graph
from gattn.models import GAT, layerwise_inference
from gattn.nn import GATConv, TransformerConv
from gattn.testing import awkward_graphs

OPTIONS = [
    {"heads": 4, "out_channels": 3},
    {"heads": 2, "v2": True, "edge_dim": 3, "norm": "batch_norm", "act_first": True, "jk": "last"},
    {"heads": 3, "concat": False, "residual": True, "act": "elu", "edge_dim": 1},
]


@pytest.fixture(scope="module")
def hub():
    """Graph in which one node has half of the edges, and some nodes have no edges."""
    torch.manual_seed(0)
    source, destination = torch.randint(25, (2, 100))
    destination[:50] = 11
    return Graph(torch.stack([source, destination]), 30)


def close(got, expected):
    torch.testing.assert_close(got, expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("batch_edges", [7, 60, 10**6])
def test_layerwise_inference_equals_full_forward(hub, options, batch_edges):
    model = GAT(6, 12, 3, **options).double().eval()
    for norm in model.norms:
        for buffer in norm.buffers():
            buffer.data = torch.rand(buffer.shape).to(buffer)
    x, edge_attr = torch.randn(30, 6).double(), None
    if "edge_dim" in options:
        edge_attr = torch.randn(hub.num_edges, options["edge_dim"]).double()
    with torch.no_grad():
        expected = model(x, hub, edge_attr=edge_attr)
    close(layerwise_inference(model, x, hub, edge_attr, batch_edges=batch_edges), expected)


def test_layerwise_inference_equals_full_forward_on_unusual_graphs():
    model = GAT(6, 8, 2, 3, heads=2).double().eval()
    for case in awkward_graphs():
        if case.size[0] == case.size[1]:
            x, graph = torch.randn(case.size[0], 6).double(), Graph(case.edge_index, case.size)
            got = layerwise_inference(model, x, graph, batch_edges=9)
            close(got, model(x, graph).detach())


def test_layerwise_inference_of_a_converted_pyg_model_equals_full_forward(hub):
    model = pyg.GAT(6, 8, 2, 3, heads=2).double().eval()
    x = torch.randn(30, 6).double()
    expected = model(x, hub.edge_index).detach()
    with pytest.raises(TypeError, match=r"PyG's GAT after gattn\.convert"):
        layerwise_inference(model, x, hub)
    close(layerwise_inference(gattn.convert(model), x, hub, batch_edges=40), expected)


def test_layerwise_inference_of_a_list_of_layers_equals_full_forward(hub):
    first, second = TransformerConv(6, 4, heads=2, beta=True), TransformerConv(8, 5, edge_dim=2)
    x, edge_attr = torch.randn(30, 6), torch.randn(hub.num_edges, 2)
    layers = [lambda x, graph, edge_attr: F.elu(first(x, graph)), second.eval()]
    expected = second(F.elu(first(x, hub)), hub, edge_attr).detach()
    got = layerwise_inference(layers, x, hub, edge_attr, batch_edges=40)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    assert not got.requires_grad


def test_layerwise_inference_gives_the_same_bits_in_memory_and_on_disk(hub, tmp_path):
    model = GAT(6, 8, 3, 4, heads=2, edge_dim=1).eval()
    x, edge_attr = torch.randn(30, 6), torch.randn(hub.num_edges)
    expected = layerwise_inference(model, x, hub, edge_attr, batch_edges=40)
    files = [tmp_path / name for name in ("x.npy", "edge_attr.npy", "out.npy", "x.pt")]
    np.save(files[0], x.numpy())
    np.save(files[1], edge_attr.numpy())
    torch.save(x, files[3])
    out = np.lib.format.open_memmap(files[2], "w+", np.float32, (30, 4))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mapped = [np.load(file, mmap_mode="r") for file in files[:2]]
    got = layerwise_inference(
        model, mapped[0], hub, mapped[1], batch_edges=40, out=out, scratch=scratch
    )  # fmt: skip
    assert torch.equal(got, expected)
    out.flush()
    np.testing.assert_array_equal(np.load(files[2]), expected.numpy())
    assert not list(scratch.iterdir())
    read = torch.load(files[3], mmap=True)
    out = torch.empty(30, 4)
    assert layerwise_inference(model, read, hub, mapped[1], batch_edges=40, out=out) is out
    assert torch.equal(out, expected)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": GAT(6, 8, 2)}, ValueError, "evaluation mode"),
        ({"model": [GATConv(6, 8)]}, ValueError, "evaluation mode"),
        ({"model": GAT(6, 8, 2, jk="cat").eval()}, ValueError, "jk must be None or 'last'.*'cat'"),
        ({"model": GAT(6, 8, 2, norm="graph_norm").eval()}, ValueError, "separately.*GraphNorm"),
        ({"model": GAT(6, 8, 2, norm="layer_norm").eval()}, ValueError, "separately.*LayerNorm"),
        ({"model": torch.nn.Linear(6, 8)}, TypeError, "a list of layers; got Linear"),
        ({"model": []}, TypeError, "a list of layers"),
        ({"model": [lambda x, graph: x[0]]}, ValueError, r"return 2 rows.* got shape \(3, 6\)"),
        ({"x": torch.randn(5, 6)}, ValueError, r"x must have shape \(4, d\); got \(5, 6\)"),
        ({"x": np.zeros(4)}, ValueError, r"x must have shape \(4, d\); got \(4,\)"),
        ({"x": torch.eye(4).to_sparse()}, ValueError, "x must be dense"),
        ({"edge_attr": torch.ones(2)}, ValueError, r"edge_attr must have shape \(3, d\)"),
        ({"batch_edges": 0}, ValueError, "batch_edges must be >= 1; got 0"),
        ({"graph": torch.tensor([[0], [1]])}, TypeError, "graph must be a gattn.Graph"),
        ({"graph": Graph(torch.tensor([[0], [1]]), (4, 3))}, ValueError, "same nodes at both ends"),
        ({"out": torch.empty(4, 9)}, ValueError, r"out must be torch.float32 of shape \(4, 8\)"),
        ({"out": torch.empty(4, 8).double()}, ValueError, "got torch.float64"),
        ({"out": np.broadcast_to(np.zeros(8), (4, 8))}, ValueError, "read-only"),
    ],
)  # fmt: skip
def test_unsupported_models_inputs_or_outputs_of_layerwise_inference_raise_error(
    change, error, message
):
    graph = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 4)
    x = torch.randn(4, 6)
    arguments = {"model": GAT(6, 8, 2).eval(), "x": x, "graph": graph, "batch_edges": 4}
    with pytest.raises(error, match=message):
        layerwise_inference(**arguments | change)


def test_output_that_shares_memory_with_the_input_raises_error():
    graph, x = Graph(torch.tensor([[0, 1], [1, 0]]), 2), torch.randn(2, 6)
    with pytest.raises(ValueError, match="out must not share"):
        layerwise_inference(GAT(6, 6, 1).eval(), x, graph, out=x)
