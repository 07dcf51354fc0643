"""The networks: a molecule's prediction does not depend on the batch, and reads columns."""

from typing import Any

import torch

from gattn import explain_path
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.members import MoleculeBatches
from gattn.apps.molecules.network import (
    MoleculeColumns,
    MoleculeNetwork,
    batch_inputs,
    network_counts,
)
from gattn.apps.molecules.predictor import MoleculePredictor
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.data import batch_molecules, smiles_to_data

SETTINGS = MoleculeSettings(width=16, layers=2, dropout=0.2)


def test_molecule_network_does_not_depend_on_batch_or_order_of_atoms() -> None:
    network = MoleculeNetwork(SETTINGS, 3).double().eval()

    def ask(*texts: str) -> torch.Tensor:
        batch = batch_molecules([smiles_to_data(text) for text in texts])
        batch.x, batch.edge_attr = batch.x.double(), batch.edge_attr.double()
        return network(batch)

    alone = ask("OCC(=O)N")
    torch.testing.assert_close(ask("C", "OCC(=O)N", "c1ccccc1")[1:2], alone)
    torch.testing.assert_close(ask("NC(=O)CO"), alone)
    assert alone.shape == (1, 3)


def test_explain_path_lists_one_kernel_for_a_molecule_network_or_why_it_runs_layer_by_layer() -> (
    None
):
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


CHAINS = ["C" * n + end for n in range(1, 9) for end in ("O", "N", "C(=O)O", "c1ccccc1")]


def test_standardised_fingerprint_counts_have_mean_zero_and_half_are_dropped_in_training():
    inputs = featurise([*CHAINS, "Cl"]).inputs
    parts = (batch_inputs(some, counts=True) for some in (inputs[:20], inputs[20:]))
    columns = MoleculeColumns.fit(parts).eval()
    batch = batch_inputs(inputs, counts=True)
    frequent = (network_counts(inputs) > 0).sum(0) >= 3
    assert columns.columns.tolist() == frequent.nonzero()[:, 0].tolist()
    z = columns(batch)
    assert z.abs().max() < 6
    torch.testing.assert_close(z.mean(0), torch.zeros(z.shape[1]), rtol=0, atol=1e-4)
    torch.manual_seed(0)
    values = columns.train()(batch)[z != 0]
    assert abs(float((values == 0).double().mean()) - columns.missing) < 0.05


def test_more_fingerprint_counts_are_dropped_in_training_if_molecules_are_less_similar():
    part = featurise(CHAINS).inputs, torch.zeros(32, 1), torch.ones(32)
    for similarity, missing in ((0.59, 0.8), (0.6, 0.5)):
        batches = MoleculeBatches(*part, columns=True, similarity=similarity)
        assert batches.make_network(MoleculeSettings(), seed=0).columns.missing == missing


def attention_model():
    inputs = featurise(CHAINS).inputs
    y = torch.tensor([[float(len(text))] for text in CHAINS])
    train, val = (FitPart(inputs[i::4], y[i::4], torch.ones(len(y[i::4]))) for i in (0, 1))
    settings = MoleculeSettings(model="attention", width=16, layers=1, epochs=3)
    return MoleculePredictor.fit(train, val, TASKS["regression"], settings)


def test_restored_network_with_descriptors_and_counts_predicts_as_the_original():
    model, new = attention_model(), featurise(["CCCCS", "OCCO"]).inputs
    network: Any = model.networks[0]
    assert network.head[0].in_features == 5 * 16 + len(network.columns.mean)
    restored = MoleculePredictor.from_state(*model.state())
    assert torch.equal(restored.predict(new).mean, model.predict(new).mean)
