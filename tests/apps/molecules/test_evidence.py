"""Weights of the components, of which better components have larger weights, and predictions
without a molecule's label.
"""

import pytest
import torch
from torch import Tensor

pytest.importorskip("rdkit")

from gattn.apps.molecules.evidence import Evidence, left_out_of_kernel, network_prior, part_weights
from gattn.apps.molecules.forest import OutOfBag
from gattn.apps.molecules.gaussian_process import GaussianProcess
from tests.apps.molecules.test_predictor import chains_and_targets, fitted


def weights_of(
    kernel: float, forest: float | None, network: float, train: int = 300, val: int = 100
) -> list[float]:
    """Return the weights of the network, the Gaussian process and the forest for these errors."""
    generator = torch.Generator().manual_seed(0)
    y, y_val = (torch.randn(n, 1, generator=generator).double() for n in (train, val))

    def with_error(truth: Tensor, size: float) -> Tensor:
        return truth + size * torch.randn(truth.shape, generator=generator).double()

    trees = [
        None if forest is None else OutOfBag(with_error(each, forest), torch.zeros_like(each))
        for each in (y, y_val)
    ]
    rows = torch.arange(train + val)
    errors = with_error(y, kernel), with_error(y_val, kernel)
    evidence = Evidence(*errors, *trees, y, rows[:train], rows[train:])
    every = torch.ones(val, dtype=torch.bool)
    out = with_error(y_val, network)
    weights = part_weights(evidence, out, y_val, every, torch.ones(1), 0.0, None, lambda mean: mean)
    assert weights.sum() == pytest.approx(1)
    return weights.tolist()


def test_the_better_part_weighs_more() -> None:
    network, kernel, forest = weights_of(0.5, 0.5, 0.5)
    assert min(network, kernel, forest) > 0.15
    network, kernel, forest = weights_of(1.0, 0.4, 1.0)
    assert forest > 0.6 > 0.25 > kernel
    assert weights_of(1.0, 1.0, 0.3)[0] > 0.6
    assert len(weights_of(0.5, None, 0.5)) == 2


def test_without_validation_labels_the_weights_are_the_prior() -> None:
    unknown = torch.full((3, 1), torch.nan)
    groups = torch.arange(3), torch.arange(3, 6)
    evidence = Evidence(unknown, unknown, None, None, torch.zeros(3, 1), *groups)
    nothing = torch.full((3, 1), torch.nan)
    every = torch.ones(3, dtype=torch.bool)
    weights = part_weights(evidence, nothing, nothing, every, torch.ones(1), 0.3, None, lambda m: m)
    assert weights.tolist() == pytest.approx([0.3, 0.7])


def test_the_prior_weight_of_the_network_falls_with_the_similarity() -> None:
    similarities = (0.0, 0.55, 0.58, 0.6, 0.62, 1.0)
    values = [network_prior(torch.full((5,), s, dtype=torch.float64), 300) for s in similarities]
    assert values == pytest.approx([0.4, 0.4, 0.24, 0.12, 0.0, 0.0])
    assert network_prior(torch.empty(0), 1000) == 0.2


def test_the_prior_weight_of_the_network_grows_with_the_number_of_molecules() -> None:
    different = torch.full((5,), 0.3)
    values = [network_prior(different, count) for count in (0, 30, 150, 300, 10_000)]
    assert values == pytest.approx([0.0, 0.04, 0.2, 0.4, 0.4])


def test_training_molecules_are_predicted_without_their_groups() -> None:
    inputs, y = chains_and_targets()
    y = y[:60, :1].clone()
    groups = torch.arange(60)
    groups[7] = 3
    kernel = GaussianProcess.fit(inputs[:60], y, rows=50, seed=0)
    before, val = left_out_of_kernel(kernel, inputs[:60], 50, 0, groups, inputs[60:])
    assert before.isfinite().sum() == 50
    torch.testing.assert_close(val, kernel.predict(inputs[60:])[0])
    tensors = kernel.state()
    at = int(before.isfinite().flatten().nonzero()[0])
    changed = tensors["y"].clone()
    changed[0] += 3
    other = GaussianProcess(tensors | {"y": changed})
    after, _ = left_out_of_kernel(other, inputs[:60], 50, 0, groups, inputs[60:])
    torch.testing.assert_close(after[at], before[at])
    assert (after - before).abs().nan_to_num(0.0).max() > 1e-3


def test_a_model_without_a_forest_says_why() -> None:
    _, y = chains_and_targets()
    assert list(fitted(y).weights) == ["attention", "gp", "forest"]
    without = fitted(y, trees=0)
    assert list(without.weights) == ["attention", "gp"]
    assert "trees" in without.without_forest
    assert fitted(y, model="gp").without_forest == ""
