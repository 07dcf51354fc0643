"""The Gaussian process, against RDKit, explicit solutions and leave-one-out refits."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from gattn.apps.molecules import MoleculeRegressor, gaussian_process
from gattn.apps.molecules.gaussian_process import GaussianProcess
from gattn.apps.molecules.kernels.features import CountTable
from tests.apps.molecules.test_predictor import chains_and_targets


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of the kernel: counts of environments and of atom pairs, and descriptors."""

    counts: Tensor
    pairs: Tensor
    descriptors: Tensor

    @property
    def extra_descriptors(self) -> Tensor:
        return torch.empty(len(self), 0, dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, positions: Tensor) -> "Inputs":
        return Inputs(self.counts[positions], self.pairs[positions], self.descriptors[positions])


BY_MOLECULE = ("counts", "pairs", "descriptors", "y", "noise")
"""Names of the tensors of the state that have a row for each molecule."""


def fitted(inputs: Inputs, y: Tensor, rows: int = 1000, **options) -> GaussianProcess:
    return GaussianProcess.fit(inputs, y, torch.ones(len(y)), rows=rows, seed=0, **options)


def random_molecules(count: int, seed: int = 0) -> tuple[Inputs, Tensor]:
    """Return random molecules and two targets that depend on them."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.poisson(torch.full((count, 30), 0.5), generator=generator).to(torch.uint8)
    descriptors = torch.randn(count, 4, generator=generator) * torch.tensor([1.0, 100.0, 0.01, 0.0])
    y = torch.stack([descriptors[:, 0].sin(), 3 * counts[:, 0] - counts[:, 1].float() + 50], 1)
    pairs = torch.poisson(torch.full((count, 40), 0.5), generator=generator).to(torch.uint8)
    return Inputs(counts, pairs, descriptors), y.double()


def test_tanimoto_similarity_of_counts_equals_that_of_rdkit() -> None:
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    texts = ["CCCCCCCC", "CCO", "c1ccccc1C(=O)O", "C", "CC(C)(C)c1ccc(O)cc1"]
    sparse = [generator.GetCountFingerprint(Chem.MolFromSmiles(text)) for text in texts]
    arrays = [generator.GetCountFingerprintAsNumPy(Chem.MolFromSmiles(text)) for text in texts]
    counts = torch.stack([torch.from_numpy(array).to(torch.uint8) for array in arrays])
    expected = [[DataStructs.TanimotoSimilarity(a, b) for b in sparse] for a in sparse]
    torch.testing.assert_close(CountTable.of(counts).tanimoto(counts), torch.tensor(expected))


@pytest.mark.parametrize("count", [1, 2])
def test_gradient_of_the_posterior_equals_that_of_autograd(count: int) -> None:
    """The gradient equals that of autograd, which differentiates the factorisation of the
    documented kernel.
    """
    inputs, y = random_molecules(30)
    z = (inputs.descriptors.double() - inputs.descriptors.double().mean(0)) / 2
    z = torch.cat([z, torch.randn(30, gaussian_process.SURFACES, dtype=torch.float64)], 1)
    kinds = [inputs.counts, inputs.pairs][:count]
    parts = gaussian_process.compare(kinds, z, kinds, z)
    start = gaussian_process.start_of(count, 2)
    assert len(start) == count + 7
    theta = (start + torch.linspace(-0.5, 0.7, count + 7).double()).requires_grad_()
    target = y[:, 0] - y[:, 0].mean()
    kernel = gaussian_process.kernel_matrix(parts, theta)
    kernel = kernel + (theta[0].exp() + gaussian_process.JITTER) * torch.eye(30).double()
    fit = target @ torch.linalg.solve(kernel, target) + torch.logdet(kernel)
    prior = ((theta - start) / gaussian_process.SPREAD).square().sum()
    expected = 0.5 * (fit + prior) / 30
    (slope,) = torch.autograd.grad(expected, theta)
    with torch.no_grad():
        value, gradient = gaussian_process.negative_log_posterior(
            parts, target, torch.ones(30).double(), theta, start
        )
    torch.testing.assert_close(value, expected.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradient, slope, rtol=1e-8, atol=1e-10)


def test_gaussian_process_explains_70_percent_of_the_variance_of_new_molecules() -> None:
    train, y = random_molecules(150)
    test, expected = random_molecules(60, seed=1)
    mean, variance = fitted(train, y).predict(test)
    error = (mean - expected).square().mean(0)
    assert (error < 0.3 * expected.var(0)).all()
    assert (variance > 0).all()
    standardised = (mean - expected).square() / variance
    assert 0.3 < float(standardised.mean()) < 3


def test_missing_labels_of_one_target_do_not_change_predictions_of_the_other_target() -> None:
    train, y = random_molecules(60)
    gaps = y.clone()
    gaps[::3, 1] = torch.nan
    whole, some = (fitted(train, v) for v in (y, gaps))
    torch.testing.assert_close(whole.predict(train)[0][:, 0], some.predict(train)[0][:, 0])
    alone = fitted(train[torch.arange(1)], y[:1], rows=9).predict(train)[0]
    # A process fitted on one molecule predicts its labels for all molecules.
    torch.testing.assert_close(alone, y[:1].expand(60, -1))


def test_added_molecules_do_not_change_gaussian_process_hyperparameters() -> None:
    train, y = random_molecules(40)
    first, rest = torch.arange(25), torch.arange(25, 40)
    y[3, 1] = y[30, 0] = torch.nan
    model = fitted(train[first], y[first])
    more = model.with_more(train[rest], y[rest], torch.ones(15))
    before, after = (which.predict(train[rest])[0] for which in (model, more))
    assert (after - y[rest]).square().nanmean() < (before - y[rest]).square().nanmean()
    assert torch.equal(model.state()["theta"], more.state()["theta"])
    backwards = fitted(train[first], y[first]).state()
    state = more.state()
    order = torch.arange(39, -1, -1)
    backwards |= {name: state[name][order] for name in BY_MOLECULE}
    torch.testing.assert_close(GaussianProcess(backwards).predict(train)[0], more.predict(train)[0])
    assert len(more.state()["counts"]) == 40
    assert model.with_more(train[rest[:0]], y[rest[:0]], torch.ones(0)) is model


@pytest.mark.parametrize("variance", [True, False])
def test_leave_out_prediction_of_a_group_equals_that_of_a_process_without_the_group(
    variance: bool,
) -> None:
    train, y = random_molecules(40)
    y[3, 1] = y[30, 0] = torch.nan
    model = fitted(train, y, variance=variance)
    rows, groups = torch.tensor([3, 8, 11, 30, 39]), torch.tensor([0, 1, 0, 2, 1])
    mean, error = model.leave_out(groups, rows)
    predicted = model.predict(train)[0]
    for group in groups.unique():
        inside = groups == group
        rest = torch.tensor([row for row in range(40) if row not in rows[inside].tolist()])
        state = model.state()
        state |= {name: state[name][rest] for name in BY_MOLECULE}
        expected = GaussianProcess(state).predict(train[rows[inside]])
        measured = y[rows[inside]].isfinite()
        for one, other in zip((mean[inside], error[inside]), expected, strict=True):
            torch.testing.assert_close(one[measured], other[measured], rtol=1e-8, atol=1e-8)
            assert one[~measured].isnan().all()
    assert torch.equal(model.predict(train)[0], predicted)


def test_cholesky_of_a_nearly_singular_kernel_adds_a_larger_jitter() -> None:
    """The diagonal of the kernel is 0.05 too small, so the first jitter that is large enough is
    0.1.
    """
    quiet = torch.full((8,), -40.0).double()
    kernel = torch.ones(3, 3).double() - 0.05 * torch.eye(3)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(kernel + 1e-2 * torch.eye(3))
    lower = gaussian_process.cholesky(kernel, quiet, torch.ones(3))
    torch.testing.assert_close(lower @ lower.t(), kernel + 0.1 * torch.eye(3))
    with pytest.raises(ValueError, match=r"cannot factor its kernel of 3 molecules, even with"):
        gaussian_process.cholesky(kernel - torch.eye(3), quiet, torch.ones(3))


@pytest.mark.parametrize("seed", [5, 12])
def test_gaussian_process_of_eight_alkanes_gives_finite_predictions(seed) -> None:
    places = np.random.default_rng(seed).permutation(10)[:8].tolist()
    model = MoleculeRegressor(model="gp", seed=seed)
    model.fit(["C" * (n + 1) for n in places], [n + 1.0 for n in places])
    assert np.isfinite(model.predict(["CCCC"])).all()


def test_gaussian_process_is_fitted_to_all_labels_of_a_target_with_few_labels() -> None:
    inputs, y = chains_and_targets()
    some = torch.arange(0, len(y), 7)
    y[:, 1] = torch.nan
    y[some, 1] = torch.arange(len(some)).double()
    kernel = fitted(inputs, y, rows=20)
    assert kernel.labelled.sum(0).tolist() == [20, len(some)] == [20, 12]
    place = torch.isin(kernel.rows, some)
    assert kernel.labelled[:, 1].equal(place)
    alone = fitted(inputs[some], y[some, 1:], rows=20)
    more = inputs[torch.arange(5)]
    torch.testing.assert_close(
        kernel.predict(more)[0][:, 1], alone.predict(more)[0][:, 0], rtol=0.2, atol=0.2
    )
