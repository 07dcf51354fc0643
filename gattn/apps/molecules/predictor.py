"""Model of molecular properties that combines neural networks, a Gaussian process and a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from gattn.apps.fitting.settings import from_table, to_table
from gattn.apps.molecules import fitting
from gattn.apps.molecules.components import Components, disagreement
from gattn.apps.molecules.descriptor_columns import SCALE, with_standard_columns
from gattn.apps.molecules.inputs import distinct_inputs, in_pieces
from gattn.apps.molecules.members import PREDICTION_BATCH, batch_elements
from gattn.apps.molecules.nearest import MeasuredTargets, NearestMolecules
from gattn.apps.molecules.network import batch_inputs
from gattn.apps.molecules.settings import MoleculeSettings, Task
from gattn.apps.molecules.stacking import combine, extrapolated_std, predicted_std
from gattn.apps.molecules.target_transform import (
    Prediction,
    TargetTransform,
    empty_prediction,
    in_target_units,
)
from gattn.apps.runtime.threads import limited_threads
from gattn.data.molecules.features import FEATURISER

if TYPE_CHECKING:
    from gattn.apps.fitting.loop import History
    from gattn.apps.molecules.model_inputs import MoleculeInputs

BLOCK = 64
"""Number of molecules that are compared with all training molecules at once."""
_TENSORS = ("mean", "scale", "bits", "weights", "spread")
"""Keys of the saved tensors that every model has, beside those of its components."""


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
        weights: the weight of each component in the predicted mean, by the name of the component.
        kernel: the Gaussian process; None if the model has none.
        forest: the forest of trees; None if the model has none.
        without_forest: the reason why a stacked model has no forest; empty if it has one, and after
            :meth:`from_state`.
        threads: number of threads inside an operator of a prediction; 0 to choose it by the size.
        extra: number of descriptor columns of the user.
        transform: the transform of the targets; see ``target_transform`` of the settings.
        molecules: number of molecules in a row.
    """

    threads = 0
    without_forest = ""

    def __init__(self, components: Components, tensors: dict[str, Tensor]) -> None:
        """Create a model from its components and the other tensors of :meth:`state`."""
        self._components = components
        self.task, self.settings = components.task, components.settings
        self.targets, self.classes = components.targets, components.classes
        self.networks = components.networks
        self.kernel, self.forest = components.kernel, components.forest
        self.history: list[History] = []
        self.validation = empty_prediction(self.targets)
        self._tensors = {name: tensors[name] for name in _TENSORS}
        optional = (
            *SCALE, fitting.MOLECULES, fitting.OFFSET, fitting.TOTALS, fitting.LEAST,
            fitting.RESIDUALS, fitting.CORRELATION,
        )  # fmt: skip
        self._tensors |= {name: tensors[name] for name in optional if name in tensors}
        is_number = self.task == "regression"
        self.transform = TargetTransform(self.settings.target_transform if is_number else "none")
        self.extra, self.molecules = _input_sizes(tensors)
        self._nearest = NearestMolecules(tensors["bits"])
        self._measured: MeasuredTargets | None = None
        if self.kernel is not None and fitting.RESIDUALS in tensors:
            arrays = (self.kernel.counts, tensors[fitting.RESIDUALS], tensors[fitting.CORRELATION])
            self._measured = MeasuredTargets(*(each.numpy() for each in arrays))

    @classmethod
    def fit(
        cls,
        train: fitting.FitPart,
        val: fitting.FitPart,
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
            task: ``"regression"``, ``"classification"`` or ``"multiclass"``.
            settings: settings of the model and its training.
            classes: for ``"multiclass"`` the number of classes of each target.
            folder: folder of the checkpoints of the networks, from which training continues.
            progress: whether to show a progress bar.
            threads: number of threads inside an operator; 0 to choose it by the size of a batch
                and of the kernel. The previous number of threads is restored at the end.

        Returns:
            The trained model.

        Raises:
            ValueError: shapes that do not match, or a target without a training label.
        """
        fitted = fitting.fit_model(
            train, val, task, settings, classes=classes, folder=folder, progress=progress,
            threads=threads,
        )  # fmt: skip
        predictor = cls(fitted.components, fitted.tensors)
        predictor.history, predictor.threads = fitted.history, threads
        predictor.validation = in_target_units(fitted.validation, predictor.transform)
        predictor.without_forest = fitted.without_forest
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
        """
        inputs, place = distinct_inputs(inputs)
        predicted = self.predict_transformed(inputs)
        if self._measured is not None:
            predicted = _corrected(predicted, inputs, self._measured)
        predicted = in_target_units(predicted, self.transform)
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
            Means, expected errors, and their components; empty tensors for no molecules.
        """
        inputs = self.standardised(inputs)
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with limited_threads(elements, self.threads):
            predicted = self._components.predict(inputs, threads=self.threads)
            means, members = torch.stack(list(predicted.means.values())), predicted.members
            mean, similarities = combine(means, self._tensors["weights"]), self._similarity(inputs)
            if self.task == "regression":
                sources = self._components.error_inputs(means, members, predicted.variance)
                least = self._tensors.get(fitting.LEAST, torch.tensor(0.0))
                std = predicted_std(sources, self._tensors["spread"])
                std = extrapolated_std(std, similarities, least, self._components.scale)
            else:
                mean = mean + self._tensors.get(fitting.OFFSET, 0.0)
                std = disagreement(means, members)
            return Prediction(mean, std, predicted.means, members, similarities)

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
        return with_standard_columns(inputs, self._tensors) if count else inputs

    def _similarity(self, inputs: MoleculeInputs) -> Tensor:
        """Return the similarity of each molecule to the most similar training molecule: [k]."""
        pieces = in_pieces(inputs, fitting.PIECE)
        return torch.cat([self._nearest.similarity(some.counts) for some in pieces])

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
            totals = self._tensors.get(fitting.TOTALS, torch.zeros(similarities.shape[1]))
            apart = (totals - some.counts.sum(1, keepdim=True)).abs()
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
        elements = batch_elements(min(len(inputs), PREDICTION_BATCH), self.settings)
        with torch.inference_mode(), limited_threads(elements, self.threads):
            for positions in torch.arange(len(inputs)).split(PREDICTION_BATCH):
                batch = batch_inputs(inputs[positions])
                vectors.append(torch.cat([network.embed(batch) for network in self.networks], 1))
        return torch.cat(vectors)[place]

    def state(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return the state of the model, from which :meth:`from_state` restores it.

        Returns:
            Tensors by name, and the other values of the state, which JSON can store.
        """
        return self._tensors | self._components.state(), {
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
            KeyError: a tensor or a value is missing.
            RuntimeError: a tensor has another shape.
        """
        settings = from_table(MoleculeSettings, cast("dict[str, object]", facts["settings"]))
        classes = cast("Sequence[int]", facts.get("classes", ()))
        targets = cast(int, facts["targets"])
        extra, molecules = _input_sizes(tensors)
        components = Components(
            tensors, cast(Task, facts["task"]), settings, targets, classes,
            extra=extra, molecules=molecules,
        )  # fmt: skip
        return cls(components, tensors)

    @property
    def weights(self) -> dict[str, float]:
        """Mean weight of each component over the targets; see :meth:`weights_of`."""
        return self._named(self._tensors["weights"].view(len(self._components.names), -1).mean(1))

    def weights_of(self, target: int) -> dict[str, float]:
        """Return the weight of each component in the predicted mean of a target. The weights sum to
        one; for classes their sum is smaller, because the frequencies of the classes have the rest
        of the weight.
        """
        weights = self._tensors["weights"].view(len(self._components.names), -1)
        return self._named(weights.expand(-1, self.targets)[:, target])

    def _named(self, weights: Tensor) -> dict[str, float]:
        return dict(zip(self._components.names, weights.tolist()))

    def in_units(self, raw: Tensor) -> Tensor:
        """Convert the outputs of networks, [..., o], to the units of the transformed targets, or to
        probabilities: [..., t].
        """
        return self._components.in_units(raw)


def _corrected(
    predicted: Prediction, inputs: MoleculeInputs, measured: MeasuredTargets
) -> Prediction:
    """Correct predictions by the measured targets of the molecules."""
    pieces = [
        measured.corrections(some.counts.numpy()) for some in in_pieces(inputs, fitting.PIECE)
    ]
    shift, factor = (torch.from_numpy(np.concatenate(each)) for each in zip(*pieces))
    mean, std = predicted.mean + predicted.std * shift, predicted.std * factor
    return replace(predicted, mean=mean, std=std)


def _input_sizes(tensors: dict[str, Tensor]) -> tuple[int, int]:
    """Return the number of the user's descriptor columns, and of molecules in a row."""
    return len(tensors.get(SCALE[0], ())), int(tensors.get(fitting.MOLECULES, 1))
