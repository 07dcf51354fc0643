"""Tests that several networks that are computed in one call give the same outputs as each network
alone.
"""

import pytest
import torch
import torch.nn.functional as F

from gattn.nodes.batched_gat import BatchedGAT, batch_size, can_batch
from gattn.nodes.fields import FieldInput, receptive_field, whole_graph
from gattn.nodes.network import make_network
from gattn.nodes.runs.trials import group_trials, plan_trials
from gattn.nodes.settings import NodeSettings
from gattn.training.full_batch import (
    FullBatch,
    FullBatchSettings,
    apply_each,
    fit_full_batches,
)

NODES, FEATURES, OUTPUTS = 12, 6, 3


def _networks(count: int = 3, **settings):
    options = {"width": 8, "heads": 2, "dropout": 0.0, **settings}
    return [
        make_network(NodeSettings(seed=seed, **options), FEATURES, OUTPUTS) for seed in range(count)
    ]


def _graph():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(NODES, FEATURES, generator=generator)
    edges = torch.randint(NODES, (2, 30), generator=generator)
    return F.dropout(x, 0.5), edges


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("layers", "output_heads"), [(1, 1), (2, 1), (3, 4)])
def test_outputs_and_gradients_are_those_of_each_network(sparse, layers, output_heads):
    networks = _networks(layers=layers, output_heads=output_heads)
    assert can_batch(networks)
    x, edges = _graph()
    x = x.to_sparse_csr() if sparse else x
    for field in (
        whole_graph(edges, NODES, layers),
        receptive_field(edges, NODES, torch.tensor([4, 7]), layers),
    ):
        inputs = FieldInput(x if field.nodes is None else _graph()[0][field.nodes], field)
        batched = BatchedGAT(networks[0])(networks, inputs)
        expected = apply_each(networks, inputs)
        assert torch.allclose(batched, expected, atol=1e-6)
        weights = [weight for network in networks for weight in network.parameters()]
        scale = torch.randn(batched.shape)
        pairs = zip(
            torch.autograd.grad((batched * scale).sum(), weights),
            torch.autograd.grad((expected * scale).sum(), weights),
        )
        assert all(torch.allclose(mine, theirs, atol=1e-5) for mine, theirs in pairs)


def test_training_together_gives_the_weights_of_training_alone():
    x, edges = _graph()
    inputs = FieldInput(x, whole_graph(edges, NODES, 2))
    target = (torch.arange(NODES) % OUTPUTS).double()[:, None]
    train, validate = target.clone(), target.clone()
    train[6:], validate[:6] = torch.nan, torch.nan

    def loss(output, target):
        return F.cross_entropy(output, target[:, 0].long(), reduction="none")[:, None]

    def fit(networks, apply):
        settings = FullBatchSettings(60, 3, 0.02, 5e-4, seed=0)
        parts = FullBatch(inputs, train), FullBatch(inputs, validate)
        return fit_full_batches(networks, loss, *parts, settings, apply=apply)

    together, alone = _networks(), _networks()
    histories = fit(together, BatchedGAT(together[0]))
    for network, history, other in zip(together, histories, alone, strict=True):
        (expected,) = fit([other], apply_each)
        assert (len(history.records), history.chosen) == (len(expected.records), expected.chosen)
        assert not network.training
        for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4)
    # Some trainings stopped earlier than others.
    assert len({len(history.records) for history in histories}) > 1


def test_each_network_drops_other_features_and_edges():
    x, edges = _graph()
    inputs = FieldInput(x.to_sparse_csr(), whole_graph(edges, NODES, 2))
    twins = [make_network(NodeSettings(width=8, heads=2), FEATURES, OUTPUTS) for _ in range(2)]
    apply = BatchedGAT(twins[0])
    first, second = apply(twins, inputs)
    assert not torch.allclose(first, second)
    first, second = apply([twin.eval() for twin in twins], inputs)
    assert torch.equal(first, second)


def test_only_small_graphs_and_layers_of_one_kind_are_batched():
    assert not can_batch(_networks(model="gatv2"))
    assert not can_batch(_networks(model="gps"))
    small, large = torch.zeros(2_708, 3), torch.zeros(100_000, 3)
    assert batch_size(NodeSettings(), small) > 1
    assert batch_size(NodeSettings(), large) == batch_size(NodeSettings(model="gps"), small) == 1
    plans = plan_trials(25, 0, drawn=True)
    groups = group_trials(plans, 4)
    assert [plan for group in groups for plan in group] == plans
    assert all(len({plan.split for plan in group}) == 1 and len(group) <= 4 for group in groups)


def test_training_drops_the_same_entries_as_a_single_network():
    x, edges = _graph()
    inputs = FieldInput(x, whole_graph(edges, NODES, 2))
    (network,) = _networks(1, dropout=0.5)
    torch.manual_seed(0)
    alone = network(inputs)
    torch.manual_seed(0)
    batched = BatchedGAT(network)([network], inputs)[0]
    assert torch.allclose(batched, alone, atol=1e-6)
    assert not torch.allclose(alone, network(inputs))  # the next forward draws another dropout mask
