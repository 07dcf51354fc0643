"""Models of a stack other than the attention network, such as linear models."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gattn.apps.nodes.fields import stored_values
from gattn.apps.nodes.scratch import pieces
from gattn.apps.nodes.stack.blocks import Blocks, Reduction
from gattn.apps.nodes.stack.consistency import ConsistentNetworks, affordable_epochs
from gattn.apps.nodes.stack.linear import Linear, Targets
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.nodes.stack.propagation import (
    Neighbours,
    label_features,
    propagate,
    propagate_folds,
    walks,
)
from gattn.apps.run.model_io import remove_prefix

LABEL_FREE = ("constant", "columns", "neighbours", "consistent")
"""Names of the models that do not read labels, and can therefore predict other graphs, too."""
MANY = 2000
"""For at least this number of training nodes, perceptrons replace the linear models `neighbours`
and `labels`, which would take longer and predict worse; `consistent` is then not fitted.
"""
MAX_VALUES = 2e7
"""Maximum number of values of the features for which linear models are fitted, which read all
features and their means at once, and of walks of two steps for which `walks` is fitted.
"""
MAX_SPREAD = 1e8
"""Maximum of (edges) x (classes) for which `labels` reads propagated labels, which are computed for
several folds.
"""

Model: TypeAlias = Linear | Perceptron


@dataclass(eq=False)
class Components:
    """Models of a stack that do not depend on the seed; they are fitted once for each split.

    =================  ========================================================================
    ``constant``       share of each class, or the mean
    ``columns``        linear model on a node's features
    ``neighbours``     the same, also on means over one and two steps and on degrees; with
                       2,000 training nodes or many features a perceptron
    ``labels``         the same, also on the labels around a node
    ``consistent``     :class:`gattn.apps.nodes.stack.consistency.ConsistentNetworks`; for classes,
                       with fewer than 2,000 training nodes and without times
    ``walks``          linear model on the walks of two steps to each training node; with fewer
                       than 2,000 training nodes and without times
    ``propagation``    labels spread along the edges
    =================  ========================================================================

    All predictions are computed for all nodes and read all edges: means a few columns at a time,
    and models for one range of nodes at a time. Large arrays are in temporary files.

    Attributes:
        models: the linear models and perceptrons, by name.
        consistent: networks that also learn from nodes without a label; None if they were not
            fitted.
        reduction: projection of wide features.
        train: [k] nodes with labels.
        labels: [k, c] one-hot classes or standardised numbers.
        seed: seed of the folds.
        is_class: True for classes.
        is_large: True if perceptrons replace linear models.
        has_spread: True if `labels` reads propagated labels.
        has_walks: True if `walks` is fitted.
        has_directions: True if the models read means over each direction of the edges.
    """

    models: dict[str, Model]
    consistent: ConsistentNetworks | None
    reduction: Reduction
    train: NDArray[np.int64]
    labels: NDArray[np.float32]
    seed: int
    is_class: bool
    is_large: bool
    has_spread: bool
    has_walks: bool
    has_directions: bool

    @classmethod
    def fit(
        cls,
        x: Tensor,
        neighbours: Neighbours,
        to: Targets,
        *,
        like: Components | None = None,
        reuse: Container[str] = (),
        epochs: int = 1000,
    ) -> tuple[Components, dict[str, NDArray[np.float32]]]:
        """Fit the models to the training nodes, and predict all nodes.

        Args:
            x: [n, d] encoded features.
            neighbours: the graph.
            to: the labels and the parts.
            like: fitted models, whose types, penalties and projection are used again; None to
                choose them.
            reuse: names of those models of ``like`` that are not fitted again.
            epochs: maximum number of epochs of the component ``consistent``.

        Returns:
            The models, and their predictions [n, outputs] for all nodes, by name.

        Warns:
            ConvergenceWarning: a logistic regression did not converge; see :meth:`Linear.fit`.
        """
        seed, train, outputs, is_class = to.seed, to.train, to.outputs, to.is_class
        blocks = Blocks(x, neighbours, None if like is None else like.reduction, seed)
        labels = np.eye(outputs)[to.y[train].astype(int)] if is_class else to.y[train][:, None]
        is_large = len(train) >= MANY or stored_values(x) > MAX_VALUES
        is_large = is_large if like is None else like.is_large
        size = neighbours.means.nnz * outputs
        is_used = not is_large and not neighbours.timed
        pairs = float(np.square(neighbours.means.getnnz(1), dtype=np.float64).sum())
        new = cls(
            {}, None, blocks.reduction, train, labels.astype(np.float32), seed, is_class, is_large,
            has_spread=size <= MAX_SPREAD if like is None else like.has_spread,
            has_walks=is_used and pairs <= MAX_VALUES if like is None else like.has_walks,
            has_directions=bool(neighbours.along),
        )  # fmt: skip
        if like is None:
            # If nodes have times, no model is trained on nodes that are newer than the training
            # part.
            trained = is_used and is_class
            affordable = affordable_epochs(blocks.joined, neighbours.means) if trained else 0
            epochs = min(epochs, affordable)
        elif like.consistent is not None and "consistent" in reuse:
            new.consistent = like.consistent
        else:
            epochs = 0 if like.consistent is None else int(like.consistent.epochs)
        if new.consistent is None and epochs:
            chosen = None if like is None else epochs
            new.consistent = ConsistentNetworks.fit(
                blocks.joined, neighbours.means, to, epochs=chosen, most=epochs
            )

        def fit_one(name: str, inputs: Sequence[Any]) -> None:
            """Fit one component and store it; a component whose name is in ``reuse``, other than
            ``walks``, is taken from ``like``.
            """
            old = None if like is None else like.models[name]
            # The inputs of `walks` depend on the training nodes.
            if old is not None and name in reuse and name != "walks":
                new.models[name] = old
            elif is_large and name != "columns":
                new.models[name] = Perceptron.fit(inputs, to)
            else:
                assert not isinstance(old, Perceptron)
                new.models[name] = Linear.fit(inputs, to, old)

        return new, new._predict(blocks, fit_one, with_labels=True)

    def with_train(self, places: NDArray) -> Components:
        """Return a copy of the models for a changed network. ``places`` [k] contains the positions
        of the training nodes in it; the labels of nodes at -1, and the weights of ``walks`` for
        them, are left out.
        """
        mask, models = places >= 0, dict(self.models)
        if isinstance(model := models.get("walks"), Linear):
            models["walks"] = replace(model, weight=model.weight[mask])
        return replace(self, models=models, train=places[mask], labels=self.labels[mask])

    def predict(
        self, x: Tensor, neighbours: Neighbours, *, with_labels: bool
    ) -> dict[str, NDArray[np.float32]]:
        """Predict all nodes of a graph with each model; return a dictionary of arrays [n, outputs]
        by model name.

        Args:
            x: [n, d] encoded features.
            neighbours: the graph.
            with_labels: True for the network of :meth:`fit`; False for the components
                :data:`LABEL_FREE` alone.
        """
        blocks = Blocks(x, neighbours.with_directions(self.has_directions), self.reduction)
        return self._predict(blocks, lambda name, inputs: None, with_labels=with_labels)

    def _predict(
        self,
        blocks: Blocks,
        fit: Callable[[str, Sequence[Any]], None],
        *,
        with_labels: bool,
    ) -> dict[str, NDArray[np.float32]]:
        """Return the predictions [n, outputs] of the models, by name. ``fit`` is called with the
        name and the inputs of each linear model and perceptron before it predicts. Without
        ``with_labels``, only the components :data:`LABEL_FREE` predict.
        """
        neighbours, scratch = blocks.neighbours, blocks.scratch
        n, outputs = blocks.x.shape[0], self.labels.shape[1]

        def ask(name: str, inputs: Sequence[Any]) -> NDArray[np.float32]:
            """Fit a component, then return its predictions of all nodes, [n, outputs] float32."""
            fit(name, inputs)
            out = scratch.array(n, outputs)
            for rows in pieces(n):
                out[rows] = self.models[name].predict([block[rows] for block in inputs])
            return out

        hops = blocks.split_hops() if self.is_large else blocks.hops()
        mean = self.labels.mean(0, dtype=np.float64).astype(np.float32)
        constant = np.broadcast_to(mean, (n, outputs))
        predictions = {"columns": ask("columns", [blocks.x]), "neighbours": ask("neighbours", hops)}
        if self.consistent is not None:
            predictions["consistent"] = self.consistent.predict(blocks.joined, neighbours.means)
        if not with_labels:
            return predictions | {"constant": constant}
        some = neighbours.means, self.labels, self.train
        spread = propagate(*some)
        guess = predictions["neighbours"]
        around = label_features(neighbours, self.labels, self.train, guess, scratch)
        if self.has_spread:
            around.append(propagate_folds(*some, self.seed, spread))
        predictions["labels"] = ask("labels", [*hops, *around])
        if self.has_walks:
            predictions["walks"] = ask("walks", [walks(neighbours.means, self.train)])
        return predictions | {"constant": constant, "propagation": spread[:, :-1]}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`from_state` restores the models."""
        arrays = {"axes": self.reduction.axes, "train": self.train, "labels": self.labels}
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items()}
        consistent = {} if self.consistent is None else {"consistent": self.consistent}
        for name, model in (self.models | consistent).items():
            tensors |= {f"{name}.{key}": tensor for key, tensor in model.state_dict().items()}
        return tensors, {
            "is_class": self.is_class, "seed": self.seed, "is_large": self.is_large,
            "has_spread": self.has_spread, "has_walks": self.has_walks,
            "has_directions": self.has_directions,
        }  # fmt: skip

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Components:
        """Restore the models from the result of :meth:`state`.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: a tensor of the perceptron has another shape.
        """
        axes, train, labels = (tensors[name].numpy() for name in ("axes", "train", "labels"))
        around = Perceptron if state["is_large"] else Linear
        kinds = {"columns": Linear, "neighbours": around, "labels": around}
        kinds |= {"walks": Linear} if state["has_walks"] else {}
        models = {
            name: kind.from_state(remove_prefix(f"{name}.", tensors), is_class=state["is_class"])
            for name, kind in kinds.items()
        }
        stored = remove_prefix("consistent.", tensors)
        consistent = ConsistentNetworks.from_state(stored) if stored else None
        return cls(models, consistent, Reduction(axes), train, labels, **state)
