import pytest
import torch

from gattn.nn import LinearAttention


def _layer():
    torch.manual_seed(0)
    return LinearAttention(8, heads=2)


def test_linear_attention_matches_its_equation():
    layer = _layer().double()
    x = torch.randn(5, 8, dtype=torch.float64)
    phi = lambda z: torch.nn.functional.elu(z).view(5, 2, 4) + 1  # noqa: E731
    score = torch.einsum("ihc,jhc->ijh", phi(layer.lin_query(x)), phi(layer.lin_key(x)))
    weights = score / score.sum(1, keepdim=True)
    summed = torch.einsum("ijh,jhc->ihc", weights, layer.lin_value(x).view(5, 2, 4))
    torch.testing.assert_close(layer(x), layer.lin_out(summed.flatten(1)))


def test_linear_attention_gives_equal_outputs_for_index_and_ptr():
    layer = _layer()
    x, index = torch.randn(5, 8), torch.tensor([0, 0, 2, 2, 2])
    out = layer(x, index, dim_size=3)
    assert torch.equal(layer(x, ptr=torch.tensor([0, 2, 2, 5])), out)
    assert not torch.equal(layer(x), out)


def test_linear_attention_requires_heads_to_divide_channels_by_default():
    assert LinearAttention(8, heads=3, head_channels=5)(torch.randn(2, 8)).shape == (2, 8)
    with pytest.raises(ValueError, match=r"heads must divide channels \(8\); got heads=3"):
        LinearAttention(8, heads=3)
    layer = _layer()
    before = layer.lin_query.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.lin_query.weight, before)
    assert repr(layer) == "LinearAttention(8, heads=2, feature_map='elu')"
