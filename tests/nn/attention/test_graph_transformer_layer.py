import pytest
import torch

from gattn import Graph
from gattn.nn import GATConv, GraphTransformerLayer

LAYERS = {
    "full": lambda: GraphTransformerLayer(4, 2),
    "linear": lambda: GraphTransformerLayer(4, 2, global_attention="linear"),
    "additive": lambda: GraphTransformerLayer(4, 2, score="additive"),
    "around another layer": lambda: GraphTransformerLayer(4, 2, local=GATConv(4, 2, heads=2)),
}


def _make(name):
    torch.manual_seed(0)
    return LAYERS[name]()


def _batch():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 0, 4, 3]])
    return x, edges, torch.tensor([0, 0, 0, 1, 1])


def test_matches_its_equation():
    layer = _make("full").double()
    x, edges, batch = _batch()
    same = batch[:, None] == batch
    complete = same.nonzero().t().flip(0).contiguous()
    local = layer.local_attention(x, x, x, Graph(edges, 5))
    globally = layer.global_attention(x, x, x, Graph(complete, 5))
    y = layer.norm1(x + local) + layer.norm2(x + globally)
    torch.testing.assert_close(layer(x, edges, batch), layer.norm3(y + layer.mlp(y)))


def test_global_attention_reaches_where_no_edge_leads():
    layer = _make("full").double()
    x, edges, batch = _batch()
    x.requires_grad_()
    out = layer(x, edges[:, :0], batch, batch_size=2)
    (reach,) = torch.autograd.grad(out[0].square().sum(), x)
    assert (reach[:3] != 0).any(dim=1).all()
    assert torch.equal(reach[3:], torch.zeros(2, 4, dtype=torch.float64))


def test_reset_and_errors():
    layer = _make("full")
    before = {name: p.clone() for name, p in layer.named_parameters() if p.dim() > 1}
    layer.reset_parameters()
    assert all(not torch.equal(p, before[n]) for n, p in layer.named_parameters() if p.dim() > 1)
    with pytest.raises(ValueError, match=r"global_attention must be one of .*; got 'no'"):
        GraphTransformerLayer(4, global_attention="no")
    with pytest.raises(ValueError, match="edge_dim is only for the built-in local attention"):
        GraphTransformerLayer(4, local=GATConv(4, 4), edge_dim=3)
