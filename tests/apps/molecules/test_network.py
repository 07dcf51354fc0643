"""The networks: a molecule's prediction depends on its graph alone, not on the batch."""

import pytest
import torch

from gattn import explain_path
from gattn.apps.molecules.network import MoleculeNetwork
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import batch_molecules, smiles_to_data
from gattn.nn import GATConv

SETTINGS = MoleculeSettings(width=16, layers=2, dropout=0.2)

pytest.importorskip("rdkit")


def test_company_and_the_order_of_atoms_do_not_matter() -> None:
    network = MoleculeNetwork(SETTINGS, 3).double().eval()

    def ask(*texts: str) -> torch.Tensor:
        batch = batch_molecules([smiles_to_data(text) for text in texts])
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
        return network(batch)

    alone = ask("OCC(=O)N")
    torch.testing.assert_close(ask("C", "OCC(=O)N", "c1ccccc1")[1:2], alone)
    torch.testing.assert_close(ask("NC(=O)CO"), alone)
    assert alone.shape == (1, 3)


def test_every_weight_learns_and_single_atoms_pass() -> None:
    network = MoleculeNetwork(SETTINGS, 1)
    batch = batch_molecules(
        [smiles_to_data("C"), smiles_to_data("CCO"), smiles_to_data("CC(N)(F)c1ccc(O)cc1")]
    )
    network(batch).square().sum().backward()
    still = [n for n, p in network.named_parameters() if p.grad is None or not p.grad.any()]
    # A term of the destination cancels in the softmax if all scores of a row have the same sign, so
    # its gradient may be zero.
    assert [name for name in still if not name.endswith(".att_dst")] == []
    assert network.embed(batch).shape[0] == 3


def test_the_network_adds_the_loops_that_its_layers_would_add() -> None:
    network = MoleculeNetwork(SETTINGS, 1).eval()
    batch = batch_molecules([smiles_to_data(text) for text in ("CCO", "C", "c1ccccc1C(=O)O")])
    x = network.atoms(batch.x).relu()
    for norm, conv in zip(network.norms, network.convs):
        layer = GATConv(16, 2, 8, edge_dim=batch.edge_attr.shape[1])
        layer.load_state_dict(conv.state_dict())
        x = x + torch.nn.functional.elu(layer(norm(x), batch.edge_index, batch.edge_attr))
    assert torch.equal(network.atom_states(batch), x)


def test_explain_path_lists_the_kernel_of_the_network_or_its_layers() -> None:
    network = MoleculeNetwork(SETTINGS, 1).eval()
    batch = batch_molecules([smiles_to_data(text) for text in ("CCO", "C", "c1ccccc1")])
    (record,) = explain_path(network, batch).records
    assert (record.layer, record.operator) == ("MoleculeNetwork", "molecule_network")
    assert (record.backend, record.path, record.reason) == ("cpu", "fused", "")
    assert network(batch).isfinite().all()

    whole, *layers = explain_path(network.train(), batch).records
    assert whole.path == "layer by layer"
    assert whole.reason.startswith("not one kernel: the kernel computes no dropout")
    assert [layer.layer for layer in layers] == ["BondAttention", "BondAttention", "QueryReadout"]
    assert {layer.path for layer in layers} == {"fused"}
    assert layers[0].operator == "node_scores, gat_attention"

    batch.x.requires_grad_()
    whole = explain_path(network.eval(), batch).records[0]
    assert whole.reason == "not one kernel: the kernel computes no gradients of the atoms and bonds"
