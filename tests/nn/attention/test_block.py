import pytest
import torch
from torch.nn import TransformerDecoderLayer, TransformerEncoderLayer
from torch.nn.utils.rnn import pad_sequence

from gattn import graphs
from gattn.nn import GraphAttention, RelativeBias, TransformerBlock, token_offsets

SIZES = [3, 1, 5]


def _rows(sizes=SIZES, channels=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sum(sizes), channels, generator=generator, dtype=torch.float64)


def _padded(rows, sizes=SIZES):
    padded = pad_sequence(list(rows.split(sizes)), batch_first=True)
    mask = torch.arange(max(sizes)) >= torch.tensor(sizes)[:, None]
    return padded, mask


def _copy_attention(theirs, ours):
    query, key, value = theirs.in_proj_weight.chunk(3)
    biases = theirs.in_proj_bias.chunk(3)
    linears = ours.lin_query, ours.lin_key, ours.lin_value
    for linear, weight, bias in zip(linears, (query, key, value), biases):
        linear.weight.data, linear.bias.data = weight.data, bias.data
    ours.lin_out.load_state_dict(theirs.out_proj.state_dict())


def _copy_layer(theirs, ours, *norms):
    """Draw the parameters of torch's layer, and copy those that each of our blocks has."""
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    _copy_attention(theirs.self_attn, ours.attention)
    ours.mlp[0].load_state_dict(theirs.linear1.state_dict())
    ours.mlp[3].load_state_dict(theirs.linear2.state_dict())
    for norm, other in zip(norms, (theirs.norm1, theirs.norm2, getattr(theirs, "norm3", None))):
        norm.load_state_dict(other.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_block_on_complete_graphs_equals_transformer_encoder_layer_of_torch(norm):
    torch.manual_seed(0)
    theirs = TransformerEncoderLayer(
        8, 2, 16, 0.0, "relu", batch_first=True, norm_first=norm == "pre"
    ).double()
    ours = TransformerBlock(8, 2, ff_channels=16, norm=norm, act="relu").double()
    _copy_layer(theirs, ours, ours.norm1, ours.norm3)
    x = _rows()
    padded, mask = _padded(x)
    expected = theirs(padded, src_key_padding_mask=mask)[~mask]
    torch.testing.assert_close(ours(x, graphs.complete(SIZES)), expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_block_with_memory_equals_transformer_decoder_layer_of_torch(norm):
    torch.manual_seed(0)
    theirs = TransformerDecoderLayer(
        8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=norm == "pre"
    ).double()
    ours = TransformerBlock(8, 2, ff_channels=16, norm=norm, memory_channels=8).double()
    _copy_layer(theirs, ours, ours.norm1, ours.norm2, ours.norm3)
    _copy_attention(theirs.multihead_attn, ours.cross_attention)
    memory_sizes = [2, 6, 1]
    x, memory = _rows(), _rows(memory_sizes, seed=1)
    padded, mask = _padded(x)
    padded_memory, memory_mask = _padded(memory, memory_sizes)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = theirs(padded, padded_memory, later, None, mask, memory_mask, tgt_is_causal=False)[
        ~mask
    ]
    across = graphs.bipartite(SIZES, memory_sizes)
    out = ours(x, graphs.causal(SIZES), memory=memory, memory_graph=across)
    torch.testing.assert_close(out, expected)


def test_transformer_block_adds_edge_features_and_attention_bias_to_the_scores():
    torch.manual_seed(0)
    block = TransformerBlock(8, 2, edge_dim=3).double()
    graph, x = graphs.causal(SIZES), _rows()
    edge_attr = torch.randn(graph.num_edges, 3, dtype=torch.float64)
    bias = RelativeBias(3, heads=2).double()
    torch.nn.init.normal_(bias.weight)
    attn_bias = bias(token_offsets(graph, 1))
    weights = block.attention_weights(x, graph, edge_attr=edge_attr, attn_bias=attn_bias)
    y = block.norm1(x)
    attention = block.attention
    plain = attention.attention_weights(y, y, graph, edge_attr=edge_attr)
    shifted = plain.log() + attn_bias
    destination = graph.edge_index[1]
    for node in range(9):
        rows = destination == node
        torch.testing.assert_close(weights[rows], shifted[rows].softmax(0))
    out = block(x, graph, edge_attr=edge_attr, attn_bias=attn_bias)
    assert not torch.allclose(out, block(x, graph, edge_attr=edge_attr))
    out.square().sum().backward()
    assert bias.weight.grad.abs().sum() > 0


def test_graph_attention_removes_edges_whose_attn_bias_is_minus_infinity_for_every_score():
    torch.manual_seed(0)
    graph, x = graphs.complete([4]), _rows([4])
    drop = torch.zeros(16, 1, dtype=torch.float64)
    drop[graph.edge_index[0] == 3] = -torch.inf
    for score in ("scaled_dot", "cosine", "additive", lambda q, k, e: (q * k).sum(-1)):
        attention = GraphAttention(8, heads=2, score=score).double()
        out = attention(x, x, x, graph, attn_bias=drop)
        expected = attention(x, x[:3], x[:3], graphs.bipartite([4], [3]))
        torch.testing.assert_close(out, expected)
        assert torch.equal(attention(x, x, x, graph, attn_bias=drop == 0), out)
        weights = attention.attention_weights(x, x, graph, attn_bias=drop)
        assert weights[graph.edge_index[0] == 3].eq(0).all()
        both = attention(x.expand(2, 4, 8), x.expand(2, 4, 8), x.expand(2, 4, 8), graph,
                         attn_bias=drop)  # fmt: skip
        torch.testing.assert_close(both, expected.expand(2, 4, 8))


def test_transformer_block_resets_its_parameters_and_rejects_an_invalid_norm_or_missing_memory():
    block = TransformerBlock(8, 2, memory_channels=4)
    before = {name: p.clone() for name, p in block.named_parameters() if p.dim() > 1}
    block.reset_parameters()
    assert all(not torch.equal(p, before[n]) for n, p in block.named_parameters() if p.dim() > 1)
    assert "8, heads=2, norm='pre'" in repr(block)
    x = _rows().float()
    with pytest.raises(ValueError, match=r"norm must be one of .*; got 'mid'"):
        TransformerBlock(8, norm="mid")
    with pytest.raises(ValueError, match="memory and memory_graph are required for a block"):
        block(x, graphs.complete(SIZES))
    with pytest.raises(ValueError, match="memory and memory_graph are required for a block"):
        TransformerBlock(8)(x, graphs.complete(SIZES), memory=x)
