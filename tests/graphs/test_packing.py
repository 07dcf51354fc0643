"""Tests of packing padded batches into rows with one graph, and of unpacking them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gattn
from gattn import graphs


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_unpack_restores_the_packed_rows(data):
    lengths = data.draw(st.lists(st.integers(0, 5), max_size=5))
    length = max(lengths, default=0) + data.draw(st.integers(0, 2))
    x = torch.randn(len(lengths), length, 3)
    rows, sizes = graphs.pack(x, lengths)
    assert sizes == tuple(lengths)
    assert torch.equal(rows, torch.cat([torch.empty(0, 3), *(s[:n] for s, n in zip(x, lengths))]))
    mask = torch.arange(length) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    for same in (torch.tensor(lengths, dtype=torch.int64), mask):
        again, sizes = graphs.pack(x, same)
        assert torch.equal(again, rows)
        assert sizes == tuple(lengths)
    padded = graphs.unpack(rows, sizes, length, fill=7.0)
    assert torch.equal(padded, torch.where(mask[:, :, None], x, torch.tensor(7.0)))
    assert graphs.unpack(rows, sizes).shape[1] == max(lengths, default=0)


def test_attention_on_packed_sequences_equals_that_on_padded_sequences():
    """Compare packed attention with padded attention; padding has no gradient."""
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    tokens = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], dtype=torch.bool)
    rows, sizes = graphs.pack(x, tokens)
    graph = graphs.complete(sizes)
    q, k, v = torch.nn.functional.linear(rows, layer.in_proj_weight, layer.in_proj_bias).chunk(3, 1)
    q, k, v = (t.unflatten(1, (2, 4)) for t in (q, k, v))
    out = gattn.functional.dot_product_attention(q, k, v, graph).flatten(1)
    out = graphs.unpack(layer.out_proj(out), sizes)
    expected, _ = layer(x, x, x, key_padding_mask=~tokens, need_weights=False)
    torch.testing.assert_close(graphs.pack(out, sizes)[0], expected[tokens])
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad.abs().sum(2) > 0, tokens)
    # A tokenizer returns the mask as integers.
    assert torch.equal(graphs.pack(x, tokens.long())[0], x[tokens])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: graphs.pack([1], [1]), TypeError, "x must be a tensor; got list"),
        (lambda x: graphs.pack(x[0, 0], [1]), ValueError, r"shape \(b, t, ...\); got \(4,\)"),
        (lambda x: graphs.pack(x, [1]), ValueError, "lengths must be 2, one for each .*; got 1"),
        (lambda x: graphs.pack(x, [1, 4]), ValueError, "lengths must be <= 3, .*; got 4"),
        (lambda x: graphs.pack(x, [1, -1]), ValueError, "lengths must be >= 0; got -1"),
        (lambda x: graphs.pack(x, 3), TypeError, "lengths must be a list of ints"),
        (lambda x: graphs.pack(x, torch.ones(2)), TypeError, "integers or bools; got torch.fl"),
        (lambda x: graphs.pack(x, torch.ones(3).int()), ValueError, r"\(2,\); got \(3,\)"),
        (lambda x: graphs.pack(x, 2 * torch.ones(2, 3).int()), ValueError, "1 at tokens and 0 at"),
        (lambda x: graphs.pack(x, x[..., 0, None] > 0), ValueError, r"\(2, 3\); got \(2, 3, 1\)"),
        (lambda x: graphs.unpack([1], [1]), TypeError, "rows must be a tensor; got list"),
        (lambda x: graphs.unpack(x[0], [1]), ValueError, r"\(1, ...\); got \(3, 4\)"),
        (lambda x: graphs.unpack(x[0], [3], 2), ValueError, "length must be >= 3, .*; got 2"),
    ],
)
def test_invalid_rows_lengths_or_masks_of_packing_raise_error(call, error, message):
    with pytest.raises(error, match=message):
        call(torch.randn(2, 3, 4))


@pytest.mark.parametrize("make", [gattn.nn.GATConv, gattn.nn.TransformerConv])
def test_padded_batch_raises_error_that_suggests_pack(make):
    x, graph = torch.randn(3, 9, 32), graphs.causal([9] * 3)
    with pytest.raises(ValueError, match=r"padded batch of 3 sequences: .* gattn.graphs.pack\(x"):
        make(32, 4)(x, graph)
    with pytest.raises(ValueError, match=r"query and key must have .* padded batch of 3 sequences"):
        gattn.nn.GraphAttention(32, heads=4)(x, x, x, graph)
    rows, sizes = graphs.pack(x, [9] * 3)
    assert make(32, 4)(rows, graphs.causal(sizes)).shape == (27, 4)


def test_padded_batch_of_unequal_lengths_raises_error_that_suggests_pack():
    x, graph = torch.randn(3, 9, 4, 8), graphs.causal([9, 4, 6])
    with pytest.raises(ValueError, match=r"padded batch of 3 sequences: .* gattn.graphs.pack\(x"):
        gattn.nn.TransformerBlock(32, heads=4)(x.flatten(2), graph)
    with pytest.raises(ValueError, match=r"\(3, 9, 4, 8\); gattn.graphs.pack removes the padding"):
        gattn.functional.dot_product_attention(x, x, x, graph)
