"""Properties of every convolution: equivariance, equal bits, derivatives, dtypes, memory."""

import copy
import io
import pickle

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gattn import Graph
from gattn.nn import (
    GATConv,
    GATEConv,
    GATv2Conv,
    GeneralConv,
    HEATConv,
    PointTransformerConv,
    RGATConv,
    SuperGATConv,
    TransformerConv,
)
from gattn.nn.conv import heat_conv
from gattn.ops.registration.backend import select
from tests.layers import layers

LAYERS = layers(conv=True)


@pytest.fixture(params=LAYERS)
def layer_and_width(request):
    """A layer in eval mode and the width of its edge features."""
    entry = LAYERS[request.param]
    layer = entry.make(6, 3).eval()
    for parameter in layer.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return layer, 3 if entry.edge_attr else None


def _inputs(edge_dim, dtype=torch.float32, nodes=7, edges=15, batch=None):
    torch.manual_seed(1)
    shape = (nodes, 6) if batch is None else (batch, nodes, 6)
    x, edge_index = torch.randn(shape, dtype=dtype), torch.randint(nodes - 1, (2, edges))
    edge_attr = () if edge_dim is None else (torch.randn(edges, edge_dim, dtype=dtype),)
    return x, edge_index, *edge_attr


@pytest.mark.bits
def test_convolutions_give_the_same_bits_in_repeated_and_checkpointed_calls(layer_and_width):
    layer, edge_dim = layer_and_width
    layer.train()
    inputs = _inputs(edge_dim, nodes=50, edges=900)
    runs = []
    for layer.checkpoint in (False, False, True):
        layer.zero_grad()
        torch.manual_seed(2)
        out = layer(*inputs)
        out.square().sum().backward()
        grads = [p.grad for p in layer.parameters() if p.grad is not None]
        runs.append([out.detach(), *(grad.clone() for grad in grads)])
    assert all(torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(*runs))


def test_convolutions_give_the_same_output_with_and_without_a_message_hook(
    layer_and_width, beside_pyg
):
    layer, edge_dim = layer_and_width
    layer, slow = layer.double(), copy.deepcopy(layer).double()
    slow.register_message_forward_hook(lambda module, args, out: None)
    assert layer.fused
    assert not slow.fused
    beside_pyg.check(slow, layer, *_inputs(edge_dim, torch.float64))


def test_batched_features_give_the_same_outputs_as_single_calls_or_raise_error(
    layer_and_width, beside_pyg
):
    layer, edge_dim = layer_and_width
    x, edge_index, *edge_attr = _inputs(edge_dim, batch=3)
    if isinstance(layer, (GATEConv, GeneralConv, HEATConv, PointTransformerConv, RGATConv)):
        with pytest.raises(ValueError, match=r"x must have shape \(n, 6\)"):
            layer(x, Graph(edge_index, 7), *edge_attr)
        return
    out = layer(x, edge_index, *edge_attr)
    slow = copy.deepcopy(layer)
    slow.register_message_forward_hook(lambda module, args, out: None)
    torch.testing.assert_close(slow(x, edge_index, *edge_attr), out)
    alone = [layer(one, edge_index, *edge_attr) for one in x]
    torch.testing.assert_close(out, torch.stack(alone))


@pytest.mark.parametrize("cls", [GATConv, GATv2Conv, TransformerConv])
def test_attention_weights_of_batched_features_match_single_calls(cls):
    layer = cls((6, 6), 4, 2, edge_dim=3)
    x, edge_index, edge_attr = _inputs(3, batch=3)
    pair = x, x.flip(0)
    _, (pairs, alpha) = layer(pair, edge_index, edge_attr, return_attention_weights=True)
    assert alpha.shape == (3, pairs.shape[1], 2)
    for i in range(3):
        one = pair[0][i], pair[1][i]
        expected = layer(one, edge_index, edge_attr, return_attention_weights=True)[1]
        assert torch.equal(pairs, expected[0])
        torch.testing.assert_close(alpha[i], expected[1])


def test_copies_and_pickles_of_layers_give_the_same_output_as_the_original(layer_and_width):
    layer, edge_dim = layer_and_width
    inputs = _inputs(edge_dim)
    expected = layer(*inputs)
    assert torch.equal(copy.deepcopy(layer)(*inputs), expected)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(*inputs), expected)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    twin = copy.deepcopy(layer)
    twin.reset_parameters()
    twin.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(twin(*inputs), expected)


def test_derivatives_of_convolutions_pass_gradcheck(layer_and_width):
    layer, edge_dim = layer_and_width
    layer = layer.double()
    x, edge_index, *edge_attr = _inputs(edge_dim, torch.float64, nodes=4, edges=6)
    inputs = [t.requires_grad_() for t in (x, *edge_attr)]

    def run(x, *edge_attr):
        return layer(x, edge_index, *edge_attr)

    if isinstance(layer, RGATConv):
        # This test layer computes the relations from the sign of x, which has no derivative. So the
        # relations are constants here.
        graph, kinds = Graph(edge_index, 4), torch.arange(6) % 2

        def run(x, *edge_attr):
            return RGATConv.forward(layer, x, graph, kinds, *edge_attr)

    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_convolutions_under_autocast_return_bfloat16_near_fp32(layer_and_width):
    layer, edge_dim = layer_and_width
    x, edge_index, *edge_attr = _inputs(edge_dim)
    expected = layer(x, edge_index, *edge_attr)
    with torch.autocast("cpu", torch.bfloat16):
        # Under autocast, the previous layer returns bfloat16, so the input is bfloat16, too.
        out = layer(x.bfloat16(), edge_index, *edge_attr)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)
    out.float().square().sum().backward()
    if isinstance(layer, (GATConv, GATv2Conv, TransformerConv, SuperGATConv)):
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x, edge_index, *edge_attr).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_outputs_of_layers_in_half_precision_are_near_those_in_fp32(layer_and_width, dtype):
    layer, edge_dim = layer_and_width
    x, edge_index, *edge_attr = _inputs(edge_dim)
    expected = layer(x, edge_index, *edge_attr)
    out = layer.to(dtype)(x.to(dtype), edge_index, *(t.to(dtype) for t in edge_attr))
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)


class _Largest(TorchDispatchMode):
    """Record the largest number of elements of a floating tensor that an operation returns."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                self.elements = max(self.elements, tensor.numel())
        return out


def test_convolutions_allocate_no_tensor_of_size_edges_times_channels(layer_and_width, monkeypatch):
    if select(None, torch.device("cpu")) == "reference":
        pytest.skip("the reference is written edge by edge")
    layer, edge_dim = layer_and_width
    if isinstance(layer, GATEConv):
        pytest.skip("its score has a hidden layer for every edge")
    monkeypatch.setattr(heat_conv, "MAX_FORMED", 0)
    # An edge may have at most 4 numbers: two heads, three edge features or two node indices.
    edges, per_edge = 5000, 4
    x, edge_index, *edge_attr = _inputs(edge_dim, nodes=20, edges=edges)
    Graph(edge_index, 20)
    with _Largest() as largest:
        layer(x, edge_index, *edge_attr).sum().backward()
    assert largest.elements <= per_edge * (edges + 20)


@pytest.mark.parametrize("options", [{"flow": "target_to_source"}, {"aggr": "max"}], ids=str)
@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_convolutions_with_another_flow_or_aggregation_match_pyg(beside_pyg, name, options):
    pair = beside_pyg.pair(name, (6, 6), 4, 2, **options)
    assert not pair[1].fused
    x, edge_index = _inputs(None, torch.float64)
    beside_pyg.check(*pair, (x, x.sin()), edge_index)


@pytest.mark.parametrize("cls", [GATConv, GATv2Conv, TransformerConv])
def test_output_at_a_million_equal_neighbours_is_the_mean_of_their_values(cls):
    torch.manual_seed(0)
    layer = cls(6, 1, bias=False)
    x = torch.randn(1, 6).expand(1000, 6)
    edge_index = torch.zeros(2, 1_000_000, dtype=torch.int64)
    edge_index[0] = torch.arange(1_000_000) % 1000
    out = layer(x, edge_index)
    assert torch.isfinite(out).all()
    # All neighbours have the same value, so their weighted mean is this value.
    single = layer(x[:2], torch.tensor([[1], [0]]))
    torch.testing.assert_close(out[0], single[0], rtol=1e-4, atol=1e-4)
    out[0].sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)
