"""Baselines of a training on samples. Two of them are components of the stack."""

from __future__ import annotations

import torch
from torch import Tensor

from gattn.apps.nodes.features import EncodedGraph
from gattn.apps.nodes.size.predictor import SampledPredictor

__all__ = ["sampled_baselines"]


def sampled_baselines(
    predictor: SampledPredictor, encoded: EncodedGraph, y: Tensor, train: Tensor
) -> dict[str, Tensor]:
    """Return predictions of baselines for every node, [n, outputs], by name.

    The baselines have the same names as in :func:`gattn.apps.nodes.baselines.baseline_predictions`.
    The linear model of the features is the component ``columns``, and label propagation is the
    component ``propagation``, so only a stack has these two baselines.

    Args:
        predictor: a fitted model.
        encoded: its graph.
        y: [n] labels.
        train: [k] training nodes.
    """
    parts = predictor.component_predictions(encoded.graph)
    if predictor.task == "classification":
        counts = torch.bincount(y[train].long(), minlength=predictor.outputs).double()
        constant, first, last = counts / counts.sum(), "logistic_regression", "majority"
    else:
        constant, first, last = y[train].mean()[None], "ridge", "mean"
    names = {first: "columns", "label_propagation": "propagation"}
    baselines = {name: parts[part] for name, part in names.items() if part in parts}
    return {**baselines, last: constant[None].expand(len(y), -1)}
