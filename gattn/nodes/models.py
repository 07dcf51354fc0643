"""Creation of the model that the settings select: a single network, or a stack of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from gattn.nodes.features import FeatureEncoder
from gattn.nodes.predictor import NodePredictor, NodeProblem
from gattn.nodes.settings import NodeSettings, NodeTask
from gattn.nodes.size.predictor import SampledPredictor
from gattn.nodes.stack.predictor import StackedPredictor
from gattn.training.types import EpochRecord

__all__ = ["COMBINED", "AnyPredictor", "fit_predictors", "predictor_from_state"]

AnyPredictor: TypeAlias = NodePredictor | StackedPredictor | SampledPredictor
COMBINED = (StackedPredictor, SampledPredictor)
"""Types of models that combine several components."""


def fit_predictors(
    problem: NodeProblem,
    encoder: FeatureEncoder,
    task: NodeTask,
    settings: Sequence[NodeSettings],
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    threads: int = 0,
) -> Sequence[AnyPredictor]:
    """Train several models whose settings differ only in the seed; see
    :meth:`NodePredictor.fit`.

    For a compact graph, the models are trained on sampled neighbourhoods.
    """
    if problem.graph.compact:
        return SampledPredictor.fit(problem, encoder, task, settings, on_epoch, threads)
    kind = StackedPredictor if settings[0].model == "stacked" else NodePredictor
    return kind.fit(problem, encoder, task, settings, on_epoch, threads)


def predictor_from_state(tensors: dict[str, Tensor], state: Mapping[str, Any]) -> AnyPredictor:
    """Restore a model from the result of its method :meth:`NodePredictor.state`.

    Raises:
        KeyError: an entry of the state is missing.
        ValueError: a tensor is missing or has another shape.
    """
    if state.get("sampled"):
        return SampledPredictor.from_state(tensors, state)
    kind = StackedPredictor if state["settings"]["model"] == "stacked" else NodePredictor
    return kind.from_state(tensors, state)
