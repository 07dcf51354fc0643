"""Models of a stack other than the attention network, for example linear models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.nodes.stack.blocks import Blocks, Reduction, as_matrix
from gattn.nodes.stack.closed_form import ClosedForm
from gattn.nodes.stack.linear import Linear, Scaler, fit_linear
from gattn.nodes.stack.perceptron import Perceptron
from gattn.nodes.stack.propagation import Neighbours, label_features, propagate

__all__ = ["LABEL_FREE", "Components"]

LABEL_FREE = ("constant", "columns", "neighbours")
"""Names of the models that read no labels, so that they can also predict other graphs."""
MANY = 2000
"""Minimum number of training nodes for which a perceptron replaces the linear model `labels`."""


class Components:
    """Models of a stack that are fitted once for each split of a graph, and do not depend on the
    seed.

    =================  ========================================================================
    ``constant``       share of each class, or the mean
    ``columns``        linear model on a node's features
    ``neighbours``     linear model, also on means over one and two steps and on degrees
    ``labels``         linear model, also on the labels around a node; with few training nodes
    ``propagation``    labels spread along the edges
    ``closed_form``    :class:`gattn.nodes.stack.closed_form.ClosedForm`
    ``perceptron``     two layers on means of features and labels, with 2,000 training nodes
    =================  ========================================================================

    Attributes:
        is_class: True for classes.
        linear: linear models and the scalers of their features, by name.
        closed_form: the model without training.
        perceptron: None with few training nodes.
        reduction: projection of wide features.
        train: [k] nodes with labels.
        labels: [k, c] one-hot classes or standardised numbers.
    """

    def __init__(
        self,
        linear: Mapping[str, tuple[Scaler, Linear]],
        closed_form: ClosedForm,
        perceptron: Perceptron | None,
        reduction: Reduction,
        train: NDArray,
        labels: NDArray,
        seed: int,
        *,
        is_class: bool,
    ) -> None:
        self.linear, self.closed_form, self.perceptron = linear, closed_form, perceptron
        self.reduction, self.train, self.labels = reduction, train, labels
        self.seed, self.is_class = seed, is_class

    @classmethod
    def fit(
        cls,
        x: Tensor,
        neighbours: Neighbours,
        y: NDArray,
        train: NDArray,
        val: NDArray,
        outputs: int,
        seed: int,
        *,
        is_class: bool,
    ) -> tuple[Components, dict[str, NDArray[np.float64]]]:
        """Fit the models to the training nodes, and predict all nodes.

        Args:
            x: [n, d] encoded features.
            neighbours: the graph.
            y: [n] classes from 0, or standardised numbers; only the labels of the two parts are
                read.
            train: [k] nodes to fit.
            val: [m] validation nodes, by which penalties are chosen.
            outputs: number of classes; 1 for numbers.
            seed: seed of folds and of the perceptron.
            is_class: True for classes.

        Returns:
            The models, and their predictions [n, outputs] for all nodes, by name.
        """
        matrix = as_matrix(x)
        reduction = Reduction.fit(matrix, seed)
        blocks = Blocks(matrix, neighbours, reduction)
        labels = np.eye(outputs)[y[train].astype(int)] if is_class else y[train][:, None]
        labels = labels.astype(np.float32)
        hops = blocks.hops()
        linear: dict[str, tuple[Scaler, Linear]] = {}
        predictions: dict[str, NDArray[np.float64]] = {}

        def fit_one(name: str, some: Sequence[Any]) -> None:
            scaler = Scaler.fit(some)
            joined = scaler.join(some)
            model = fit_linear(joined, y, train, val, outputs, is_class=is_class)
            linear[name] = scaler, model
            predictions[name] = model.predict(joined)

        fit_one("columns", hops[:1])
        fit_one("neighbours", hops)
        around = label_features(neighbours, labels, train, predictions["neighbours"], seed)
        # On a large graph this model is omitted, because it takes most of the time and the
        # perceptron reads the same features of labels.
        if len(train) < MANY:
            fit_one("labels", [*hops, *around])
        form, _ = ClosedForm.fit(blocks, labels, train, seed, is_class=is_class)
        perceptron = None
        if len(train) >= MANY:
            dense = [*blocks.dense_hops(), *around]
            perceptron = Perceptron.fit(dense, y, train, outputs, seed, is_class=is_class)
        components = cls(
            linear, form, perceptron, reduction, train, labels, seed, is_class=is_class
        )
        return components, predictions | components._rest(blocks, around)

    def predict(
        self, x: Tensor, neighbours: Neighbours, *, with_labels: bool
    ) -> dict[str, NDArray[np.float64]]:
        """Predict all nodes of a graph with each model: [n, outputs] by name.

        Args:
            x: [n, d] encoded features.
            neighbours: the graph.
            with_labels: True for the graph of :meth:`fit`; False for the components
                :data:`LABEL_FREE` alone.
        """
        blocks = Blocks(as_matrix(x), neighbours, self.reduction)
        hops = blocks.hops()

        def ask(name: str, some: Sequence[Any]) -> NDArray[np.float64]:
            scaler, model = self.linear[name]
            return model.predict(scaler.join(some))

        predictions = {"columns": ask("columns", hops[:1]), "neighbours": ask("neighbours", hops)}
        if not with_labels:
            return predictions | {"constant": self._constant(x.shape[0])}
        guess = predictions["neighbours"]
        around = label_features(neighbours, self.labels, self.train, guess, self.seed)
        if "labels" in self.linear:
            predictions["labels"] = ask("labels", [*hops, *around])
        return predictions | self._rest(blocks, around)

    def _rest(self, blocks: Blocks, around: Sequence[NDArray]) -> dict[str, NDArray[np.float64]]:
        """Predict all nodes with the models that are not linear."""
        spread = propagate(blocks.neighbours.means, self.labels, self.train)
        predictions = {
            "constant": self._constant(blocks.x.shape[0]),
            "propagation": spread[:, :-1].astype(np.float64),
            "closed_form": self.closed_form.predict(blocks, self.labels, self.train),
        }
        if self.perceptron is not None:
            dense = [*blocks.dense_hops(), *around]
            predictions["perceptron"] = self.perceptron.predict(dense)
        return predictions

    def _constant(self, nodes: int) -> NDArray[np.float64]:
        return np.repeat(self.labels.mean(0, dtype=np.float64)[None], nodes, 0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the models."""
        arrays = {"axes": self.reduction.axes, "train": self.train, "labels": self.labels}
        arrays["closed_form.shares"] = self.closed_form.shares
        for place, weight in enumerate(self.closed_form.weights):
            arrays[f"closed_form.weights.{place}"] = weight
        for name, (_, model) in self.linear.items():
            arrays[f"{name}.weight"], arrays[f"{name}.bias"] = model.weight, model.bias
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        if self.perceptron is not None:
            state = self.perceptron.state_dict()
            tensors |= {f"perceptron.{name}": tensor for name, tensor in state.items()}
        return tensors, {
            "is_class": self.is_class, "seed": self.seed,
            "factors": list(self.closed_form.factors),
            "scalers": {name: list(scaler.factors) for name, (scaler, _) in self.linear.items()},
            "penalties": {name: model.penalty for name, (_, model) in self.linear.items()},
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Components:
        """Restore the models from the result of :meth:`state`.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: a tensor of the perceptron has another shape.
        """
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        is_class, penalties = state["is_class"], state["penalties"]
        linear = {
            name: (
                Scaler(tuple(factors)),
                Linear(arrays[f"{name}.weight"], arrays[f"{name}.bias"], is_class, penalties[name]),
            )
            for name, factors in state["scalers"].items()
        }
        weights = tuple(
            arrays[f"closed_form.weights.{place}"] for place in range(len(state["factors"]))
        )
        shares = arrays["closed_form.shares"]
        form = ClosedForm(weights, tuple(state["factors"]), shares, is_class)
        labels = arrays["labels"]
        network = {
            name.removeprefix("perceptron."): tensor
            for name, tensor in tensors.items()
            if name.startswith("perceptron.")
        }
        perceptron = None
        if network:
            features = network["center"].shape[0]
            perceptron = Perceptron(features, labels.shape[1], is_class=is_class)
            perceptron.load_state_dict(network)
            perceptron.eval()
        return cls(
            linear, form, perceptron, Reduction(arrays["axes"]), arrays["train"], labels,
            state["seed"], is_class=is_class,
        )  # fmt: skip
