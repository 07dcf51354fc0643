"""The networks: a molecule's prediction depends on its graph alone, not on the batch."""

import torch

from gattn import explain_path
from gattn.apps.molecules.network import MoleculeNetwork
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import batch_molecules, smiles_to_data

SETTINGS = MoleculeSettings(width=16, layers=2, dropout=0.2)


def test_outputs_do_not_depend_on_the_batch_or_the_order_of_atoms() -> None:
    network = MoleculeNetwork(SETTINGS, 3).double().eval()

    def ask(*texts: str) -> torch.Tensor:
        batch = batch_molecules([smiles_to_data(text) for text in texts])
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
        return network(batch)

    alone = ask("OCC(=O)N")
    torch.testing.assert_close(ask("C", "OCC(=O)N", "c1ccccc1")[1:2], alone)
    torch.testing.assert_close(ask("NC(=O)CO"), alone)
    assert alone.shape == (1, 3)


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
