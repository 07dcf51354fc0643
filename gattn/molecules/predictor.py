"""Model of molecular properties that combines neural networks, a Gaussian process and a forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from gattn.data.molecules.features import FEATURISER
from gattn.data.splits import number_groups
from gattn.molecules.auxiliary import descriptor_targets
from gattn.molecules.classes import class_softmax, normalised
from gattn.molecules.evidence import Evidence, left_out_of_kernel, network_prior, part_weights
from gattn.molecules.folds import assign_folds
from gattn.molecules.forest import Forest, forest_obstacle
from gattn.molecules.gaussian_process import FARTHEST, GaussianProcess, draw
from gattn.molecules.inputs import DescribedInputs, in_pieces
from gattn.molecules.members import (
    PREDICTION_BATCH,
    MoleculeBatches,
    cross_fit_members,
    fit_members,
    make_network,
    molecules_in_row,
    predict_members,
    target_weights,
)
from gattn.molecules.nearest import NearestMolecules, pack_bits
from gattn.molecules.network import AttentiveFPNetwork, MoleculeNetwork, batch_inputs
from gattn.molecules.quantiles import by_level, normal_quantiles, sorted_quantiles
from gattn.molecules.settings import MEDIAN, MoleculeSettings, Task
from gattn.molecules.stacking import combine, fit_spread, predicted_std
from gattn.molecules.target_transform import TargetTransform, choose
from gattn.training.model_io import add_prefix, remove_prefix
from gattn.training.scaling import moments
from gattn.training.settings import from_table, to_table
from gattn.training.threads import Background, available_threads, limited_threads

if TYPE_CHECKING:
    from gattn.molecules.inputs import MoleculeInputs
    from gattn.training.loop import History

__all__ = ["MoleculePredictor", "Prediction", "batch_elements"]

PIECE = 1024
"""Number of molecules whose fingerprints are unpacked at once."""
FEW = 64
"""Number of molecules that are compared with all training molecules at once."""
ATOMS = 25
"""Typical number of atoms of a molecule, used to estimate the size of a batch."""
MARGIN = 0.1
"""A descriptor is far outside its training range if it is outside by more than this fraction of
the width of the range.
"""
KERNEL_PARTS = 6
"""Number of matrices of the size of the kernel matrix that one evaluation of the kernel reads.
It determines the number of threads.
"""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predictions for k molecules and t targets, with their expected errors.

    Attributes:
        mean: [k, t] float64, in the target's unit; for two classes the probability of class 1. For
            several classes t is the number of classes of all targets, and these are the
            probabilities of the classes.
        std: [k, t] float64, in the target's unit: the standard deviation of the expected error.
            For classes the standard deviation over components and networks.
        component_means: mean [k, t] of each component: ``"attention"`` or ``"attentive_fp"``,
            ``"gp"``, ``"forest"``.
        member_predictions: [K, k, t], predictions of each network of the ensemble.
        max_train_similarity: [k] float32 in 0..1, the Tanimoto similarity on Morgan bits to the
            most similar molecule of the training and validation parts; for
            :attr:`MoleculePredictor.validation`, of the training part alone.
            Different molecules may have a similarity of 1.
        nearest_index: [k, c] int64, the columns of the model's fingerprints of the c most similar
            molecules, as :meth:`MoleculePredictor.nearest` returns them; None if not requested.
        nearest_similarity: [k, c] float32, their similarities; None if not requested.
        quantiles: [k, t, q] float64, ascending quantiles at the levels of the model, in the
            target's unit; None unless the loss function is ``"quantile"``. ``mean``,
            ``component_means`` and ``member_predictions`` then are medians.
    """

    mean: Tensor
    std: Tensor
    component_means: dict[str, Tensor]
    member_predictions: Tensor
    max_train_similarity: Tensor
    nearest_index: Tensor | None = None
    nearest_similarity: Tensor | None = None
    quantiles: Tensor | None = None


class MoleculePredictor:
    """Trained model of molecular properties, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        networks: the ensemble, empty if the model is the Gaussian process alone.
        history: the training history of each network; empty after :meth:`from_state`.
        validation: the prediction of each validation molecule by a model that was chosen without
            it; errors and intervals are calibrated by it. Empty after :meth:`from_state`.
        task: ``"regression"``, ``"classification"`` or ``"multiclass"``.
        classes: for several classes the number of classes of each target; () for other tasks.
        settings: the settings of the model and its training.
        weights: the weight of each part in the mean, by the part's name.
        kernel: the Gaussian process; None if the model has none.
        forest: the forest of trees; None if the model has none.
        without_forest: why a stacked model has no forest, in words; empty if it has one, and after
            :meth:`from_state`.
        threads: number of threads inside an operator of a prediction; 0 to choose it by the size.
        extra: number of descriptor columns of the user.
        transform: the transform of each target; see ``target_transform`` of the settings.
        molecules: number of molecules in a row.
        levels: levels of the predicted quantiles; () if the model predicts none.
    """

    threads = 0
    without_forest = ""

    def __init__(
        self, tensors: dict[str, Tensor], task: Task, settings: MoleculeSettings, targets: int,
        classes: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Restore a model from the tensors of :meth:`state`; see :meth:`from_state`."""
        self.task, self.settings, self.targets = task, settings, targets
        self.classes = tuple(classes)
        self.levels = _levels(task, settings)
        self.history: list[History] = []
        self.validation = _nothing(targets)
        self._tensors = {name: tensors[name] for name in _OWN}
        optional = (*_EXTRA, *_RANGE, _TRANSFORM)
        self._tensors |= {name: tensors[name] for name in optional if name in tensors}
        codes = tensors.get(_TRANSFORM, torch.zeros(targets, dtype=torch.int64))
        self.transform = TargetTransform.from_codes(codes)
        self.extra = len(tensors.get("extra_mean", ()))
        self.molecules = int(tensors.get(_MOLECULES, 1))
        self._tensors |= {name: tensors[name] for name in (_MOLECULES,) if name in tensors}
        self.networks = [
            _loaded(
                make_network(
                    settings,
                    targets * max(len(self.levels), 1),
                    extra=self.extra,
                    molecules=self.molecules,
                ),
                remove_prefix(f"networks.{member}.", tensors),
            )
            for member in range(settings.ensemble if settings.model != "gp" else 0)
        ]
        self._nearest = NearestMolecules(tensors["bits"])
        kernel = remove_prefix("gp.", tensors)
        # In classification, predict does not need the variance of the Gaussian process.
        self.kernel = GaussianProcess(kernel, variance=task == "regression") if kernel else None
        # Models of earlier versions of gattn have no forest.
        trees = remove_prefix("forest.", tensors)
        self.forest = Forest(trees) if trees else None

    @classmethod
    def fit(
        cls,
        train: MoleculeInputs,
        y: Tensor,
        val: MoleculeInputs,
        y_val: Tensor,
        task: Task,
        settings: MoleculeSettings,
        *,
        classes: Sequence[int] = (),
        bounds: Tensor | None = None,
        bounds_val: Tensor | None = None,
        weights: Tensor | None = None,
        weights_val: Tensor | None = None,
        groups: Sequence[str] | None = None,
        train_groups: Sequence[str] | None = None,
        folder: Path | None = None,
        progress: bool = False,
        threads: int = 0,
    ) -> MoleculePredictor:
        """Train the components of the model. Their weights are fitted to errors for molecules on
        which they were not trained.

        The Gaussian process and the forest are trained on both parts. Their weights are fitted to
        predictions of the training molecules without themselves, and the weight of the network to
        the validation part; see :func:`gattn.molecules.evidence.part_weights`.
        :attr:`validation` predicts the validation part by cross-fitting in ten folds. The networks'
        epochs, the components' weights and the coefficients of the error for one fold are chosen
        without its labels, and the Gaussian process and the forest predict each molecule as if they
        had not been trained on it. The errors of these predictions are therefore similar to errors
        for new molecules.

        If the networks are trained with one thread, the Gaussian process and the forest are trained
        at the same time on another core.

        Args:
            train: k molecules. Their descriptor columns, if they have any, are standardised by
                the mean and the standard deviation of this part.
            y: [k, t] float64; NaN where a target was not measured; 0 and 1 for classes. For several
                classes [k, O], a column for each class (:func:`gattn.molecules.classes.one_hot`).
            val: m molecules for choosing the networks' epoch, fitting the components' weights and
                calibrating the errors.
            y_val: [m, t] float64.
            task: ``"regression"``, ``"classification"`` or ``"multiclass"``.
            settings: settings of the model and its training.
            classes: for ``"multiclass"`` the number of classes of each target.
            bounds: [k, t, 2] float64, the lower and upper ends of the training labels for a bounded
                loss, with NaN in y where the ends differ. The networks get no loss between the
                ends; the Gaussian process reads the expected value between them.
            bounds_val: [m, t, 2] float64, the same of the validation part. They help to choose the
                epoch; weights and errors are those of measured values.
            weights: [k] weights of the training rows, above 0; None for equal ones. They are
                divided by their mean. They multiply the loss of the networks, and divide the
                noise variance of the Gaussian process.
            weights_val: [m] weights of the validation rows, which are divided by the same mean.
                They weight the squared errors that choose the components' weights and the
                coefficients of the error.
            groups: the group of each of the m rows; rows of one group are left out together.
                Rows of the same molecule must belong to one group. If whole scaffolds were held
                out, the molecules of a scaffold must, too. By default each row is a group.
            train_groups: the group of each of the k rows, for the predictions of training molecules
                without themselves. By default each row is a group.
            folder: folder of the checkpoints of the networks, from which training continues.
            progress: whether to show a progress bar.
            threads: number of threads inside an operator; 0 to choose it by the size of a batch
                and of the kernel. The previous number of threads is restored at the end.

        Returns:
            The trained model.

        Raises:
            ValueError: shapes that do not match, or a target without a training label.
        """
        _check(train, y, "y")
        _check(val, y_val, "y_val")
        y, y_val, targets = y.double(), y_val.double(), y.shape[1]
        if not y.isfinite().any(0).all():
            raise ValueError("y must have a label for every target; a target has no label")
        transform = TargetTransform(("none",) * targets)
        if task == "regression":
            limits = [end for each in (bounds, bounds_val) if each is not None
                      for end in each.unbind(2)]  # fmt: skip
            transform = choose(settings.target_transform, torch.cat([y, y_val, *limits]))
            y, y_val = transform(y), transform(y_val)
            bounds = None if bounds is None else transform.limits(bounds)
            bounds_val = None if bounds_val is None else transform.limits(bounds_val)
        mean, scale = _scaling(y, task)
        tensors: dict[str, Tensor] = {"mean": mean, "scale": scale, "bits": _bits(train)}
        if not transform.is_identity:
            tensors[_TRANSFORM] = transform.codes
        if (molecules := molecules_in_row(train)) > 1:
            tensors[_MOLECULES] = torch.tensor(molecules)
        if train.extra_descriptors.shape[1]:
            tensors |= dict(zip(_EXTRA, moments(train.extra_descriptors)))
            tensors |= _ranges(train.extra_descriptors)
            train, val = (_with_standard_columns(part, tensors) for part in (train, val))
        history: list[History] = []
        networks: list[MoleculeNetwork | AttentiveFPNetwork] = []
        is_bounded = task == "regression" and settings.bounded
        levels = _levels(task, settings)
        ends, ends_val = (
            None if each is None else (each - mean[:, None]) / scale[:, None]
            for each in (bounds, bounds_val)
        )
        if weights is not None and weights_val is not None:
            unit = weights.double().mean()
            weights, weights_val = weights.double() / unit, weights_val.double() / unit
        batches, val_batches = (
            MoleculeBatches(
                inputs,
                (labels - mean) / scale,
                limits,
                bounded=is_bounded,
                weights=factors,
                levels=max(len(levels), 1),
            )
            for inputs, labels, limits, factors in (
                (train, y, ends, weights),
                (val, y_val, ends_val, weights_val),
            )
        )
        if settings.auxiliary_weight:
            batches = batches.with_auxiliary(descriptor_targets(train))
        rows, seed = settings.kernel_rows, settings.seed
        group = number_groups(groups, len(val))
        train_group = number_groups(train_groups, len(train))
        kernel_size = KERNEL_PARTS * min(len(train), rows) ** 2
        without = forest_obstacle(settings.trees, targets, bounds, bounds_val)
        y_both = torch.cat([y, y_val])

        def fit_parts(check: Callable[[], None] = lambda: None, progress: bool = False) -> _Parts:
            """Train those parts of the model that are not networks."""
            kernel = GaussianProcess.fit(
                train, y, rows=rows, seed=seed, bounds=bounds, weights=weights,
                progress=progress, check=check,
            )  # fmt: skip
            if settings.model != "stacked":
                return _Parts(kernel)
            inner, outer = left_out_of_kernel(kernel, train, rows, seed, train_group, val)
            if without:
                return _Parts(kernel, Evidence(inner, outer, None, None, y))
            every = torch.cat([train_group, group + train_group.amax() + 1])
            if groups is not None and train_groups is not None:
                every = number_groups([*train_groups, *groups], len(y_both))
            factors = None
            if weights is not None and weights_val is not None:
                factors = torch.cat([weights, weights_val])
            forest, (few, all_trees) = Forest.fit(
                train, val, y_both, trees=settings.trees, seed=seed, groups=every, weights=factors,
                levels=levels, check=check,
            )  # fmt: skip
            first, rest = slice(0, len(train)), slice(len(train), None)
            # No tree was trained on a missing label, so all trees may be used for its molecule.
            others, quantiles = forest.predict(val), None
            if levels:
                quantiles = forest.quantiles(val, levels)
                others = quantiles[..., levels.index(MEDIAN)]
            few_val, all_val = (each[rest].filled(others, quantiles) for each in (few, all_trees))
            evidence = Evidence(inner, outer, few[first], few_val, y)
            return _Parts(kernel, evidence, forest, all_val.mean, all_val.quantiles)

        components: _Parts | None = None
        if settings.model != "gp":
            with ExitStack() as stack:
                elements = batch_elements(settings.batch_size, settings)
                used = stack.enter_context(limited_threads(elements, threads))
                background: Background[_Parts] | None = None
                if settings.model == "stacked" and used < available_threads():
                    background = stack.enter_context(Background(fit_parts))
                networks, history = fit_members(
                    batches, val_batches, task, settings, classes=classes, folder=folder,
                    progress=progress, threads=threads,
                )  # fmt: skip
                components = background and background.result()
        if settings.model in ("stacked", "gp") and components is None:
            with limited_threads(kernel_size, threads):
                components = fit_parts(progress=progress)
        for member, network in enumerate(networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        folds = assign_folds(group, seed)
        kernel_index = torch.arange(0)
        if components is not None:
            kernel = components.kernel
            kernel_index = draw(len(val), max(rows - len(kernel.counts), 0), seed)
            limits = None if bounds_val is None else bounds_val[kernel_index]
            factors = None if weights_val is None else weights_val[kernel_index]
            kernel = kernel.with_more(val[kernel_index], y_val[kernel_index], limits, factors)
            tensors |= add_prefix("gp.", kernel.state())
            if components.forest is not None:
                tensors |= add_prefix("forest.", components.forest.state())
        unknown = {"weights": torch.ones(0), "spread": torch.ones(0)}
        predictor = cls(tensors | unknown, task, settings, targets, classes)
        predictor.history, predictor.threads = history, threads
        if settings.model == "stacked":
            predictor.without_forest = without
        with limited_threads(kernel_size, threads):
            members = cross_fit_members(
                networks, history, val_batches, folds, task, settings, batches.y, classes,
                threads=threads,
            )  # fmt: skip
            predictor._calibrate(
                val, y_val, members, kernel_index, group, folds, (weights, weights_val), components
            )
        bits = torch.cat([predictor._tensors["bits"], _bits(val)], 1)
        predictor._tensors["bits"], predictor._nearest = bits, NearestMolecules(bits)
        return predictor

    def _calibrate(
        self, val: MoleculeInputs, y_val: Tensor, outputs: Tensor, kernel_index: Tensor,
        group: Tensor, folds: Tensor, by_part: tuple[Tensor | None, Tensor | None],
        components: _Parts | None,
    ) -> None:  # fmt: skip
        """Fit the weights of the components, and the coefficients of the error variance.

        Args:
            val: m molecules.
            y_val: [m, t].
            outputs: [K, m, o], cross-fitted outputs of the networks.
            kernel_index: indices of the molecules that the Gaussian process is trained on.
            group: [m], the group of each row.
            folds: [m], the fold of each row.
            by_part: weights of the rows of the training and of the validation part; None for
                equal ones.
            components: the Gaussian process and the forest, with their predictions.
        """
        regression = self.task == "regression"
        members = self.in_units(outputs)
        by_output = target_weights(self.settings, self.classes)
        row_weights = by_part[1]
        evidence = None if components is None else components.evidence
        factors: tuple[Tensor, Tensor] | None = None
        if evidence is not None and (row_weights is not None or by_output is not None):
            of_outputs = torch.ones(y_val.shape[1]).double() if by_output is None else by_output
            of_train, of_val = (
                (torch.ones(len(rows)).double() if each is None else each)[:, None] * of_outputs
                for each, rows in zip(by_part, (evidence.y, y_val))
            )
            factors = of_train, of_val
        # The trees that read the validation part must not be used to fit the coefficients of the
        # error, because they have read the labels of the fold that is predicted.
        forest_few = forest_all = torch.zeros_like(y_val)
        if components is not None and components.forest_val is not None:
            assert evidence is not None
            assert evidence.forest_val is not None
            forest_few, forest_all = evidence.forest_val.mean, components.forest_val
        count = int(folds.max()) + 1
        left_out = [(torch.empty(0), torch.zeros_like(y_val))] * (1 + count)
        if self.kernel is not None:
            left_out = self._leave_out(val, kernel_index, group, folds)

        similarities = self._similarity(val)
        prior = network_prior(similarities)

        def fit(pair: tuple[Tensor, Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
            """Fit the weights of the components and the coefficients of the error variance to
            the molecules at ``rows``.
            """
            parts, sources = self._parts_and_error_inputs(members, forest_few, *pair)
            weights = torch.ones(1).double()
            if evidence is not None:
                weights = part_weights(
                    evidence, members.mean(0), y_val, rows, self._tensors["scale"], prior,
                    factors, self._probabilities,
                )  # fmt: skip
            if not regression:
                return weights, torch.ones(0)
            by_row = None if row_weights is None else row_weights[rows]
            errors = y_val[rows] - combine(parts[:, rows], weights)
            return weights, fit_spread(sources[:, rows], errors, by_row)

        chosen = fit(left_out[0], torch.ones(len(y_val), dtype=torch.bool))
        self._tensors["weights"], self._tensors["spread"] = chosen
        parts, sources = self._parts_and_error_inputs(members, forest_all, *left_out[0])
        mean, std = combine(parts, chosen[0]), _disagreement(parts, members)
        quantile_parts = None if components is None else components.forest_quantiles
        quantile_parts = self._quantile_parts(outputs, *left_out[0], quantile_parts)
        quantiles = self._combined_quantiles(quantile_parts, chosen[0])
        for fold, pair in zip(range(count), left_out[1:], strict=True):
            inside = folds == fold
            weights, coefficients = fit(pair, ~inside) if not inside.all() else chosen
            mean[inside] = combine(parts[:, inside], weights)
            if quantiles is not None and quantile_parts is not None:
                some = self._combined_quantiles(quantile_parts[:, inside], weights)
                quantiles[inside] = cast(Tensor, some)
            if regression:
                measured = y_val[~inside].isfinite().any(0)
                coefficients = coefficients.where(measured, chosen[1])
                std[inside] = predicted_std(sources[:, inside], coefficients)
        named = dict(zip(self._names, parts))
        if quantiles is not None:
            mean = quantiles[..., self.levels.index(MEDIAN)]
        validation = Prediction(mean, std, named, members, similarities, quantiles=quantiles)
        self.validation = self._in_target_units(validation)

    def _parts_and_error_inputs(
        self, members: Tensor, forest: Tensor, mean: Tensor, variance: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the mean of each of P components, [P, k, t], and the inputs of the model of the
        squared error.
        """
        stacked = torch.stack(self._parts(members, mean, forest))
        return stacked, self._error_inputs(stacked, members, variance)

    def _parts(self, members: Tensor, mean: Tensor, forest: Tensor) -> list[Tensor]:
        """Return the mean [k, t] of each component: the networks, the Gaussian process and the
        forest.
        """
        parts = [members.mean(0)] if self.networks else []
        if self.kernel is not None:
            parts.append(self._probabilities(mean))
        if self.forest is not None:
            parts.append(self._probabilities(forest))
        return parts

    def _quantile_parts(
        self, outputs: Tensor, mean: Tensor, variance: Tensor, forest: Tensor | None
    ) -> Tensor | None:
        """Return the quantiles of each of P components, [P, k, t, q], in the units of the
        transformed targets; None if the model predicts none.

        Those of an ensemble are the means over its networks. The Gaussian process predicts a
        normal distribution.

        Args:
            outputs: [K, k, o], outputs of the networks.
            mean: [k, t], means of the Gaussian process.
            variance: [k, t], its variances.
            forest: [k, t, q], quantiles of the forest.
        """
        if not self.levels:
            return None
        parts = [self.network_quantiles(outputs).mean(0)] if self.networks else []
        if self.kernel is not None:
            parts.append(normal_quantiles(mean, variance, self.levels))
        if self.forest is not None and forest is not None:
            parts.append(forest)
        return torch.stack(parts)

    def _combined_quantiles(self, parts: Tensor | None, weights: Tensor) -> Tensor | None:
        """Return the weighted mean of the components' quantiles at each level, [k, t, q].

        Quantiles of each component are ascending, so their weighted means are, too.

        Reference: Ratcliff, "Group reaction time distributions and an analysis of distribution
        statistics" (Psychological Bulletin 1979), for means of quantiles.
        """
        if parts is None:
            return None
        return combine(parts.flatten(2), weights).unflatten(1, parts.shape[2:])

    def _probabilities(self, mean: Tensor) -> Tensor:
        """Convert the means [k, t] of the Gaussian process to probabilities if the labels are
        classes.
        """
        if self.task == "multiclass":
            return normalised(mean, self.classes)
        return mean.clamp(0, 1) if self.task == "classification" else mean

    def _leave_out(
        self, val: MoleculeInputs, kernel_index: Tensor, group: Tensor, folds: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """Predict validation molecules with Gaussian processes that were not trained on them.

        Returns:
            Pairs of means and variances [m, t]. In the first pair, the model of a molecule was
            trained without its group; in the next pairs, also without one fold each.
        """
        assert self.kernel is not None
        rows = len(self.kernel.counts) - len(kernel_index) + torch.arange(len(kernel_index))
        left_out = self.kernel.leave_out(rows, group[kernel_index], folds[kernel_index])
        plain = self.kernel.predict(val)
        # If a fold contains no training molecule of the Gaussian process, its molecules are
        # predicted by the complete Gaussian process.
        left_out += left_out[:1] * (int(folds.max()) + 2 - len(left_out))
        pairs = []
        for pair in left_out:
            full = tuple(each.clone() for each in plain)
            for each, out in zip(full, pair):
                # A row without a label was not used to fit the Gaussian process, so no model
                # without its fold is needed.
                each[kernel_index] = torch.where(out.isfinite(), out, each[kernel_index])
            pairs.append(full)
        return pairs

    def predict(self, inputs: MoleculeInputs, neighbors: int = 0) -> Prediction:
        """Predict the targets of molecules and the expected errors, in the targets' units.

        With a target transform, the means are medians, and the standard deviations are multiplied
        by the derivative of the inverse transform.

        Args:
            inputs: k molecules.
            neighbors: number of most similar molecules to find for each; 0 for none.

        Returns:
            Means, expected errors, and their components; empty tensors for no molecules.
        """
        predicted = self._in_target_units(self.predict_transformed(inputs))
        if not neighbors:
            return predicted
        index, similarity = self.nearest(inputs, neighbors)
        return replace(predicted, nearest_index=index, nearest_similarity=similarity)

    def _in_target_units(self, predicted: Prediction) -> Prediction:
        """Convert predictions of transformed targets to the targets' units."""
        transform = self.transform
        if transform.is_identity:
            return predicted

        def inverse(values: Tensor) -> Tensor:
            return transform.inverse(transform.clipped(values))

        mean, quantiles = inverse(predicted.mean), predicted.quantiles
        if quantiles is not None:
            quantiles = inverse(quantiles.transpose(1, 2)).transpose(1, 2)
        return replace(
            predicted, quantiles=quantiles, mean=mean, std=predicted.std / transform.slope(mean),
            component_means={name: inverse(m) for name, m in predicted.component_means.items()},
            member_predictions=inverse(predicted.member_predictions),
        )  # fmt: skip

    def predict_transformed(self, inputs: MoleculeInputs) -> Prediction:
        """Predict the transformed targets, on the scale on which the model is trained.

        Without a target transform, the result is that of :meth:`predict`.

        Args:
            inputs: k molecules.

        Returns:
            Means, expected errors, and their components; empty tensors for no molecules.
        """
        inputs = self.standardised(inputs)
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with limited_threads(elements, self.threads):
            parts, members, variance, quantile_parts = self._predict_components(inputs)
            stacked = torch.stack(list(parts.values()))
            mean = combine(stacked, self._tensors["weights"])
            quantiles = self._combined_quantiles(quantile_parts, self._tensors["weights"])
            if quantiles is not None:
                mean = quantiles[..., self.levels.index(MEDIAN)]
            if self.task == "regression":
                sources = self._error_inputs(stacked, members, variance)
                std = predicted_std(sources, self._tensors["spread"])
            else:
                std = _disagreement(stacked, members)
            similarities = self._similarity(inputs)
            return Prediction(mean, std, parts, members, similarities, quantiles=quantiles)

    def standardised(self, inputs: MoleculeInputs) -> MoleculeInputs:
        """Return the inputs with standardised descriptor columns, as the model reads them.

        A column has the mean 0 and the standard deviation 1 in the training part. A missing value
        becomes 0, the mean. Values beyond 6 standard deviations are clipped.

        Raises:
            ValueError: the model was trained with another number of columns.
        """
        count = inputs.extra_descriptors.shape[1]
        if count != self.extra:
            raise ValueError(
                f"the model was trained with {self.extra} descriptor columns; got {count}"
            )
        return _with_standard_columns(inputs, self._tensors) if count else inputs

    def outside(self, values: Tensor) -> Tensor:
        """Return a mask of the descriptor values that are far outside their training range.

        A value is far outside if it is beyond the range by more than a tenth of its width.

        Args:
            values: [k, f] descriptors in their units, NaN for a missing one.

        Returns:
            [k, f] bool; False for missing values, and for a model that was saved without ranges.
        """
        if _RANGE[0] not in self._tensors:
            return torch.zeros(values.shape, dtype=torch.bool)
        low, high = (self._tensors[name] for name in _RANGE)
        margin = MARGIN * (high - low)
        return (values < low - margin) | (values > high + margin)

    def _similarity(self, inputs: MoleculeInputs) -> Tensor:
        """Return the similarity of each molecule to the most similar training molecule: [k]."""
        pieces = in_pieces(inputs, PIECE)
        return torch.cat([self._nearest.similarity(some.counts) for some in pieces])

    def train_similarities(self, inputs: MoleculeInputs) -> Tensor:
        """Return the similarity of each molecule to every training molecule whose fingerprint the
        model stores.

        Args:
            inputs: k molecules.

        Returns:
            [k, m] float32 in 0..1, Tanimoto similarities on Morgan bits: first the molecules of the
            training part, padded with zeros to a multiple of eight, then those of the validation
            part, padded likewise.
        """
        return self._nearest.similarities(inputs.counts)

    def nearest(self, inputs: MoleculeInputs, count: int) -> tuple[Tensor, Tensor]:
        """Find the most similar molecules of the training and validation parts.

        Args:
            inputs: k molecules.
            count: number of molecules to find for each.

        Returns:
            The columns of :meth:`train_similarities` [k, c] int64 and their similarities [k, c]
            float32, the most similar first; c is ``count``, or the number of columns if it is
            smaller. A column of padding has a similarity of 0.
        """
        columns, values = [], []
        for some in in_pieces(inputs, FEW):
            similarities = self._nearest.similarities(some.counts)
            best = torch.argsort(similarities, dim=1, descending=True, stable=True)[:, :count]
            columns.append(best)
            values.append(similarities.gather(1, best))
        return torch.cat(columns), torch.cat(values)

    def similarity_map(self, counts: Tensor, column: int) -> Tensor:
        """Return the similarities [m] of m fingerprints, [m, 2048], to one training molecule of
        the model.
        """
        return self._nearest.similarities(counts)[:, column]

    @property
    def fingerprint_bytes(self) -> int:
        """Number of bytes that store one fingerprint bit for all training molecules."""
        return self._tensors["bits"].shape[1]

    def embed(self, inputs: MoleculeInputs) -> Tensor:
        """Return the hidden vectors of molecules, from which the networks compute their
        predictions.

        The vectors of the ensemble's networks are concatenated, not averaged: their features do
        not correspond.

        Args:
            inputs: k molecules.

        Returns:
            [k, K d] float32, d features from each of the K networks.

        Raises:
            ValueError: the model has no network.
        """
        if not self.networks:
            raise ValueError('embed needs a network; this model is "gp", which has none')
        vectors = []
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with torch.inference_mode(), limited_threads(elements, self.threads):
            for positions in torch.arange(len(inputs)).split(PREDICTION_BATCH):
                batch = batch_inputs(inputs[positions])
                vectors.append(torch.cat([network.embed(batch) for network in self.networks], 1))
        return torch.cat(vectors)

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return the state of the model, from which :meth:`from_state` restores it.

        Returns:
            Tensors by name, and the other values of the state, which JSON can store.
        """
        tensors = dict(self._tensors)
        for member, network in enumerate(self.networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        if self.kernel is not None:
            tensors |= add_prefix("gp.", self.kernel.state())
        if self.forest is not None:
            tensors |= add_prefix("forest.", self.forest.state())
        return tensors, {
            "task": self.task, "targets": self.targets, "settings": to_table(self.settings),
            "featuriser": FEATURISER, "classes": list(self.classes),
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], facts: dict[str, object]) -> MoleculePredictor:
        """Restore a model from the result of :meth:`state`.

        Args:
            tensors: tensors by name.
            facts: the other values of the state.

        Returns:
            A model with the same predictions; its history is empty.

        Raises:
            ValueError: a tensor or a fact is missing, or has another shape.
        """
        try:
            settings = from_table(MoleculeSettings, cast("dict[str, object]", facts["settings"]))
            classes = cast("Sequence[int]", facts.get("classes", ()))
            targets = cast(int, facts["targets"])
            return cls(tensors, cast(Task, facts["task"]), settings, targets, classes)
        except (KeyError, TypeError, RuntimeError) as error:
            raise ValueError(
                f"these tensors and values are not the state of a model: {error}"
            ) from error

    @property
    def weights(self) -> dict[str, float]:
        """Weight of each component in the predicted mean; the weights sum to one."""
        return dict(zip(self._names, self._tensors["weights"].tolist()))

    def in_units(self, raw: Tensor) -> Tensor:
        """Convert the outputs of networks, [..., o], to the units of the transformed targets, or to
        probabilities: [..., t]. If the model predicts quantiles, the result is the medians.
        """
        if self.levels:
            return self.network_quantiles(raw)[..., self.levels.index(MEDIAN)]
        if self.task == "multiclass":
            return class_softmax(raw, self.classes)
        if self.task == "classification":
            return raw.sigmoid()
        return raw * self._tensors["scale"] + self._tensors["mean"]

    def network_quantiles(self, raw: Tensor) -> Tensor:
        """Convert the outputs of networks, [..., t q], to ascending quantiles in the units of the
        transformed targets: [..., t, q].
        """
        scaled = sorted_quantiles(by_level(raw, len(self.levels)))
        return scaled * self._tensors["scale"][:, None] + self._tensors["mean"][:, None]

    @property
    def _names(self) -> list[str]:
        """Names of the components, in the order of their weights."""
        model = self.settings.model
        if model != "stacked":
            return [model]
        return ["attention", "gp", *(["forest"] if self.forest is not None else [])]

    def _predict_components(
        self, inputs: MoleculeInputs
    ) -> tuple[dict[str, Tensor], Tensor, Tensor, Tensor | None]:
        """Return the means [k, t] of each component, the means of each network, the variances of
        the Gaussian process, and the quantiles of each component, [P, k, t, q].
        """
        count = self.targets * max(len(self.levels), 1)
        outputs = predict_members(self.networks, inputs, count, threads=self.threads)
        members = self.in_units(outputs)
        mean = variance = torch.zeros(len(inputs), self.targets, dtype=torch.float64)
        if self.kernel is not None:
            mean, variance = self.kernel.predict(inputs)
        forest, quantiles = mean, None
        if self.forest is not None and self.levels:
            quantiles = self.forest.quantiles(inputs, self.levels)
            forest = quantiles[..., self.levels.index(MEDIAN)]
        elif self.forest is not None:
            forest = self.forest.predict(inputs)
        parts = dict(zip(self._names, self._parts(members, mean, forest)))
        return parts, members, variance, self._quantile_parts(outputs, mean, variance, quantiles)

    def _error_inputs(self, parts: Tensor, members: Tensor, variance: Tensor) -> Tensor:
        """Return the s inputs of the model of the squared error, [s, k, t], in squares of the
        target's unit.
        """
        sources = [self._tensors["scale"].square().expand_as(variance)]
        if self.kernel is not None:
            sources.append(variance)
        if len(parts) > 1:
            sources.append((parts[0] - parts[1]).square())
        if len(parts) > 2:
            sources.append((parts[1] - parts[2]).square())
        if len(members) > 1:
            # The variance is computed without Tensor.var, which warns if the batch is empty.
            deviations = members - members.mean(0)
            sources.append(deviations.square().sum(0) / (len(members) - 1))
        return torch.stack(sources)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of a model that are not networks: the Gaussian process and the forest.

    Attributes:
        kernel: the Gaussian process of the training part.
        evidence: their predictions for fitting the weights; None for a model of one part.
        forest: the forest of both parts.
        forest_val: [m, t] predictions of the validation molecules, each by the trees that were not
            trained on its group.
        forest_quantiles: [m, t, q] quantiles over the same trees; None if none are predicted.
    """

    kernel: GaussianProcess
    evidence: Evidence | None = None
    forest: Forest | None = None
    forest_val: Tensor | None = None
    forest_quantiles: Tensor | None = None


def batch_elements(molecules: int, settings: MoleculeSettings) -> int:
    """Estimate the size of a batch of molecules as the number of atoms times the number of
    features.

    The size decides how many threads compute a batch; see
    :func:`gattn.training.threads.choose_threads`.
    """
    return molecules * ATOMS * settings.width


_OWN = ("mean", "scale", "bits", "weights", "spread")
_MOLECULES = "molecules"
"""Key of the saved number of molecules in a row. It is absent if a row has one molecule."""
_EXTRA = ("extra_mean", "extra_scale")
"""Keys of the saved tensors with the mean and the standard deviation of each of the user's
descriptor columns.
"""
_RANGE = ("extra_low", "extra_high")
"""Keys of the saved tensors with the smallest and the largest training value of each of the
user's descriptor columns.
"""
_TRANSFORM = "transform"
"""Key of the saved tensor with the codes of the target transforms."""


def _levels(task: Task, settings: MoleculeSettings) -> tuple[float, ...]:
    """Return the levels of the quantiles that a model predicts; () for classes."""
    return settings.quantile_levels if task == "regression" else ()


def _disagreement(parts: Tensor, members: Tensor) -> Tensor:
    """Return the standard deviation [k, t] over components and networks. For classes, it is the
    expected error.
    """
    voices = torch.cat([parts, members])
    return (voices - voices.mean(0)).square().mean(0).sqrt()


def _check(inputs: MoleculeInputs, y: Tensor, name: str) -> None:
    if y.dim() != 2 or len(y) != len(inputs) or not len(y):
        raise ValueError(f"{name} must be ({len(inputs)}, t), one or more; got {(*y.shape,)}")


def _with_standard_columns(inputs: MoleculeInputs, tensors: dict[str, Tensor]) -> MoleculeInputs:
    """Return the inputs after their descriptor columns are standardised; see ``standardised``."""
    mean, scale = (tensors[name] for name in _EXTRA)
    columns = ((inputs.extra_descriptors - mean) / scale).clamp(-FARTHEST, FARTHEST)
    return DescribedInputs(inputs, columns.nan_to_num(0.0))


def _ranges(columns: Tensor) -> dict[str, Tensor]:
    """Return the smallest and the largest value of each column of [k, f]; NaN for a column
    without values.
    """
    missing = columns.isnan()
    low = columns.masked_fill(missing, torch.inf).amin(0)
    high = columns.masked_fill(missing, -torch.inf).amax(0)
    empty = missing.all(0)
    ends = (low.masked_fill(empty, torch.nan), high.masked_fill(empty, torch.nan))
    return dict(zip(_RANGE, ends))


def _bits(inputs: MoleculeInputs) -> Tensor:
    return pack_bits(some.counts for some in in_pieces(inputs, PIECE))


def _scaling(y: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation by which each target is scaled; 0 and 1 for
    classes.
    """
    if task != "regression":
        return torch.zeros(y.shape[1]).double(), torch.ones(y.shape[1]).double()
    return moments(y)


def _nothing(targets: int) -> Prediction:
    """Return an empty prediction, for inputs without molecules."""
    none = torch.empty(0, targets, dtype=torch.float64)
    return Prediction(none, none, {}, none[None][:0], torch.empty(0))


def _loaded(
    network: MoleculeNetwork | AttentiveFPNetwork, tensors: dict[str, Tensor]
) -> MoleculeNetwork | AttentiveFPNetwork:
    network.load_state_dict(tensors)
    return network.eval()
