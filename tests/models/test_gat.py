import pytest
import torch

from gattn import Graph
from gattn.models import GAT


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 4, "out_channels": 3},
        {"heads": 2, "v2": True, "edge_dim": 3, "norm": "graph_norm", "jk": "cat"},
        {"heads": 3, "concat": False, "residual": True, "act": "elu", "act_first": True},
    ],
    ids=str,
)
def test_gat_matches_pyg_for_heads_norms_and_jumping_knowledge(beside_pyg, options):
    pair = beside_pyg.pair("GAT", 6, 8, 3, ours=GAT, **options)
    for case in beside_pyg.graphs():
        x = beside_pyg.draw(case.size[0], 6)
        edge_attr = None
        if "edge_dim" in options:
            edge_attr = beside_pyg.draw(case.edge_index.shape[1], 3)
        beside_pyg.check(*pair, x, case.edge_index, edge_attr=edge_attr, where=case.name)


@pytest.mark.parametrize("v2", [False, True])
def test_gat_passes_edge_weights_to_every_layer(v2):
    torch.manual_seed(0)
    model, x = GAT(6, 8, 2, 3, heads=2, v2=v2), torch.randn(4, 6)
    edge_index, weight = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.rand(3)
    first, last = model.convs
    hidden = first(x, edge_index, edge_weight=weight).relu()
    expected = last(hidden, edge_index, edge_weight=weight)
    torch.testing.assert_close(model(x, edge_index, edge_weight=weight), expected)


def kept_for_the_backward(model, x, graph):
    """Return the number of bytes that autograd saves, the output, and all gradients."""
    kept_rows = []

    def pack(tensor):
        kept_rows.append(tensor.nbytes)
        return tensor

    x.grad = None
    model.zero_grad()
    torch.manual_seed(3)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(x, graph)
    out.square().sum().backward()
    return sum(kept_rows), [out.detach(), x.grad, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("v2", [False, True])
def test_checkpointed_layers_store_less_memory_and_give_the_same_bits_as_plain_layers(v2):
    graph, x = Graph(torch.randint(200, (2, 900)), 200), torch.randn(200, 6, requires_grad=True)
    actual = []
    for checkpoint in (False, True):
        torch.manual_seed(0)
        model = GAT(6, 32, 3, 5, dropout=0.4, heads=4, v2=v2, checkpoint=checkpoint)
        actual.append(kept_for_the_backward(model, x, graph))
    (plain, expected), (less, got) = actual
    assert less < 0.4 * plain
    assert all(torch.equal(mine, other) for mine, other in zip(got, expected))
