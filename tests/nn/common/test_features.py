"""Features of a wrong width or dtype get one clear error from every module."""

import pytest
import torch

from gattn import models, nn

EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
X, BATCH = torch.randn(5, 16), torch.tensor([0, 0, 1, 1, 1])
ATTR = torch.randn(4, 3)


def fp(x, edges, attr=ATTR):
    return models.AttentiveFP(16, 8, 4, 3, 2, 1)(x, edges, attr, BATCH)


TAKERS = {
    "GATConv": lambda x: nn.GATConv(16, 4)(x, EDGES),
    "GATv2Conv": lambda x: nn.GATv2Conv(16, 4)(x, EDGES),
    "TransformerConv": lambda x: nn.TransformerConv(16, 4)(x, EDGES),
    "SuperGATConv": lambda x: nn.SuperGATConv(16, 4)(x, EDGES),
    "GraphAttention": lambda x: nn.GraphAttention(16)(x, X, X, EDGES),
    "TransformerBlock": lambda x: nn.TransformerBlock(16)(x, EDGES),
    "TransformerBlock weights": lambda x: nn.TransformerBlock(16).attention_weights(x, EDGES),
    "LinearAttention": lambda x: nn.LinearAttention(16)(x),
    "LearnedQueryReadout": lambda x: nn.LearnedQueryReadout(16, 8)(x, BATCH),
    "readout weights": lambda x: nn.LearnedQueryReadout(16, 8).attention_weights(x, BATCH),
    "SetTransformerAggregation": lambda x: nn.SetTransformerAggregation(16)(x, BATCH),
    "AttentiveFP": lambda x: fp(x, EDGES),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_node_features_of_another_width_or_dtype_raise_error(take):
    take(X)
    with pytest.raises(ValueError, match=r"(x|query) must have 16 features; got shape \(5, 15\)"):
        take(X[:, :15])
    with pytest.raises(
        TypeError, match=r"must be torch.float32, like the layer; got torch.float64"
    ):
        take(X.double())
    with torch.autocast("cpu", torch.bfloat16):
        take(X)


@pytest.mark.parametrize(
    "take",
    [
        lambda a: nn.GATConv(16, 4, edge_dim=3)(X, EDGES, a),
        lambda a: nn.GATConv(16, 4, edge_dim=3, fill_value="max")(X, EDGES, a),
        lambda a: nn.GATv2Conv(16, 4, edge_dim=3)(X, EDGES, a),
        lambda a: nn.TransformerConv(16, 4, edge_dim=3)(X, EDGES, a),
        lambda a: nn.GraphAttention(16, edge_dim=3)(X, X, X, EDGES, edge_attr=a),
        lambda a: fp(X, EDGES, a),
    ],
)
def test_edge_features_of_another_width_or_dtype_raise_error(take):
    take(ATTR)
    with pytest.raises(ValueError, match=r"edge_attr must have 3 features; got shape \(4, 2\)"):
        take(ATTR[:, :2])
    with pytest.raises(TypeError, match=r"edge_attr must be torch.float32.*got torch.float64"):
        take(ATTR.double())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fp(X, EDGES, None), TypeError, "edge_attr must be a tensor; got NoneType"),
        (lambda: nn.GPSConv(9, None)(X, EDGES), ValueError, r"x must have 9 features; got shape"),
        (lambda: nn.GATConv((16, 8), 4)(X, EDGES), ValueError, "destinations must have 8 features"),
        (lambda: nn.GATConv((16, 8), 4)((X, X), EDGES), ValueError, r"destinations .* got shape"),
        (lambda: nn.GATConv("16", 4), ValueError, "in_channels must be an int or a pair .*'16'"),
        (lambda: nn.GATv2Conv((1, 2, 3), 4), ValueError, "in_channels must be an int or a pair"),
        (lambda: nn.SuperGATConv("16", 4), ValueError, "in_channels must be an int or a pair"),
        (lambda: nn.GraphAttention(16)(None, X, X, EDGES), TypeError, "query must be a tensor"),
        (lambda: nn.GraphAttention(16)(X[0], X, X, EDGES), ValueError, "query must have shape"),
        (lambda: nn.LearnedQueryReadout(16, 8)(X, BATCH, dim_size=BATCH), TypeError, "be an int"),
        (
            lambda: nn.HGTConv({"a": 4}, 4, (["a"], [("a", "to", "a")]))(
                {"a": X[:, :4]}, {("a", "from", "a"): EDGES}
            ),
            ValueError,
            r"edge_index_dict must contain edge types of \[\('a', 'to', 'a'\)\]; got .*from",
        ),
    ],
)
def test_invalid_features_in_channels_dim_size_or_edge_types_raise_error(call, error, message):
    with pytest.raises(error, match=message):
        call()
