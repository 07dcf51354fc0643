"""Linear model, perceptrons and propagation of a sampled stack: all parts except the network."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from gattn.apps.nodes.size.blocks import SampledBlocks
from gattn.apps.nodes.size.means import propagate
from gattn.apps.nodes.size.scratch import Scratch, pieces
from gattn.apps.nodes.stack.blocks import as_matrix
from gattn.apps.nodes.stack.linear import Linear, Scaler, fit_linear
from gattn.apps.nodes.stack.perceptron import Perceptron
from gattn.apps.run.model_io import remove_prefix

__all__ = ["LINEAR_ROWS", "PERCEPTRON_ROWS", "VALIDATION_ROWS", "SampledComponents"]

LINEAR_ROWS, PERCEPTRON_ROWS, VALIDATION_ROWS = 30_000, 400_000, 50_000
"""Maximum numbers of training nodes of the linear model and of a perceptron, and of validation
nodes by which penalties and weights are chosen.
"""
TYPED_LABELS = 256
"""Maximum number of features that are means of labels over the neighbours of one edge type."""


class SampledComponents:
    """Components of a sampled stack other than the network; see
    :class:`gattn.apps.nodes.size.predictor.SampledPredictor` for their names.

    Args:
        outputs: number of classes; 1 for numbers.
        seed: seed of the perceptrons.
        is_class: True for classes, False for numbers.

    Attributes:
        labels: [k] float64, labels of the training nodes, standardised for numbers.
        linear: the linear model and the scaler of its features; None in a model without a stack.
        perceptrons: the perceptrons by name.
    """

    def __init__(self, outputs: int, seed: int, *, is_class: bool) -> None:
        self.outputs, self.seed, self.is_class = outputs, seed, is_class
        self.labels = np.zeros(0)
        self.linear: tuple[Scaler, Linear] | None = None
        self.perceptrons: dict[str, Perceptron] = {}

    def fit_linear(
        self, x: Tensor, blocks: SampledBlocks, targets: NDArray, rows: NDArray, val_rows: NDArray
    ) -> None:
        """Fit the linear model.

        Args:
            x: [n, d] encoded features of all nodes.
            blocks: features of the models.
            targets: [n] labels, standardised for numbers.
            rows: training nodes.
            val_rows: validation nodes, by which the penalty is chosen.
        """
        some = np.concatenate([rows, val_rows])
        block = blocks.features[some] if blocks.sparse is None else as_matrix(x)[some]
        scaler = Scaler.fit([block])
        places = np.arange(len(some))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            linear = fit_linear(
                scaler.join([block]), targets[some], places[: len(rows)], places[len(rows) :],
                self.outputs, is_class=self.is_class,
            )  # fmt: skip
        self.linear = scaler, linear

    def fit_perceptron(
        self, name: str, blocks: SampledBlocks, more: list[NDArray], targets: NDArray, rows: NDArray
    ) -> None:
        """Fit a perceptron.

        Args:
            name: name of the component.
            blocks: features of the models.
            more: further features [n, d] of all nodes.
            targets: [n] labels, standardised for numbers.
            rows: training nodes.
        """
        dense = [block[rows] for block in (blocks.joined, *more)]
        sparse = [] if blocks.sparse is None else [blocks.sparse[rows]]
        self.perceptrons[name] = Perceptron.fit(
            sparse, dense, targets[rows], np.arange(len(rows)), self.outputs, self.seed,
            is_class=self.is_class,
        )  # fmt: skip

    def with_train(self, places: NDArray[np.int64]) -> SampledComponents:
        """Return the models for a changed network; the labels of training nodes whose place is -1
        are left out.
        """
        components = copy(self)
        components.labels = self.labels[places >= 0]
        return components

    def one_hot(self) -> NDArray[np.float32]:
        """Return the labels of the training nodes: one-hot classes or standardised numbers."""
        if self.is_class:
            return np.eye(self.outputs, dtype=np.float32)[self.labels.astype(int)]
        return self.labels[:, None].astype(np.float32)

    def without_labels(self, blocks: SampledBlocks, scratch: Scratch) -> dict[str, NDArray]:
        """Predict all nodes with the constant, the linear model and the first perceptron."""
        assert self.linear is not None
        scaler, linear = self.linear
        n = len(blocks.joined)
        columns = scratch.array(n, self.outputs)
        for rows in pieces(n):
            block = blocks.features[rows] if blocks.sparse is None else blocks.sparse[rows]
            columns[rows] = linear.predict(scaler.join([block]))
        constant = scratch.array(n, self.outputs)
        constant[:] = self.one_hot().mean(0, dtype=np.float64)
        return {
            "constant": constant,
            "columns": columns,
            "neighbours": self._predict("neighbours", blocks, [], scratch),
        }

    def around(
        self, blocks: SampledBlocks, guess: NDArray[np.float32], train: NDArray, scratch: Scratch
    ) -> NDArray[np.float32]:
        r"""Compute features of each node from the labels of other nodes, [n, d].

        .. math:: A \tilde Y, \qquad A A \tilde Y - \mathrm{diag}(A A) \tilde Y

        Nodes without a label get a predicted label. In a directed graph, and in a graph with times,
        only means over one step are computed. Means over two steps would contain the label of the
        node itself, whose share is not subtracted in these graphs. If edges have types, there are
        also means over the neighbours of each type.
        """
        means, c = blocks.means, self.outputs
        complete = scratch.array(*guess.shape)
        complete[:] = guess
        complete[train] = self.one_hot()
        is_two_way, start = blocks.two_way, 2 * c if blocks.two_way else c
        typed = min(blocks.typed_count, TYPED_LABELS // c)
        out = scratch.array(len(guess), start + typed * c)
        means(complete, out[:, :c])
        if is_two_way:
            means(out[:, :c], out[:, c:start])
            back = means.round_trips()
            for rows in pieces(len(guess)):
                out[rows, c:start] -= back[rows] * complete[rows]
        for place, of_type in enumerate(blocks.typed_means(typed)):
            of_type(complete, out[:, start + place * c :][:, :c])
        return out

    def with_labels(
        self, blocks: SampledBlocks, around: NDArray, train: NDArray, scratch: Scratch
    ) -> dict[str, NDArray[np.float32]]:
        """Predict all nodes with the second perceptron and by propagation.

        Args:
            blocks: features of the models.
            around: the result of :meth:`around`.
            train: the training nodes.
            scratch: temporary files of the results.
        """
        spread = scratch.array(len(around), self.outputs)
        return {
            "labels": self._predict("labels", blocks, [around], scratch),
            "propagation": propagate(blocks.means, self.one_hot(), train, spread),
        }

    def _predict(
        self, name: str, blocks: SampledBlocks, more: list[NDArray], scratch: Scratch
    ) -> NDArray[np.float32]:
        out = scratch.array(len(blocks.joined), self.outputs)
        for rows in pieces(len(out)):
            sparse = [] if blocks.sparse is None else [blocks.sparse[rows]]
            dense = [block[rows] for block in (blocks.joined, *more)]
            out[rows] = self.perceptrons[name].predict(sparse, dense)
        return out

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and JSON values from which :meth:`load_state` restores the models."""
        tensors = {"labels": torch.from_numpy(self.labels)}
        for name, model in self.perceptrons.items():
            states = model.state_dict().items()
            tensors |= {f"perceptron.{name}.{key}": tensor for key, tensor in states}
        linear = None
        if self.linear is not None:
            scaler, model = self.linear
            tensors["linear.weight"] = torch.from_numpy(np.ascontiguousarray(model.weight))
            tensors["linear.bias"] = torch.from_numpy(np.ascontiguousarray(model.bias))
            linear = {"factors": list(scaler.factors), "penalty": model.penalty}
        return tensors, {"linear": linear, "perceptrons": list(self.perceptrons)}

    def load_state(self, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> None:
        """Restore the models from the result of :meth:`state`."""
        self.labels = tensors["labels"].numpy()
        if (linear := state["linear"]) is not None:
            weight, bias = (tensors[f"linear.{name}"].numpy() for name in ("weight", "bias"))
            model = Linear(weight, bias, self.is_class, linear["penalty"])
            self.linear = Scaler(tuple(linear["factors"])), model
        self.perceptrons = {
            name: Perceptron.from_state(
                remove_prefix(f"perceptron.{name}.", tensors), is_class=self.is_class
            )
            for name in state["perceptrons"]
        }
