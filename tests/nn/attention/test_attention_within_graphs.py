"""SGFormerAttention and PolynormerAttention compared with PyG's layers, which sum in torch's
default dtype.
"""

import pytest
import torch
from torch_geometric.nn import attention

from gattn import nn
from gattn.nn import record_attention

OPTIONS = {
    "SGFormerAttention": {"heads": 2, "head_channels": 5, "qkv_bias": True},
    "SGFormerAttention, plain": {"head_channels": None},
    "PolynormerAttention": {"heads": 2, "head_channels": 5},
    "PolynormerAttention, queries": {
        "heads": 1, "head_channels": 5, "qk_shared": False, "qkv_bias": True, "beta": 0.3,
    },
}  # fmt: skip
SIZES = 1, 0, 3, 4


@pytest.fixture(autouse=True)
def in_double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(params=OPTIONS)
def pair(request, beside_pyg):
    name = request.param.split(",")[0]
    theirs, ours = getattr(attention, name), getattr(nn, name)
    return beside_pyg.pair(name, 6, theirs=theirs, ours=ours, **OPTIONS[request.param])


def _index():
    return torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))


def test_sets_of_one_size(beside_pyg, pair):
    for shape in ((1, 4), (3, 5), (2, 1)):
        beside_pyg.check(*pair, beside_pyg.draw(*shape, 6), where=str(shape))
    beside_pyg.check(*pair, torch.zeros(1, 3, 6), where="zeros")


def test_each_graph_alone(beside_pyg, pair):
    """For a batch in any order, the output and the gradients of each graph equal those of PyG for
    the graph alone.
    """
    theirs, ours = pair
    index = _index()[torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    x = beside_pyg.draw(8, 6).requires_grad_()
    out, expected = ours(x, index=index, dim_size=5), []
    weight = beside_pyg.draw(*out.shape, seed=1)
    for graph in (0, 2, 3):
        rows = (index == graph).nonzero().squeeze(1)
        (alone,) = theirs(x[rows][None])
        torch.testing.assert_close(out[rows], alone)
        expected.append((alone * weight[rows]).sum())
    inputs = [x, *ours.parameters()], [x, *theirs.parameters()]
    grads = torch.autograd.grad((out * weight).sum(), inputs[0], allow_unused=True)
    expected_grads = torch.autograd.grad(sum(expected), inputs[1], allow_unused=True)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad)


def test_padded_sets(beside_pyg, pair):
    layer, x, index = pair[1], beside_pyg.draw(8, 6), _index()
    mask = torch.arange(4) < torch.tensor(SIZES)[:, None]
    padded = torch.full((4, 4, 6), torch.nan)
    padded[mask] = x
    out = layer(padded, mask)
    torch.testing.assert_close(out[mask], layer(x, index=index))
    assert not out[~mask].any()
    assert layer(x[:0]).shape[0] == 0
    assert layer(padded[:0], mask[:0]).shape[:2] == (0, 4)


def test_weights_are_told(beside_pyg, pair):
    layer, x, index = pair[1], beside_pyg.draw(8, 6), _index()
    with record_attention(layer) as records:
        layer(x, index=index)
    (record,) = records
    source, destination = record.edge_index
    # Graphs of 1, 3 and 4 nodes have 1 + 9 + 16 pairs.
    assert record.weights.shape == (26, layer.heads)
    assert torch.equal(index[source], index[destination])
    sums = torch.zeros(8, layer.heads).index_add(0, destination, record.weights)
    torch.testing.assert_close(sums, torch.ones_like(sums))
    if isinstance(layer, nn.SGFormerAttention):
        value = layer.v(x).unflatten(1, (layer.heads, -1))[source]
        summed = torch.zeros(8, *value.shape[1:])
        summed.index_add_(0, destination, record.weights.unsqueeze(-1) * value)
        torch.testing.assert_close(summed.mean(1), layer(x, index=index))


def test_derivatives(beside_pyg, pair):
    layer, index = pair[1], torch.tensor([1, 0, 1])
    x = beside_pyg.draw(3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, index=index), (x,))
    assert torch.autograd.gradgradcheck(lambda x: layer(x, index=index)[:, :2], (x,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiles_in_one_graph(beside_pyg, pair):
    torch.compiler.reset()
    layer, index = pair[1], torch.tensor([1, 0, 1])
    x = beside_pyg.draw(3, 6).requires_grad_()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    out, expected = (f(x, index=index, dim_size=3) for f in (compiled, layer))
    torch.testing.assert_close(out, expected)
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    (expected_grad,) = torch.autograd.grad(expected.square().sum(), x)
    torch.testing.assert_close(grad, expected_grad)
    torch.compiler.reset()


def test_half_precision_and_autocast(beside_pyg, pair):
    layer, x = pair[1].float(), beside_pyg.draw(5, 6).float()
    expected = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)
    half = layer.bfloat16()(x.bfloat16())
    torch.testing.assert_close(half.float(), expected, rtol=0.1, atol=0.1)


def test_errors(pair):
    layer, x = pair[1], torch.randn(2, 3, 6)
    with pytest.raises(ValueError, match=r"mask must have shape \(2, 3\); got \(3, 2\)"):
        layer(x, torch.ones(3, 2, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"mask must contain booleans; got torch\.int64"):
        layer(x, torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(
        ValueError, match=r"index, ptr and dim_size are only for x of shape \(n, d\)"
    ):
        layer(x, index=torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"mask is only for x of shape \(g, n, d\); got \(3, 6\)"):
        layer(x[0], torch.ones(3, dtype=torch.bool))
    with pytest.raises(ValueError, match="x must have 6 features"):
        layer(x[..., :5])


def test_settings():
    with pytest.raises(ValueError, match=r"heads must divide channels \(6\); got heads=4"):
        nn.SGFormerAttention(6, 4)
    with pytest.raises(ValueError, match="heads must be an int >= 1; got 0"):
        nn.PolynormerAttention(6, 0)
    with pytest.raises(ValueError, match="dropout must be a probability"):
        nn.PolynormerAttention(6, 1, dropout=2.0)
