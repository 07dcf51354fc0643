"""SGFormerAttention and PolynormerAttention compared with PyG's layers, which sum in torch's
default dtype.
"""

import pytest
import torch
from torch_geometric.nn import attention

from gattn import nn

OPTIONS = {
    "SGFormerAttention": {"heads": 2, "head_channels": 5, "qkv_bias": True},
    "SGFormerAttention, plain": {"head_channels": None},
    "PolynormerAttention": {"heads": 2, "head_channels": 5},
    "PolynormerAttention, queries": {
        "heads": 1, "head_channels": 5, "qk_shared": False, "qkv_bias": True, "beta": 0.3,
    },
}  # fmt: skip
SIZES = 1, 0, 3, 4


pytestmark = pytest.mark.usefixtures("in_double")


@pytest.fixture(params=OPTIONS)
def pair(request, beside_pyg):
    name = request.param.split(",")[0]
    theirs, ours = getattr(attention, name), getattr(nn, name)
    return beside_pyg.pair(name, 6, theirs=theirs, ours=ours, **OPTIONS[request.param])


def _index():
    return torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))


def test_attention_within_sets_of_equal_size_matches_pyg(beside_pyg, pair):
    for shape in ((1, 4), (3, 5), (2, 1)):
        beside_pyg.check(*pair, beside_pyg.draw(*shape, 6), where=str(shape))
    beside_pyg.check(*pair, torch.zeros(1, 3, 6), where="zeros")


def test_padded_rows_do_not_change_the_attention_of_other_rows(beside_pyg, pair):
    layer, x, index = pair[1], beside_pyg.draw(8, 6), _index()
    mask = torch.arange(4) < torch.tensor(SIZES)[:, None]
    padded = torch.full((4, 4, 6), torch.nan)
    padded[mask] = x
    out = layer(padded, mask)
    torch.testing.assert_close(out[mask], layer(x, index=index))
    assert not out[~mask].any()
    assert layer(x[:0]).shape[0] == 0
    assert layer(padded[:0], mask[:0]).shape[:2] == (0, 4)


def test_derivatives_of_attention_within_graphs_pass_gradcheck(beside_pyg, pair):
    layer, index = pair[1], torch.tensor([1, 0, 1])
    x = beside_pyg.draw(3, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, index=index), (x,), fast_mode=True)
    assert torch.autograd.gradgradcheck(
        lambda x: layer(x, index=index)[:, :2], (x,), fast_mode=True
    )


def test_attention_within_graphs_in_bfloat16_or_under_autocast_is_near_fp32(beside_pyg, pair):
    layer, x = pair[1].float(), beside_pyg.draw(5, 6).float()
    expected = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.1, atol=0.1)
    half = layer.bfloat16()(x.bfloat16())
    torch.testing.assert_close(half.float(), expected, rtol=0.1, atol=0.1)


def test_invalid_mask_index_or_width_of_attention_within_graphs_raises_error(pair):
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
