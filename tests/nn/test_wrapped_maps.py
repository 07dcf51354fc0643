"""A layer calls its maps where they do more than multiply: hooks, wrappers, replaced forwards."""

import pytest
import torch
import torch_geometric.nn as pyg

import gattn.nn as ours
from gattn.graph import as_graph

EDGES = torch.randint(0, 20, (2, 80), generator=torch.Generator().manual_seed(1))


def thrice(module, inputs, out):
    return out * 3


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        ("GATConv", "lin"),
        ("GATConv", "lin_edge"),
        ("GATv2Conv", "lin_l"),
        ("GATv2Conv", "lin_edge"),
        ("TransformerConv", "lin_key"),
        ("TransformerConv", "lin_edge"),
        ("TransformerConv", "lin_beta"),
    ],
)
@pytest.mark.parametrize("how", ["forward hook", "backward hook", "replaced forward"])
def test_maps_are_called(layer, part, how):
    options = {"beta": True} if layer == "TransformerConv" else {}
    theirs = getattr(pyg, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine = getattr(ours, layer)(8, 4, heads=2, edge_dim=3, **options)
    mine.load_state_dict(theirs.state_dict())
    torch.manual_seed(0)
    x, attr = torch.randn(20, 8, requires_grad=True), torch.randn(80, 3, requires_grad=True)
    found = []
    for conv in (theirs, mine):
        module = getattr(conv, part)
        if how == "forward hook":
            module.register_forward_hook(thrice)
        elif how == "backward hook":
            module.register_full_backward_hook(lambda m, gi, go: tuple(g * 2 for g in gi))
        else:
            module.forward = lambda x, plain=module.forward: plain(x) * 3
        out = conv(x, EDGES, attr)
        found.append([out, *torch.autograd.grad(out.sin().sum(), [x, attr])])
    for expected, got in zip(*found):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("part", ["lin_key", "lin_value"])
def test_readout_calls_its_maps(part):
    readout = ours.LearnedQueryReadout(8, 8, num_queries=2, heads=2)
    x, index = torch.randn(10, 8), torch.tensor([0, 0, 1, 1, 1, 2, 2, 2, 2, 4])
    plain = readout(x, index, dim_size=5)
    handle = getattr(readout, part).register_forward_hook(lambda m, i, out: out)
    torch.testing.assert_close(readout(x, index, dim_size=5), plain)
    handle.remove()
    getattr(readout, part).register_forward_hook(thrice)
    assert not torch.allclose(readout(x, index, dim_size=5), plain)


def test_evaluation_in_inference_mode_comes_before_training():
    x, attr = torch.randn(20, 8), torch.randn(80, 3)
    edges = EDGES.clone()
    for layer in (ours.GATConv(8, 4, 2, edge_dim=3), ours.GATv2Conv(8, 4, 2, edge_dim=3)):
        with torch.inference_mode():
            layer(x, edges, attr)
        layer(x, edges, attr).sum().backward()


def test_a_tensor_given_other_memory_is_laid_out_anew():
    edges = EDGES.clone()
    before = as_graph(edges, 20)
    edges.data = EDGES.flip(0).clone()
    assert as_graph(edges, 20) is not before
