"""Tests that several networks that are computed in one call give the same outputs as each network
alone.
"""

import pytest
import torch
import torch.nn.functional as F

from gattn.apps.fitting.full_batch import (
    FullBatch,
    FullBatchSettings,
    SeparateNetworks,
    fit_full_batches,
)
from gattn.apps.nodes.batched_gat import BatchedGAT, batch_size, can_batch
from gattn.apps.nodes.fields import FieldInput, receptive_field, whole_graph
from gattn.apps.nodes.network import make_network
from gattn.apps.nodes.runs.trials import group_trials, plan_trials
from gattn.apps.nodes.settings import NodeSettings

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
        together, separate = BatchedGAT(networks), SeparateNetworks(networks)
        batched, expected = (group(inputs, training=True) for group in (together, separate))
        assert torch.allclose(batched, expected, atol=1e-6)
        scale = torch.randn(batched.shape)
        gradients, references = (
            torch.autograd.grad((output * scale).sum(), group.parameters)
            for output, group in ((batched, together), (expected, separate))
        )
        for place, network in enumerate(networks):
            names = list(together.state(place))
            mine = dict(zip(names, together.of_network(place, gradients)))
            theirs = separate.of_network(place, references)
            for (name, weight), gradient in zip(network.named_parameters(), theirs, strict=True):
                assert mine[name].shape == weight.shape
                assert torch.allclose(mine[name], gradient, atol=1e-5)


@pytest.mark.parametrize("group", [BatchedGAT, SeparateNetworks])
def test_training_together_gives_the_weights_of_training_alone(group):
    x, edges = _graph()
    inputs = FieldInput(x, whole_graph(edges, NODES, 2))
    target = (torch.arange(NODES) % OUTPUTS).double()[:, None]
    train, validate = target.clone(), target.clone()
    train[6:], validate[:6] = torch.nan, torch.nan

    def loss(output, target):
        return F.cross_entropy(output, target[:, 0].long(), reduction="none")[:, None]

    def fit(networks, group):
        settings = FullBatchSettings(60, 3, 0.02, 5e-4, seed=0)
        parts = FullBatch(inputs, train), FullBatch(inputs, validate)
        return fit_full_batches(networks, loss, *parts, settings, group=group)

    together, alone = _networks(), _networks()
    histories = fit(together, group)
    for network, history, other in zip(together, histories, alone, strict=True):
        (expected,) = fit([other], SeparateNetworks)
        assert (len(history.records), history.chosen) == (len(expected.records), expected.chosen)
        assert not network.training
        for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
            assert torch.allclose(mine, theirs, atol=1e-4)
    # Some trainings stopped earlier than others.
    assert len({len(history.records) for history in histories}) > 1


def test_only_small_graphs_and_layers_of_one_kind_are_batched():
    assert not can_batch(_networks(model="gatv2"))
    assert not can_batch(_networks(model="gps"))
    small, large = torch.zeros(2_708, 3), torch.zeros(100_000, 3)
    assert batch_size(NodeSettings(), small, 5) > 1
    gat = NodeSettings(model="gat")
    assert batch_size(gat, small, 100) > batch_size(gat, small, 10)
    sizes = batch_size(NodeSettings(), large, 5), batch_size(NodeSettings(model="gps"), small, 5)
    assert sizes == (1, 1)
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
    batched = BatchedGAT([network])(inputs, training=True)[0]
    assert torch.allclose(batched, alone, atol=1e-6)
    assert not torch.allclose(alone, network(inputs))  # the next forward draws another dropout mask
