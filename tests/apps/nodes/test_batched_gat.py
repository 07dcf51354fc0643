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
from gattn.apps.nodes.batched_gat import BatchedGAT
from gattn.apps.nodes.fields import FieldInput, whole_graph
from gattn.apps.nodes.network import make_network
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
