import pytest
import torch

from gattn import graphs
from gattn.functional import dot_product_attention
from gattn.nn import RelativeBias, token_offsets


def _bias(kinds, heads=2):
    torch.manual_seed(0)
    bias = RelativeBias(kinds, heads)
    assert torch.equal(bias.weight, torch.zeros(kinds, heads))
    torch.nn.init.normal_(bias.weight)
    return bias


def test_relative_bias_returns_the_weights_of_each_kind():
    bias = _bias(3)
    kind = torch.tensor([2, 0, 0, 1])
    assert torch.equal(bias(kind), bias.weight[kind])
    assert bias(kind[:0]).shape == (0, 2)
    assert torch.autograd.gradcheck(
        lambda w: torch.func.functional_call(bias, {"weight": w}, (kind,)),
        (bias.weight.detach().double().requires_grad_(),),
    )


def test_attention_with_offset_bias_equals_attention_with_dense_scores():
    """The attention with a bias for each offset equals attention with a dense matrix of scores."""
    graph, bias = graphs.causal([5]), _bias(7)
    q, k, v = torch.randn(3, 5, 2, 4)
    out = dot_product_attention(q, k, v, graph, attn_bias=bias(token_offsets(graph, 3)))
    offset = torch.arange(5) - torch.arange(5)[:, None]  # the offset of key j from query i is j - i
    score = torch.einsum("ihc,jhc->hij", q, k) / 2 + bias.weight.t()[:, offset.clamp(-3, 3) + 3]
    weights = score.masked_fill(offset > 0, -torch.inf).softmax(-1)
    torch.testing.assert_close(out, torch.einsum("hij,jhc->ihc", weights, v))


def test_relative_bias_on_a_grid_depends_on_the_offset_of_the_cells():
    bias, kinds = _bias(9), graphs.grid_offsets((4, 3), 1, batch=2)
    graph = graphs.grid((4, 3), 1, batch=2)
    row, col = (graph.edge_index % 12).div(3, rounding_mode="floor"), graph.edge_index % 3
    expected = (row[0] - row[1] + 1) * 3 + (col[0] - col[1] + 1)
    assert torch.equal(bias(kinds), bias.weight[expected])


def test_relative_bias_has_settings_in_its_repr_and_raises_error_for_an_invalid_kind():
    assert repr(_bias(3)) == "RelativeBias(3, heads=2)"
    with pytest.raises(ValueError, match=r"kind must be in \[0, 3\); got 0 to 3"):
        _bias(3)(torch.tensor([0, 3]))
