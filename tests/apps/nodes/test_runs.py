"""Steps of a run: splits, standard deviations, baselines, entropy."""

from types import SimpleNamespace

import pytest
import torch

from gattn.apps.fitting.full_batch import FullBatch, FullBatchSettings, fit_full_batches
from gattn.apps.fitting.losses import squared_error
from gattn.apps.fitting.types import TrainingError
from gattn.apps.nodes import NodeClassifier
from gattn.apps.nodes.baselines import propagate_labels
from gattn.apps.nodes.entropy import attention_entropy
from gattn.apps.nodes.reading import read_graph
from gattn.apps.nodes.runs.trials import (
    Trainer,
    TrialPlan,
    plan_trials,
    run_trials,
    variance_components,
)
from gattn.apps.nodes.splits import per_class_split, random_node_split
from tests.apps.nodes.networks import class_network


def test_parts_share_no_node_and_leave_out_the_unlabelled():
    y = torch.arange(600).double() % 3
    y[::10] = torch.nan
    for split in (
        per_class_split(y, 0),
        random_node_split(y, 0, (0.6, 0.2, 0.2), by_class=True),
        random_node_split(y, 0, (0.6, 0.2, 0.2), by_class=False),
    ):
        every = torch.cat([split.train, split.val, split.test])
        assert sorted(every.tolist()) == y.isfinite().nonzero().flatten().tolist()
    split = per_class_split(y, 0)
    assert torch.bincount(y[split.train].long()).tolist() == [20, 20, 20]
    assert torch.bincount(y[split.val].long()).tolist() == [30, 30, 30]


def _trials(table):
    """Return trials with the given accuracies, one row per random split."""
    return [
        SimpleNamespace(plan=TrialPlan(part, 0), test={"accuracy": value})
        for part, row in enumerate(table)
        for value in row
    ]


def test_the_spread_over_weights_is_told_from_that_over_parts():
    generator = torch.Generator().manual_seed(0)
    parts = 3.0 * torch.randn(400, 1, generator=generator)
    table = 80 + parts + torch.randn(400, 10, generator=generator)
    components = variance_components(_trials(table.tolist()), "accuracy")
    assert components.of_weights == pytest.approx(1, rel=0.05)
    assert components.of_parts == pytest.approx(3, rel=0.1)
    assert components.mean == pytest.approx(table.mean().item())
    alone = variance_components(_trials([[1.0, 3.0]]), "accuracy")
    assert (alone.of_weights, alone.of_parts != alone.of_parts) == (pytest.approx(2**0.5), True)


def test_label_propagation_solves_the_harmonic_equations():
    generator = torch.Generator().manual_seed(1)
    pairs = torch.randint(12, (2, 40), generator=generator)
    pairs = torch.cat([pairs, pairs.flip(0)], 1)
    train = torch.tensor([0, 1, 2])
    labels = torch.tensor([[0.0], [1.0], [0.5]])
    propagated = propagate_labels(pairs, labels, train, 12)
    matrix = torch.zeros(12, 12, dtype=torch.float64)
    matrix.index_put_((pairs[1], pairs[0]), torch.ones(80, dtype=torch.float64), accumulate=True)
    walk = matrix / matrix.sum(1, keepdim=True).clamp(min=1)
    rest = torch.arange(3, 12)
    right_side = walk[rest][:, train] @ labels.double()
    exact = torch.linalg.solve(torch.eye(9).double() - walk[rest][:, rest], right_side)
    assert torch.allclose(propagated[rest], exact, atol=1e-3)


def test_entropy_is_one_for_a_mean_and_counts_each_head():
    edges = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 0, 1, 1]])
    weights = torch.tensor([[1 / 3, 1.0], [1 / 3, 0.0], [1 / 3, 0.0], [0.5, 0.5], [0.5, 0.5]])
    assert torch.allclose(attention_entropy(edges, weights, 3), torch.tensor([1.0, 0.5]).double())
    assert attention_entropy(edges[:, :1], weights[:1], 3).isnan().all()


def test_patience_ends_a_training_and_a_part_without_labels_is_an_error():
    part = FullBatch(torch.zeros(4, 1), torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]))
    settings = FullBatchSettings(500, 3, 0.5, 0.0, seed=0)
    (history,) = fit_full_batches([torch.nn.Linear(1, 1)], squared_error, part, part, settings)
    assert len(history.records) < 100
    none = FullBatch(part.inputs, torch.full((4, 1), torch.nan))
    with pytest.raises(
        TrainingError, match="the validation part must have labels; all its labels are missing"
    ):
        fit_full_batches([torch.nn.Linear(1, 1)], squared_error, part, none, settings)


def test_an_improvement_is_at_least_half_a_percent():
    """The loss of a constant prediction c of the target 0 is c^2, and a step of Adam changes c by
    the learning rate. The loss therefore falls by a share of about 2 * rate in each epoch.
    """
    part = FullBatch(torch.zeros(4, 1), torch.zeros(4, 1))
    epochs = []
    for rate in (0.002, 0.004):
        network = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(network.bias)
        settings = FullBatchSettings(40, 1, rate, 0.0, seed=0)
        (history,) = fit_full_batches([network], squared_error, part, part, settings)
        assert history.chosen == len(history.records) - 1
        epochs.append(len(history.records))
    assert epochs == [2, 40]


def test_a_score_at_its_maximum_does_not_continue_the_training():
    part = FullBatch(torch.zeros(4, 1), torch.zeros(4, 1))
    network = torch.nn.Linear(1, 1)
    settings = FullBatchSettings(40, 5, 1e-6, 0.0, seed=0)
    (history,) = fit_full_batches(
        [network], squared_error, part, part, settings,
        score=lambda output, target: torch.ones_like(output),
    )  # fmt: skip
    assert len(history.records) == 6
    assert history.chosen == 5


@pytest.mark.slow
def test_two_processes_train_the_same_models_as_one():
    edges, nodes = class_network(nodes=80)
    model = NodeClassifier(label="label", model="gat", epochs=3, width=8, heads=2)
    graph = read_graph((edges, nodes), label="label")
    y = model.learn_labels(graph.table["label"])
    splits = [random_node_split(y, seed, (0.6, 0.2, 0.2), by_class=True) for seed in (0, 1)]
    trainer = Trainer(model, model.encode(graph, "label"), y, splits)
    results = []
    for is_parallel in (False, True):
        ended = []
        plans = plan_trials(4, 0, drawn=True)
        trials = run_trials(trainer, plans, workers=1 + is_parallel, on_run_end=ended.append)
        assert ended == trials
        assert [trial.plan for trial in trials] == plans
        results.append(torch.stack([trial.predicted for trial in trials]))
    assert torch.equal(*results)
