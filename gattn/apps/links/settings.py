"""Settings of the models that predict links."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from gattn.apps.fitting.settings import Threads, document
from gattn.apps.nodes.graph_settings import (
    EdgeFeatureNames,
    EdgeTypeName,
    EdgeWeightName,
    FeatureNames,
)
from gattn.apps.nodes.settings import LearningRate, NetworkSettings, WeightDecay

NAMES = (
    "Use the words in the names of the nodes as features, for example in a network of software "
    "packages."
)
"""Description of the setting ``names``."""

LinkModelName = Literal["stacked", "gat", "gatv2", "transformer"]
Negatives: TypeAlias = Annotated[
    int,
    Meta(
        ge=1,
        description="Number of negatives for each link. A negative is a random node that has no "
        "link to the source node of this link. The model ranks the target node among the "
        "negatives. Compare the metrics of two runs only if both runs use the same number.",
    ),
]


@document
@dataclass(frozen=True, kw_only=True)
class LinkSettings(NetworkSettings):
    """Settings of a :class:`gattn.apps.links.model.LinkModel`.

    Attributes:
        {settings}

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Example:
        >>> LinkSettings(model="gatv2").heads
        8
    """

    model: LinkModelName = "stacked"
    """Model to train. gat, gatv2 and transformer compute a vector for each node by attention along
    edges, and the score of a pair is the cosine of its two vectors. stacked combines gat with
    personalised PageRank, the cosine of propagated features, and a perceptron that reads heuristics
    such as common neighbours.
    """
    metric: Literal["auto", "mrr", "roc_auc"] = "auto"
    """Metric for which the weights of the components are fitted: mrr ranks the targets of each
    source, and roc_auc compares all pairs. With auto, the best links of each source are proposed
    with the weights for mrr, and the best of all links with those for roc_auc.
    """
    epochs: Annotated[int, Meta(ge=1)] = 300
    """Maximum number of training steps of the attention network. For a large network, fewer steps
    are used, but at least 30.
    """
    patience: Annotated[int, Meta(ge=1)] = 50
    """Number of epochs after which training stops if neither the loss nor the mean reciprocal rank
    of the validation part has improved by 0.5 %. Lower it to save time.
    """
    learning_rate: LearningRate = 0.01
    weight_decay: WeightDecay = 1e-4
    width: Annotated[int, Meta(ge=1)] = 128
    """Number of hidden features of each node, summed over all heads, and length of its vector; it
    must be a multiple of heads.
    """
    output_heads: Annotated[int, Meta(ge=1)] = 1
    """Number of attention heads of the last layer, whose outputs are averaged."""
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.3
    """Probability that a hidden feature or an attention weight is set to zero during training.
    Raise it if the network overfits.
    """


@dataclass(frozen=True, kw_only=True)
class LinkParameters(LinkSettings):
    """Parameters of :class:`gattn.apps.links.LinkPredictor`."""

    features: FeatureNames = field(default=None, kw_only=False)
    names: Annotated[bool, Meta(description=NAMES)] = False
    directed: Annotated[
        bool | None, Meta(extra={"default": "True if the edges have a direction"})
    ] = None
    """Treat (a, b) and (b, a) as different links. Messages are sent in both directions of every
    edge.
    """
    edge_features: EdgeFeatureNames = None
    edge_weight: EdgeWeightName = None
    edge_type: EdgeTypeName = None
    time: str | None = None
    """Name of the column of the edges or nodes that contains their times: numbers, or dates such as
    2024-01-31. The validation part is newer than the training part, and a training link is
    predicted from older edges.
    """
    validation_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.1
    """Fraction of the links that are used for validation."""
    negatives: Negatives = 500
    threads: Threads = 0
