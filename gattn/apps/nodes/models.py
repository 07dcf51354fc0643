"""Creation of the model that the settings select: a single network, or a stack of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor

from gattn.apps.fitting.types import EpochRecord
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.settings import TYPED_MODELS, NodeSettings, NodeTask
from gattn.apps.nodes.size.network import ONE
from gattn.apps.nodes.size.predictor import SampledPredictor
from gattn.apps.nodes.stack.predictor import StackedPredictor
from gattn.apps.nodes.typed.predictor import TypedPredictor, network_kind
from gattn.distributed import Processes

__all__ = [
    "COMBINED",
    "AnyPredictor",
    "fit_predictors",
    "predictor_from_state",
    "training_notes",
    "typed_network",
]

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
    processes: Processes = ONE,
) -> Sequence[AnyPredictor]:
    """Train several models whose settings differ only in the seed; see
    :meth:`NodePredictor.fit`.

    For a compact graph, the models are trained on sampled neighbourhoods, in one or several
    processes.
    """
    model = settings[0].model
    if problem.graph.network is not None and model not in TYPED_MODELS:
        raise ValueError(
            f"a network with several tables of nodes needs the model {' or '.join(TYPED_MODELS)}; "
            f"got {model}"
        )
    if problem.graph.network is None and model == "hgt":
        raise ValueError(
            "the model hgt needs several tables of nodes (--nodes TYPE=FILE and --edges); for one "
            "table, use gat"
        )
    if problem.graph.compact:
        return SampledPredictor.fit(problem, encoder, task, settings, on_epoch, threads, processes)
    kind = StackedPredictor if model == "stacked" else network_kind(encoder)
    return kind.fit(problem, encoder, task, settings, on_epoch, threads)


def predictor_from_state(tensors: dict[str, Tensor], state: Mapping[str, Any]) -> AnyPredictor:
    """Restore a model from the result of its method :meth:`NodePredictor.state`.

    Raises:
        KeyError: an entry of the state is missing.
        ValueError: a tensor is missing or has another shape.
    """
    if state.get("sampled"):
        return SampledPredictor.from_state(tensors, state)
    models = {"stacked": StackedPredictor, "hgt": TypedPredictor}
    kind = models.get(state["settings"]["model"], NodePredictor)
    return kind.from_state(tensors, state)


def training_notes(predictor: AnyPredictor, graph: AttributedGraph) -> list[str]:
    """Return a sentence if a graph lacks nodes of the training, whose labels are then not used."""
    if not isinstance(predictor, COMBINED) or set(predictor.weights) == set(
        predictor.other_weights
    ):
        return []
    places = predictor.training_places(graph)
    if places is None:
        return [
            "The network is not that of the training (compared by the names of nodes and by the "
            "edges): the parts of the model that read labels are not used, and the "
            "coverage of sets and intervals is not guaranteed."
        ]
    missing = int((places < 0).sum())
    if not missing:
        return []
    return [
        f"{missing:,} of {len(places):,} training nodes are not in the network: their labels are "
        "not used."
    ]


def typed_network(predictor: AnyPredictor) -> TypedPredictor:
    """Return the attention network of a model of several types of nodes.

    Raises:
        TypeError: the model was trained on one table of nodes.
    """
    network = predictor.network if isinstance(predictor, StackedPredictor) else predictor
    if not isinstance(network, TypedPredictor):
        raise TypeError(f"expected a model of several types of nodes; got {type(network).__name__}")
    return network
