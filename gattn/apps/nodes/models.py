"""Creation of the model that the settings select: a single network, or a stack of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from torch import Tensor

from gattn.apps.fitting.types import EpochRecord
from gattn.apps.nodes.attributed import AttributedGraph
from gattn.apps.nodes.features import FeatureEncoder
from gattn.apps.nodes.predictor import NodePredictor, NodeProblem
from gattn.apps.nodes.settings import TYPED_MODELS, NodeSettings, NodeTask
from gattn.apps.nodes.stack.predictor import StackedPredictor, network_from_state, network_kind

AnyPredictor: TypeAlias = NodePredictor | StackedPredictor


def fit_predictor(
    problem: NodeProblem,
    encoder: FeatureEncoder,
    task: NodeTask,
    settings: NodeSettings,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    threads: int = 0,
) -> AnyPredictor:
    """Train the model that the settings select; see :meth:`NodePredictor.fit`.

    Raises:
        ValueError: the model does not read such a graph.
    """
    model, graph = settings.model, problem.graph
    if graph.network is not None and model not in TYPED_MODELS:
        raise ValueError(
            f"a network with several tables of nodes needs the model {' or '.join(TYPED_MODELS)}; "
            f"got {model}"
        )
    if graph.network is None and model == "hgt":
        raise ValueError(
            "the model hgt needs several tables of nodes (--nodes TYPE=FILE and --edges); for one "
            "table, use gat"
        )
    arguments = problem, encoder, task, settings, on_epoch, threads
    if model == "stacked":
        return StackedPredictor.fit(*arguments)
    predictor = network_kind(graph).fit(*arguments)
    predictor.validation = predictor.predict(graph)[problem.val]
    return predictor


def predictor_from_state(tensors: dict[str, Tensor], state: Mapping[str, Any]) -> AnyPredictor:
    """Restore a model from the result of its method :meth:`NodePredictor.state`.

    Raises:
        KeyError: an entry of the state is missing.
        ValueError: a tensor is missing or has another shape.
    """
    if "components" in state:
        return StackedPredictor.from_state(tensors, state)
    return network_from_state(tensors, state)


def training_notes(predictor: AnyPredictor, graph: AttributedGraph) -> list[str]:
    """Return a sentence if a graph lacks nodes of the training, whose labels are then not used."""
    if not isinstance(predictor, StackedPredictor):
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


def attention_network(predictor: AnyPredictor) -> NodePredictor:
    """Return the attention network of a model."""
    return predictor.network if isinstance(predictor, StackedPredictor) else predictor
