"""Model of molecular properties that combines neural networks, a Gaussian process and a forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.tasks import Task
from gattn.apps.molecules import members, nearest, stacking, target_transform
from gattn.apps.molecules.components import Components, Fitted
from gattn.apps.molecules.descriptor_columns import column_tensors, with_standard_columns
from gattn.apps.molecules.forest import Forest, forest_obstacle
from gattn.apps.molecules.gaussian_process import GaussianProcess, draw_labelled, known_labels
from gattn.apps.molecules.inputs import distinct_inputs, in_pieces
from gattn.apps.molecules.network import MoleculeNetwork, batch_inputs
from gattn.apps.molecules.related import with_related
from gattn.apps.molecules.rows import FitPart
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.molecules.target_transform import Prediction
from gattn.apps.run.model_io import add_prefix, remove_prefix
from gattn.apps.runtime.threads import Background, available_threads, limited_threads
from gattn.data.splits import number_groups

if TYPE_CHECKING:
    from gattn.apps.fitting.loop import History
    from gattn.apps.molecules.model_inputs import MoleculeInputs

KERNEL_PARTS = 6
"""Number of matrices of the size of the kernel matrix that one evaluation of the kernel reads.
It determines the number of threads.
"""
ROWS = 1000
"""Maximum number of training molecules of a target that are predicted by models that were not
trained on them.
"""


_Others: TypeAlias = "tuple[GaussianProcess, Forest | None, stacking.Evidence | None]"
"""Components of a model that are not networks: the Gaussian process of the training part, the
forest of both parts, and their predictions for fitting the weights.
"""


def _fit_others(
    train: FitPart, val: FitPart, groups: tuple[Tensor, Tensor], settings: MoleculeSettings,
    check: Callable[[], None] = lambda: None, *, forest: bool, progress: bool = False,
) -> _Others:  # fmt: skip
    """Return the trained Gaussian process, and the forest if ``forest`` is True (otherwise None),
    and the predictions by which a stack weighs them; None for another model than "stacked".
    ``groups`` are the joint groups of both parts. ``check`` is called repeatedly, and raises an
    error to stop the training.
    """
    rows, seed = settings.kernel_rows, settings.seed
    kernel = GaussianProcess.fit(
        train.inputs, train.y, train.weights, rows=rows, seed=seed, bounds=train.bounds,
        progress=progress, check=check,
    )  # fmt: skip
    if settings.model != "stacked":
        return kernel, None, None
    some, chosen = draw_labelled(kernel.labelled, ROWS, seed)
    place = kernel.rows[some]
    left_out = torch.full((2, *train.y.shape), torch.nan, dtype=torch.float64)
    left_out[:, place] = torch.stack(kernel.leave_out(groups[0][place], some, chosen))
    kernels = (left_out[0], left_out[1], kernel.predict(val.inputs)[0])
    first, rest = slice(0, len(train.inputs)), slice(len(train.inputs), None)
    if not forest:
        none = torch.empty(0)
        return kernel, None, stacking.Evidence(*kernels, None, None, none, train.y, *groups)
    trees, (few, all_trees) = Forest.fit(
        train.inputs, val.inputs, torch.cat([train.y, val.y]), trees=settings.trees, seed=seed,
        groups=torch.cat(groups), weights=torch.cat([train.weights, val.weights]), check=check,
    )  # fmt: skip
    # No tree was trained on a missing label, so all trees may be used for its molecule.
    unlabelled = trees.predict(val.inputs)
    few_val, all_val = (each[rest].filled(unlabelled) for each in (few, all_trees))
    evidence = stacking.Evidence(*kernels, few[first], few_val, all_val.mean, train.y, *groups)
    return kernel, trees, evidence


def _joint_groups(train: FitPart, val: FitPart) -> tuple[Tensor, Tensor]:
    """Return the numbers of the groups of both parts, [k] and [m] int64. They are equal for groups
    of one name; if a part has no names, the parts have no common group.
    """
    if train.groups is None or val.groups is None:
        first = train.group_numbers()
        return first, val.group_numbers() + first.amax() + 1
    count = len(train.inputs)
    every = number_groups([*train.groups, *val.groups], count + len(val.inputs))
    return every[:count], every[count:]


def _check(part: FitPart, name: str) -> None:
    """Raise ValueError unless a part has labels [k, t] for its k molecules, one or more."""
    y, count = part.y, len(part.inputs)
    if y.dim() != 2 or len(y) != count or not len(y):
        raise ValueError(f"{name} must be ({count}, t), one or more; got {(*y.shape,)}")


def _bits(inputs: MoleculeInputs) -> Tensor:
    """Return the packed Morgan bits of molecules; see :func:`pack_bits`."""
    return nearest.pack_bits(some.counts for some in in_pieces(inputs))


def _totals(inputs: MoleculeInputs) -> Tensor:
    """Return the number of Morgan environments of k molecules, padded like their bits."""
    totals = torch.cat([some.counts.sum(1) for some in in_pieces(inputs)])
    return torch.nn.functional.pad(totals, (0, -len(totals) % 8)).int()


FOLDS = 10
"""Number of folds. With ten folds, each choice uses nine tenths of the validation part, so it
differs little from a choice on the whole part.
"""


def assign_folds(groups: Tensor, seed: int) -> Tensor:
    """Assign each row to a random fold; all rows of a group are in the same fold.

    Args:
        groups: [n] int64, the group of each row, numbered from 0.
        seed: seed of the draw.

    Returns:
        [n] int64 in 0..FOLDS - 1; folds differ by at most one group in size.

    Example:
        >>> assign_folds(torch.tensor([0, 1, 0]), seed=0).tolist()
        [0, 1, 0]
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    generator = torch.Generator().manual_seed(seed)
    return (torch.randperm(count, generator=generator) % FOLDS)[groups]


BLOCK = 64
"""Number of molecules that are compared with all training molecules at once."""


class MoleculePredictor(Components):
    """Trained model of molecular properties, created by :meth:`fit` or :meth:`from_state`.

    Attributes:
        validation: the prediction of each validation molecule by a model that was chosen without
            it; errors and intervals are calibrated by it. Empty after :meth:`from_state`.
        left_out: labels, means and standard deviations [n, t] of training molecules, by a Gaussian
            process and trees that were not trained on them, on the scale on which the model is
            trained; they calibrate intervals, too. Empty after :meth:`from_state`.
        transform: the transform of the targets; see ``target_transform`` of the settings.
    """

    def _restore_others(self, tensors: dict[str, Tensor]) -> None:
        """Set the other components from their tensors, and the transform of the targets; the
        predictions of the validation part, which are not saved, become empty.
        """
        super()._restore_others(tensors)
        self.validation = target_transform.empty_prediction(self.targets)
        self.left_out = torch.empty(3, 0, self.targets)
        self.transform = target_transform.TargetTransform(
            "none" if self.task.is_class else self.settings.target_transform
        )
        self._add({})

    def _add(self, tensors: dict[str, Tensor]) -> None:
        """Add tensors to the state, and prepare the search for molecules of the training part, the
        model of the related columns, and the measured labels, for which ``kernel`` must be set.
        """
        self._tensors |= tensors
        self._nearest = nearest.NearestMolecules(self._tensors["bits"])
        related = remove_prefix("related.", self._tensors)
        self._related = GaussianProcess(related, variance=False) if related else None
        self._measured: nearest.MeasuredTargets | None = None
        if self.kernel is not None and "residuals" in self._tensors:
            errors = (self._tensors[name].numpy() for name in ("residuals", "correlation"))
            self._measured = nearest.MeasuredTargets(self.kernel.counts.numpy(), *errors)

    def read_related(self, kernel: GaussianProcess) -> None:
        """Compute the last descriptor columns by the Gaussian process that predicted them for the
        parts of the training (:func:`gattn.apps.molecules.related.with_related`).
        """
        self._add(add_prefix("related.", kernel.state()))

    @classmethod
    def fit(
        cls,
        train: FitPart,
        val: FitPart,
        task: Task,
        settings: MoleculeSettings,
        *,
        classes: Sequence[int] = (),
        folder: Path | None = None,
        progress: bool = False,
        threads: int = 0,
    ) -> MoleculePredictor:
        """Train the components of the model. The weights of the components are fitted to errors for
        molecules on which the components were not trained.

        The Gaussian process and the forest are trained on both parts. Their weights are fitted to
        predictions of training molecules by models that were not trained on these molecules. The
        weight of the network is fitted to the validation part; see
        :func:`gattn.apps.molecules.stacking.part_weights`. :attr:`validation` predicts the
        validation part by cross-fitting in ten folds. The networks' epochs, the components' weights
        and the coefficients of the error for one fold are chosen without its labels, and the
        Gaussian process and the forest predict each molecule as if they had not been trained on it.
        The errors of these predictions are therefore similar to errors for new molecules.

        If the networks are trained with one thread, the Gaussian process and the forest are trained
        at the same time on another core.

        Args:
            train: the training part. Descriptor columns, if there are any, are standardised by
                the mean and the standard deviation of this part.
            val: the validation part, for choosing the networks' epoch, fitting the components'
                weights and calibrating the errors.
            task: the type of the labels.
            settings: settings of the model and its training.
            classes: for several exclusive classes the number of classes of each target.
            folder: folder of the checkpoints of the networks, from which training continues.
            progress: whether to show a progress bar.
            threads: number of threads inside an operator; 0 to choose it by the size of a batch
                and of the kernel. The previous number of threads is restored at the end.

        Returns:
            The trained model.

        Raises:
            ValueError: shapes that do not match, or a target without a training label.
            TrainingError: a checkpoint is damaged or belongs to another training, or the loss of a
                network is not finite.
            RuntimeError: a process that trains networks was killed.
        """
        _check(train, "y of the training part")
        _check(val, "y of the validation part")
        targets = train.y.shape[1]
        if not train.y.isfinite().any(0).all():
            raise ValueError("y must have a label for every target; a target has no label")
        name = "none" if task.is_class else settings.target_transform
        transform = target_transform.TargetTransform(name)
        columns, unit = train.inputs.extra_descriptors, train.weights.double().mean()
        scaling = column_tensors(columns) if columns.shape[1] else {}
        train, val = (
            replace(
                part, y=transform(part.y.double()), weights=part.weights / unit,
                bounds=None if part.bounds is None else transform(part.bounds),
                inputs=with_standard_columns(part.inputs, scaling) if scaling else part.inputs,
            )
            for part in (train, val)
        )  # fmt: skip
        mean, scale = task.scaling(train.y)
        # The totals are the numbers of Morgan environments of the molecules, in their order.
        bits, totals = _bits(train.inputs), _totals(train.inputs)
        tensors = {"mean": mean, "scale": scale, "bits": bits, "totals": totals, **scaling}
        if (molecules := members.molecules_in_row(train.inputs)) > 1:
            tensors["molecules"] = torch.tensor(molecules)
        near = nearest.NearestMolecules(bits)
        similarities = torch.cat([near.similarity(some.counts) for some in in_pieces(val.inputs)])
        batches, val_batches = (
            members.MoleculeBatches(
                part.inputs, (part.y - mean) / scale, part.weights,
                None if part.bounds is None else (part.bounds - mean[:, None]) / scale[:, None],
                bounded=not task.is_class and settings.bounded,
                columns=settings.model == "attention", similarity=float(similarities.mean()),
            )
            for part in (train, val)
        )  # fmt: skip
        rows, seed = settings.kernel_rows, settings.seed
        kernel_size = KERNEL_PARTS * min(len(train.inputs), rows) ** 2
        without = forest_obstacle(settings.trees, targets, train.bounds, val.bounds)
        groups = _joint_groups(train, val)
        fit_others = partial(_fit_others, train, val, groups, settings, forest=not without)
        history: list[History] = []
        networks: list[MoleculeNetwork] = []
        others: _Others | None = None
        if settings.model != "gp":
            with ExitStack() as stack:
                elements = members.batch_elements(settings.batch_size, settings)
                used = stack.enter_context(limited_threads(elements, threads))
                background: Background[_Others] | None = None
                if settings.model == "stacked" and used < available_threads():
                    background = stack.enter_context(Background(fit_others))
                networks, history = members.fit_members(
                    batches, val_batches, task, settings, classes=classes, folder=folder,
                    progress=progress, threads=threads,
                )  # fmt: skip
                others = background and background.result()
        if settings.model in ("stacked", "gp") and others is None:
            with limited_threads(kernel_size, threads):
                others = fit_others(progress=progress)
        for member, network in enumerate(networks):
            tensors |= add_prefix(f"networks.{member}.", network.state_dict())
        folds = assign_folds(val.group_numbers(), seed)
        kernel_index, evidence = torch.arange(0), None
        if others is not None:
            kernel, forest, evidence = others
            left = (rows - kernel.labelled.sum(0)).clamp(min=0)
            kernel_index, labels = draw_labelled(known_labels(val.y, val.bounds), left, seed)
            y, bounds = val.y[kernel_index].where(labels, torch.nan), val.bounds
            if bounds is not None:
                bounds = bounds[kernel_index].where(labels[..., None], torch.nan)
            more = kernel.with_more(val.inputs[kernel_index], y, val.weights[kernel_index], bounds)
            tensors |= add_prefix("gp.", more.state())
            if forest is not None:
                tensors |= add_prefix("forest.", forest.state())
        predictor = cls(tensors, task, settings, classes)
        predictor.history, predictor.threads = history, threads
        predictor.without_forest = without if settings.model == "stacked" else ""
        with limited_threads(kernel_size, threads):
            raw = members.cross_fit_members(
                networks, history, val_batches, folds, task, settings, classes, threads=threads
            )
            fitted, validation, predictor.left_out = predictor.calibrate(
                val, predictor.in_units(raw), similarities=similarities, kernel_index=kernel_index,
                folds=folds, train_weights=train.weights, evidence=evidence,
            )  # fmt: skip
            if others is not None and not task.is_class and train.y.isnan().any():
                assert predictor.kernel is not None
                some = torch.cat([groups[0][others[0].rows], groups[1][kernel_index]])
                residuals = predictor.kernel.left_out_errors(some)
                correlation = torch.from_numpy(nearest.residual_correlation(residuals.numpy()))
                predictor._add({"residuals": residuals, "correlation": correlation})
        least = {"least_similarity": similarities.min()}
        predictor._add({
            "weights": fitted.weights, "spread": fitted.spread,
            "bits": torch.cat([bits, _bits(val.inputs)], 1),
            "totals": torch.cat([totals, _totals(val.inputs)]),
            **({"offset": fitted.offset} if task.is_class else least),
        })  # fmt: skip
        predictor.validation = target_transform.in_target_units(validation, predictor.transform)
        return predictor

    def predict(self, inputs: MoleculeInputs, neighbors: int = 0) -> Prediction:
        """Predict the targets of molecules and the expected errors, in the targets' units.

        Equal molecules are predicted once, so that their predictions are equal. If some targets of
        a molecule were measured in the training part, they correct its other targets; see
        :class:`gattn.apps.molecules.nearest.MeasuredTargets`.

        With a target transform, the means are medians, and the standard deviations are multiplied
        by the derivative of the inverse transform.

        Args:
            inputs: k molecules.
            neighbors: number of most similar molecules to find for each; 0 for none.

        Returns:
            Means, expected errors, and their components; empty tensors for no molecules.

        Raises:
            ValueError: the model was trained with another number of descriptor columns.
        """
        inputs, place = distinct_inputs(inputs)
        predicted, variance = self._predict(inputs)
        if self._measured is not None:
            pieces = [self._measured.corrections(some.counts.numpy()) for some in in_pieces(inputs)]
            shift, factor = (torch.from_numpy(np.concatenate(each)) for each in zip(*pieces))
            mean, std = predicted.mean + shift * variance.sqrt(), predicted.std * factor
            predicted = replace(predicted, mean=mean, std=std)
        predicted = target_transform.in_target_units(predicted, self.transform)
        if neighbors:
            index, similarity = self.nearest(inputs, neighbors)
            predicted = replace(predicted, nearest_index=index, nearest_similarity=similarity)
        return predicted.take(place)

    def predict_transformed(self, inputs: MoleculeInputs) -> Prediction:
        """Predict the transformed targets, on the scale on which the model is trained.

        Without a target transform, the result is that of :meth:`predict`.

        Args:
            inputs: k molecules.

        Returns:
            Means [k, t], expected errors [k, t], and the predictions of the components; empty
            tensors for no molecules.

        Raises:
            ValueError: the model was trained with another number of descriptor columns.
        """
        return self._predict(inputs)[0]

    def _predict(self, inputs: MoleculeInputs) -> tuple[Prediction, Tensor]:
        """Return the result of :meth:`predict_transformed`, and the variances [k, t] of the
        Gaussian process.
        """
        inputs = self.standardised(inputs)
        elements = members.batch_elements(min(len(inputs), members.PREDICTION_BATCH), self.settings)
        with limited_threads(elements, self.threads):
            outputs = self.predict_components(inputs)
            offset = self._tensors.get("offset", torch.zeros(1))
            fitted = Fitted(self._tensors["weights"], self._tensors["spread"], offset)
            mean, std = self.combined(outputs, fitted)
            pieces = (self._nearest.similarity(some.counts) for some in in_pieces(inputs))
            similarities = torch.cat(list(pieces))
            if not self.task.is_class:
                least = self._tensors["least_similarity"]
                std = stacking.extrapolated_std(std, similarities, least, self.scale)
            named = dict(zip(self.names, outputs.means))
            predicted = Prediction(mean, std, named, outputs.members, similarities)
            return predicted, outputs.variance

    def standardised(self, inputs: MoleculeInputs) -> MoleculeInputs:
        """Return the inputs with standardised descriptor columns, as the model reads them: those of
        the user, and predictions of related targets.

        A column has the mean 0 and the standard deviation 1 in the training part. A missing value
        becomes 0, the mean. Values beyond 6 standard deviations are clipped.

        Raises:
            ValueError: the model was trained with another number of columns.
        """
        count = inputs.extra_descriptors.shape[1]
        expected = self.extra
        if self._related is not None:
            expected -= self._tensors["related.y"].shape[1]
        if count != expected:
            raise ValueError(
                f"the model was trained with {expected} descriptor columns; got {count}"
            )
        if self._related is not None:
            inputs = with_related(inputs, self._related)
        return with_standard_columns(inputs, self._tensors) if self.extra else inputs

    def nearest(self, inputs: MoleculeInputs, count: int) -> tuple[Tensor, Tensor]:
        """Find the most similar molecules of the training and validation parts.

        Molecules of equal similarity, such as long chains, are ordered by the difference of their
        numbers of Morgan environments. Therefore a measured molecule itself is the first.

        Args:
            inputs: k molecules.
            count: number of molecules to find for each.

        Returns:
            The columns [k, c] int64 and their Tanimoto similarities on Morgan bits [k, c] float32,
            the most similar first; c is ``count``, or the number of columns if it is smaller. The
            columns are the molecules of the training part, padded to a multiple of eight, then
            those of the validation part, padded likewise. The similarity to padding is 0.
        """
        columns, values = [], []
        for some in in_pieces(inputs, BLOCK):
            similarities = self._nearest.similarities(some.counts)
            apart = (self._tensors["totals"] - some.counts.sum(1, keepdim=True)).abs()
            order = apart.argsort(dim=1, stable=True)
            best = similarities.gather(1, order).argsort(dim=1, descending=True, stable=True)
            best = order.gather(1, best[:, :count])
            columns.append(best)
            values.append(similarities.gather(1, best))
        return torch.cat(columns), torch.cat(values)

    @property
    def fingerprint_bytes(self) -> int:
        """Number of bytes in which one bit of the fingerprints is stored for all training
        molecules.
        """
        return self._tensors["bits"].shape[1]

    def embed(self, inputs: MoleculeInputs) -> Tensor:
        """Return the hidden vectors of molecules, from which the networks compute their
        predictions.

        The vectors of the ensemble's networks are concatenated and not averaged, because the
        features of different networks have different meanings.

        Args:
            inputs: k molecules.

        Returns:
            [k, K d] float32, d features from each of the K networks.

        Raises:
            ValueError: the model has no network.
        """
        if not self.networks:
            raise ValueError('embed needs a network; this model is "gp", which has none')
        inputs, place = distinct_inputs(inputs)
        vectors = []
        elements = members.batch_elements(min(len(inputs), members.PREDICTION_BATCH), self.settings)
        with torch.inference_mode(), limited_threads(elements, self.threads):
            for positions in torch.arange(len(inputs)).split(members.PREDICTION_BATCH):
                batch = batch_inputs(inputs[positions])
                vectors.append(torch.cat([network.embed(batch) for network in self.networks], 1))
        return torch.cat(vectors)[place]

    def weights_of(self, target: int) -> dict[str, float]:
        """Return the weight of each component in the predicted mean of a target. The weights sum to
        one; for classes their sum is smaller, because the frequencies of the classes have the rest
        of the weight.
        """
        weights = self._tensors["weights"].view(len(self.names), -1)
        return dict(zip(self.names, weights.expand(-1, self.targets)[:, target].tolist()))
