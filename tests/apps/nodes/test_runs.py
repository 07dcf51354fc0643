"""Steps of a run: splits, standard deviations, baselines."""

import numpy as np
import pytest
import torch

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batch
from gattn.apps.fitting.losses import squared_error
from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.train import Trainer, run_trials
from gattn.apps.nodes.splits import per_class_split, random_node_split
from gattn.apps.nodes.stack.propagation import Neighbours, propagate
from tests.apps.nodes.networks import class_network


def test_random_node_splits_contain_each_labelled_node_once():
    y = torch.arange(600).double() % 3
    y[::10] = torch.nan
    drawn = [random_node_split(y, 0, (0.6, 0.2, 0.2), by_class=each) for each in (True, False)]
    for split in (per_class_split(y, 0), *drawn):
        every = torch.cat([split.train, split.val, split.test])
        assert sorted(every.tolist()) == y.isfinite().nonzero().flatten().tolist()
    split = per_class_split(y, 0)
    assert torch.bincount(y[split.train].long()).tolist() == [20, 20, 20]
    assert torch.bincount(y[split.val].long()).tolist() == [30, 30, 30]


def test_label_propagation_equals_the_harmonic_solution():
    generator = torch.Generator().manual_seed(1)
    pairs = torch.randint(12, (2, 40), generator=generator)
    means = Neighbours(torch.cat([pairs, pairs.flip(0)], 1), 12).means
    train, rest = np.arange(3), np.arange(3, 12)
    labels = np.array([[0.0], [1.0], [0.5]])
    propagated = propagate(means, labels, train, 50)
    walk = means.toarray()
    right_side = walk[rest][:, train] @ labels
    exact = np.linalg.solve(np.eye(9) - walk[rest][:, rest], right_side)
    np.testing.assert_allclose(propagated[rest, :-1], exact, atol=1e-3)
    around = walk[train] @ np.vstack([labels, exact])
    np.testing.assert_allclose(propagated[train, :-1], around, atol=1e-3)


def test_training_stops_if_the_loss_falls_by_less_than_half_a_percent():
    """The loss of a constant prediction c of the target 0 is c^2, and a step of Adam changes c by
    the learning rate. The loss therefore falls by a share of about 2 * rate in each epoch.
    """
    part = FullBatch(torch.zeros(4, 1), torch.zeros(4, 1))
    epochs = []
    for rate in (0.002, 0.004):
        network = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(network.bias)
        settings = FullBatchSettings(40, 1, rate, 0.0, seed=0)
        history = fit_full_batch(network, squared_error, part, part, settings)
        assert history.chosen == len(history.records) - 1
        epochs.append(len(history.records))
    assert epochs == [2, 40]


@pytest.mark.slow
def test_node_models_are_equal_if_trained_in_one_or_two_processes():
    edges, nodes = class_network(nodes=80)
    model = NodeClassifier(label="label", model="gat", epochs=3, width=8, heads=2)
    graph = read_graph((edges, nodes), label="label")
    y = model.learn_labels(graph.table["label"])
    splits = [random_node_split(y, seed, (0.6, 0.2, 0.2), by_class=True) for seed in range(4)]
    trainer = Trainer(model, model.encode(graph, "label"), y, splits)
    results = []
    for is_parallel in (False, True):
        ended = []
        trials = run_trials(trainer, 4, workers=1 + is_parallel, on_run_end=ended.append)
        assert ended == trials
        assert [trial.estimator.seed for trial in trials] == [0, 1, 2, 3]
        results.append(torch.stack([trial.predicted for trial in trials]))
    assert torch.equal(*results)
