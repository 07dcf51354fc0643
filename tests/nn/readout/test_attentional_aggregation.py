import pytest
import torch
import torch_geometric.nn as pyg
from torch_geometric.nn import MLP

from gattn.nn import AttentionalAggregation


def _batch():
    generator = torch.Generator().manual_seed(0)
    index = torch.tensor([0, 0, 0, 2, 2, 3])
    return torch.randn(6, 8, generator=generator, dtype=torch.float64), index


def _networks(kind):
    torch.manual_seed(0)
    if kind == "node":
        return torch.nn.Linear(8, 1), torch.nn.Linear(8, 6)
    if kind == "feature":
        return torch.nn.Linear(8, 6), torch.nn.Linear(8, 6)
    if kind == "bare":
        return torch.nn.Linear(8, 1), None
    return MLP([8, 4, 1], norm="graph_norm"), MLP([8, 6], norm=None)


@pytest.mark.parametrize("kind", ["node", "feature", "bare", "mlp"])
def test_attentional_aggregation_matches_pyg_for_each_kind_of_gate(kind):
    theirs = pyg.AttentionalAggregation(*_networks(kind)).double()
    ours = AttentionalAggregation(*_networks(kind)).double()
    ours.reset_parameters()
    ours.load_state_dict(theirs.state_dict())
    x, index = _batch()
    x.requires_grad_()
    expected = theirs(x, index, dim_size=5)
    out = ours(x, index, dim_size=5)
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)
    assert torch.equal(out[[1, 4]], torch.zeros_like(out[:2]))
    inputs = [x, *theirs.parameters()], [x, *ours.parameters()]
    expected_grads = torch.autograd.grad(expected.square().sum(), inputs[0])
    grads = torch.autograd.grad(out.square().sum(), inputs[1])
    torch.testing.assert_close(grads, expected_grads, rtol=1e-9, atol=1e-9)
    ptr = torch.tensor([0, 3, 3, 5, 6, 6])
    torch.testing.assert_close(ours(x, ptr=ptr), out)


def test_gate_whose_width_does_not_divide_the_features_raises_error():
    readout = AttentionalAggregation(torch.nn.Linear(8, 3)).double()
    x, index = _batch()
    with pytest.raises(ValueError, match=r"width of the gate must divide 8, .*; got 3"):
        readout(x, index, dim_size=4)


@pytest.mark.parametrize("gate", [1, 2, 6])
@pytest.mark.parametrize("dim", [1, -2])
def test_attentional_aggregation_matches_pyg_along_other_dimensions(gate, dim):
    networks = torch.nn.Linear(4, gate), torch.nn.Linear(4, 6)
    x, index = torch.randn(3, 5, 4), torch.tensor([0, 0, 1, 1, 3])
    theirs, ours = (
        kind(*networks) for kind in (pyg.AttentionalAggregation, AttentionalAggregation)
    )
    if gate == 2:  # PyG has no gate for blocks of features, so each set is compared alone.
        expected = torch.stack([ours(rows, index, dim_size=5) for rows in x])
    else:
        expected = theirs(x, index, dim_size=5, dim=dim)
    torch.testing.assert_close(ours(x, index, dim_size=5, dim=dim), expected)
    assert repr(ours) == repr(theirs)
