"""The layers of the networks of molecules equal the layers of gattn.nn, bit by bit."""

import pytest
import torch
from torch import nn

from gattn.apps.molecules.network import BondAttention, QueryReadout, with_atom_loops
from gattn.data import BOND_FEATURES, batch_molecules, read_smiles
from gattn.nn import GATConv, LearnedQueryReadout

SMILES = ["CCO", "C", "c1ccccc1C(=O)O", "[Na+].[Cl-]", "C1CC1"]
CONV = {
    "ours": lambda: BondAttention(32, 8, 4, len(BOND_FEATURES)),
    "theirs": lambda: GATConv(32, 8, 4, edge_dim=len(BOND_FEATURES)),
}
READOUT = {
    "ours": lambda: QueryReadout(32, 4, 4),
    "theirs": lambda: LearnedQueryReadout(32, 32, num_queries=4, heads=4),
}


def both(makers) -> tuple[nn.Module, nn.Module]:
    """Create both layers from the same seed."""
    layers = []
    for make in makers.values():
        torch.manual_seed(3)
        layers.append(make())
    return layers[0], layers[1]


def gradients(layer: nn.Module, out: torch.Tensor, x: torch.Tensor) -> dict[str, torch.Tensor]:
    parameters = dict(layer.named_parameters())
    loss = (out.float() * torch.linspace(-1, 1, out.shape[-1])).sum()
    values = torch.autograd.grad(loss, [x, *parameters.values()])
    return dict(zip(("x", *parameters), values))


@pytest.mark.bits
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("edges", ["molecules", "no bonds", "gradient of bonds"])
def test_bond_attention_equals_gat_conv(edges, autocast) -> None:
    batch = batch_molecules(read_smiles(["C", "N"] if edges == "no bonds" else SMILES))
    ours, theirs = both(CONV)
    x = torch.randn(len(batch.x), 32, requires_grad=True)
    bonds = batch.edge_attr.requires_grad_(edges == "gradient of bonds")
    with torch.autocast("cpu", enabled=autocast):
        graph, features = with_atom_loops(batch.edge_index, bonds, len(x))
        out, expected = ours(x, graph, features), theirs(x, batch.edge_index, bonds)
    if bonds.requires_grad:  # if bonds need a gradient, GATConv averages scores instead of features
        torch.testing.assert_close(out, expected, atol=1e-2 if autocast else 1e-6, rtol=1e-4)
        theirs.add_self_loops = False
        with torch.autocast("cpu", enabled=autocast):
            expected = theirs(x, graph, features)
    assert torch.equal(out, expected)
    result, reference = gradients(ours, out, x), gradients(theirs, expected, x)
    for name, gradient in reference.items():
        assert torch.equal(result[name], gradient), name


@pytest.mark.bits
@pytest.mark.parametrize("autocast", [False, True])
def test_query_readout_equals_learned_query_readout(autocast) -> None:
    ours, theirs = both(READOUT)
    x, ptr = torch.randn(7, 32, requires_grad=True), torch.tensor([0, 3, 3, 7])
    with torch.autocast("cpu", enabled=autocast):
        out, expected = ours(x, ptr), theirs(x, ptr=ptr)
    assert torch.equal(out, expected)
    result, reference = gradients(ours, out, x), gradients(theirs, expected, x)
    for name, gradient in reference.items():
        assert torch.equal(result[name], gradient), name
