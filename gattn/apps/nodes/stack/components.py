"""Models of a stack other than the attention network, such as linear models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.stack.blocks import Blocks, Reduction, as_matrix
from gattn.apps.nodes.stack.consistency import ConsistentNetworks, affordable_epochs
from gattn.apps.nodes.stack.linear import Linear, Scaler, fit_linear
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.nodes.stack.propagation import Neighbours, label_features, propagate
from gattn.apps.nodes.stack.trees import Trees, can_fit_trees
from gattn.apps.nodes.stack.weights import mean_loss
from gattn.apps.run.model_io import remove_prefix
from gattn.apps.runtime.threads import Background

__all__ = ["LABEL_FREE", "Components"]

LABEL_FREE = ("constant", "columns", "neighbours", "trees", "consistent")
"""Names of the models that do not read labels, and can therefore predict other graphs, too."""
MANY = 2000
"""For at least this number of training nodes, perceptrons replace the linear models `neighbours`
and `labels`, which would take longer and predict worse; `consistent` is then not fitted.
"""
FEW_ERRORS = 0.01
"""Trees are not fitted if another model predicts at most this fraction of the validation part
wrongly, because they could improve only little.
"""
HOPELESS = 1.5
"""Trees are not fitted if the loss of a few large steps of boosting is more than this multiple of
the lowest loss of the other models.
"""


class Components:
    """Models of a stack that do not depend on the seed; they are fitted once for each split.

    =================  ========================================================================
    ``constant``       share of each class, or the mean
    ``columns``        linear model on a node's features
    ``neighbours``     the same, also on means over one and two steps and on degrees; with
                       2,000 training nodes a perceptron
    ``labels``         the same, also on the labels around a node
    ``trees``          boosted trees on the features of ``neighbours`` and on means over three
                       steps; only if the features are few
    ``consistent``     :class:`gattn.apps.nodes.stack.consistency.ConsistentNetworks`; for classes,
                       with fewer than 2,000 training nodes and without times
    ``propagation``    labels spread along the edges
    =================  ========================================================================

    Attributes:
        is_class: True for classes.
        linear: linear models and the scalers of their features, by name.
        perceptrons: perceptrons by name; empty with few training nodes.
        trees: boosted trees; None if they were not fitted.
        consistent: networks that also learn from nodes without a label; None if they were not
            fitted.
        reduction: projection of wide features.
        train: [k] nodes with labels.
        labels: [k, c] one-hot classes or standardised numbers.
    """

    def __init__(
        self,
        linear: Mapping[str, tuple[Scaler, Linear]],
        perceptrons: Mapping[str, Perceptron],
        trees: Trees | None,
        consistent: ConsistentNetworks | None,
        reduction: Reduction,
        train: NDArray,
        labels: NDArray,
        seed: int,
        *,
        is_class: bool,
    ) -> None:
        self.linear, self.perceptrons = linear, perceptrons
        self.trees, self.consistent, self.reduction = trees, consistent, reduction
        self.train, self.labels = train, labels
        self._mean = labels.mean(0, dtype=np.float64)
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
        check: Callable[[], None] = lambda: None,
        parallel: bool = False,
        like: Components | None = None,
        reuse: Mapping[str, NDArray[np.float64]] = MappingProxyType({}),
        epochs: int = 1000,
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
            seed: seed of folds and of perceptrons.
            is_class: True for classes.
            check: called before each model; it may raise an exception to end the computation.
            parallel: True to fit models that are independent of each other in two Python threads.
            like: fitted models, whose types, penalties and projection are used again; None to
                choose them.
            reuse: predictions of those models of ``like`` that are used again without a new fit, by
                name.
            epochs: maximum number of epochs of the component ``consistent``.

        Returns:
            The models, and their predictions [n, outputs] for all nodes, by name.
        """
        matrix = as_matrix(x)
        reduction = Reduction.fit(matrix, seed) if like is None else like.reduction
        blocks = Blocks(matrix, neighbours, reduction)
        labels = np.eye(outputs)[y[train].astype(int)] if is_class else y[train][:, None]
        labels = labels.astype(np.float32)
        linear: dict[str, tuple[Scaler, Linear]] = {}
        perceptrons: dict[str, Perceptron] = {}
        predictions: dict[str, NDArray[np.float64]] = {}
        is_large = len(train) >= MANY if like is None else bool(like.perceptrons)
        use_trees = can_fit_trees(len(train), blocks.tree_width, outputs)
        use_trees = use_trees if like is None else like.trees is not None
        # If nodes have times, no model is trained on nodes that are newer than the training part.
        use_consistent = is_class and not is_large and not neighbours.timed
        use_consistent = use_consistent and affordable_epochs(blocks.joined, neighbours.means) > 0
        use_consistent = use_consistent if like is None else like.consistent is not None

        def fit_linear_model(name: str, some: Sequence[Any]) -> None:
            check()
            if like is not None and name in reuse:
                linear[name] = scaler, model = like.linear[name]
                predictions[name] = model.predict(scaler.join(some))
                return
            scaler = Scaler.fit(some)
            joined = scaler.join(some)
            penalty = None if like is None else like.linear[name][1].penalty
            model = fit_linear(
                joined, y, train, val, outputs, is_class=is_class, penalty=penalty
            )  # fmt: skip
            linear[name] = scaler, model
            predictions[name] = model.predict(joined)

        def fit_around() -> None:
            sparse, dense = blocks.split_hops() if is_large else (blocks.hops(), [])

            def fit_one(name: str, around: Sequence[NDArray]) -> None:
                if not is_large:
                    return fit_linear_model(name, [*sparse, *around])
                check()
                some = sparse, [*dense, *around]
                if like is not None and name in reuse:
                    model = like.perceptrons[name]
                else:
                    model = Perceptron.fit(*some, y, train, outputs, seed, is_class=is_class)
                perceptrons[name] = model
                predictions[name] = model.predict(*some)

            fit_one("neighbours", [])
            around = label_features(neighbours, labels, train, predictions["neighbours"], seed)
            fit_one("labels", around)

        def fit_trees(check: Callable[[], None]) -> Trees | None:
            if not use_trees:
                return None
            if like is not None and "trees" in reuse:
                predictions["trees"] = reuse["trees"]
                return like.trees
            check()
            if like is None and is_class:
                errors = [(p[val].argmax(1) != y[val]).mean() for p in predictions.values()]
                if min(errors) <= FEW_ERRORS:
                    return None
            features = blocks.tree_features()
            if like is None and is_class:
                pilot = Trees.fit(features, y, train, outputs, seed, is_class=True, pilot=True)
                loss = mean_loss(pilot.predict(features[val]), y[val], is_class=True)
                losses = {
                    name: mean_loss(p[val], y[val], is_class=True)
                    for name, p in predictions.items()
                }
                if loss > HOPELESS * min(losses.values()):
                    return None
            trees = Trees.fit(features, y, train, outputs, seed, is_class=is_class)
            predictions["trees"] = trees.predict(features)
            return trees

        def fit_consistent(check: Callable[[], None]) -> ConsistentNetworks | None:
            if not use_consistent:
                return None
            if like is not None and "consistent" in reuse:
                predictions["consistent"] = reuse["consistent"]
                return like.consistent
            check()
            chosen = None
            if like is not None and like.consistent is not None:
                chosen = int(like.consistent.epochs)
            graph = blocks.joined, neighbours.means
            networks = ConsistentNetworks.fit(
                *graph, y, train, val, outputs, seed, epochs=chosen, most=epochs, check=check
            )
            predictions["consistent"] = networks.predict(*graph)
            return networks

        def fit_others(
            check: Callable[[], None],
        ) -> tuple[Trees | None, ConsistentNetworks | None]:
            fit_linear_model("columns", [matrix])
            # The trees of a first fit are compared with all other models.
            trees = None if like is None else fit_trees(check)
            return trees, fit_consistent(check)

        if parallel:
            with Background(fit_others) as background:
                fit_around()
                trees, consistent = background.result()
        else:
            trees, consistent = fit_others(check)
            fit_around()
        if like is None:
            trees = fit_trees(check)
        components = cls(
            linear, perceptrons, trees, consistent, reduction, train, labels, seed,
            is_class=is_class,
        )  # fmt: skip
        predictions |= components._rest(blocks)
        return components, {name: predictions[name] for name in components.names}

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        optional = {"trees": self.trees, "consistent": self.consistent}
        some = [name for name, model in optional.items() if model is not None]
        return ["columns", "neighbours", "labels", *some, "constant", "propagation"]

    def with_train(self, places: NDArray) -> Components:
        """Return the models for a changed network. ``places`` [k] contains the positions of the
        training nodes in it; the labels of nodes at -1 are left out.
        """
        components, mask = copy(self), places >= 0
        components.train, components.labels = places[mask], self.labels[mask]
        return components

    def predict(
        self, x: Tensor, neighbours: Neighbours, *, with_labels: bool
    ) -> dict[str, NDArray[np.float64]]:
        """Predict all nodes of a graph with each model; return a dictionary of arrays [n, outputs]
        by model name.

        Args:
            x: [n, d] encoded features.
            neighbours: the graph.
            with_labels: True for the network of :meth:`fit`; False for the components
                :data:`LABEL_FREE` alone.
        """
        blocks = Blocks(as_matrix(x), neighbours, self.reduction)
        sparse, dense = blocks.split_hops() if self.perceptrons else (blocks.hops(), [])

        def ask(name: str, around: Sequence[NDArray]) -> NDArray[np.float64]:
            if name in self.perceptrons:
                return self.perceptrons[name].predict(sparse, [*dense, *around])
            scaler, model = self.linear[name]
            return model.predict(scaler.join([*sparse, *around]))

        scaler, model = self.linear["columns"]
        predictions = {
            "columns": model.predict(scaler.join([blocks.x])), "neighbours": ask("neighbours", [])
        }  # fmt: skip
        if self.trees is not None:
            predictions["trees"] = self.trees.predict(blocks.tree_features())
        if self.consistent is not None:
            predictions["consistent"] = self.consistent.predict(blocks.joined, neighbours.means)
        if not with_labels:
            return predictions | {"constant": self._constant(x.shape[0])}
        guess = predictions["neighbours"]
        around = label_features(neighbours, self.labels, self.train, guess, self.seed)
        return predictions | {"labels": ask("labels", around)} | self._rest(blocks)

    def _rest(self, blocks: Blocks) -> dict[str, NDArray[np.float64]]:
        """Predict all nodes with those models that are neither linear models nor perceptrons."""
        spread = propagate(blocks.neighbours.means, self.labels, self.train)
        return {
            "constant": self._constant(blocks.x.shape[0]),
            "propagation": spread[:, :-1].astype(np.float64),
        }

    def _constant(self, nodes: int) -> NDArray[np.float64]:
        return np.repeat(self._mean[None], nodes, 0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the models."""
        arrays = {"axes": self.reduction.axes, "train": self.train, "labels": self.labels}
        for name, (_, model) in self.linear.items():
            arrays[f"{name}.weight"], arrays[f"{name}.bias"] = model.weight, model.bias
        if self.trees is not None:
            arrays |= {f"trees.{name}": array for name, array in self.trees.arrays().items()}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        if self.consistent is not None:
            state = self.consistent.state_dict()
            tensors |= {f"consistent.{key}": tensor for key, tensor in state.items()}
        for name, model in self.perceptrons.items():
            state = model.state_dict()
            tensors |= {f"{name}.perceptron.{key}": tensor for key, tensor in state.items()}
        return tensors, {
            "is_class": self.is_class, "seed": self.seed,
            "perceptrons": list(self.perceptrons),
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
        labels = arrays["labels"]
        perceptrons = {
            name: Perceptron.from_state(
                remove_prefix(f"{name}.perceptron.", tensors), is_class=is_class
            )
            for name in state["perceptrons"]
        }
        of_trees = {
            name: tensor.numpy() for name, tensor in remove_prefix("trees.", tensors).items()
        }
        outputs = labels.shape[1] if is_class else 1
        trees = Trees.from_arrays(of_trees, outputs) if of_trees else None
        stored = remove_prefix("consistent.", tensors)
        consistent = ConsistentNetworks.from_state(stored) if stored else None
        return cls(
            linear, perceptrons, trees, consistent, Reduction(arrays["axes"]),
            arrays["train"], labels, state["seed"], is_class=is_class,
        )  # fmt: skip
