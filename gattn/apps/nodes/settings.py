"""Settings of the models of nodes, and the presets of the GAT paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from gattn.apps.fitting.settings import Seed, Settings, SettingsError, Threads, document
from gattn.apps.nodes.graph_settings import (
    EdgeFeatureNames,
    EdgeTypeName,
    EdgeWeightName,
    FeatureNames,
)

NodeModel = Literal["stacked", "gat", "gatv2", "transformer"]
LearningRate: TypeAlias = Annotated[
    float,
    Meta(
        gt=0,
        description="Learning rate of the Adam optimizer. Lower it if the training loss jumps.",
    ),
]
WeightDecay: TypeAlias = Annotated[
    float,
    Meta(
        ge=0,
        description="Strength λ of the L2 penalty λ/2 |w|² on the weights w, which is added "
        "to the loss. Raise it if the network overfits.",
    ),
]


@document
@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Settings):
    """Settings of an attention network and its training, with the GAT paper's defaults.

    Attributes:
        {settings}

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> NetworkSettings(model="gatv2").heads
        8
    """

    panel: ClassVar[str] = "The network and its training"

    model: NodeModel = "stacked"
    """Model to train. gat, gatv2 and transformer are graph neural networks that attend along edges.
    stacked combines gat with linear models, label propagation and perceptrons.
    """
    epochs: Annotated[int, Meta(ge=1)] = 1000
    """Maximum number of training steps. Each step uses all labelled nodes of the training part."""
    patience: Annotated[int, Meta(ge=1)] = 60
    """Number of epochs after which training stops if neither the loss nor the accuracy of the
    validation part has improved by 0.5 %. Lower it to save time.
    """
    learning_rate: LearningRate = 0.005
    weight_decay: WeightDecay = 5e-4
    width: Annotated[int, Meta(ge=1)] = 64
    """Number of hidden features of each node, summed over all heads; it must be a multiple of
    heads.
    """
    layers: Annotated[int, Meta(ge=1)] = 2
    """Number of attention layers. With each layer, a node receives information from nodes one edge
    farther away.
    """
    heads: Annotated[int, Meta(ge=1)] = 8
    """Number of attention heads of each layer except the last; width must be a multiple of it."""
    output_heads: Annotated[int, Meta(ge=1)] = 1
    """Number of attention heads of the last layer, whose outputs are averaged."""
    dropout: Annotated[float, Meta(ge=0, lt=1)] = 0.6
    """Probability that a hidden feature or an attention weight is set to zero during training. The
    model gat also applies this dropout to projected features. Lower it if the training part is
    large.
    """
    seed: Seed = 0

    def check(self) -> None:
        """Raise SettingsError unless ``heads`` divides ``width``."""
        super().check()
        if self.width % self.heads:
            raise SettingsError(f"heads ({self.heads}) must divide width ({self.width})")


@document
@dataclass(frozen=True, kw_only=True)
class NodeSettings(NetworkSettings):
    """Settings of a model of nodes: a network, or a stack of models.

    Attributes:
        {settings}

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Example:
        >>> NodeSettings(model="gatv2").heads
        8
        >>> NodeSettings(epochs=0)
        Traceback (most recent call last):
            ...
        gattn.apps.fitting.settings.SettingsError: epochs must be a whole number, at least 1; got 0
    """

    refit: Annotated[bool, Meta(extra={"flag": "--refit/--no-refit"})] = True
    """After the weights are chosen, fit all models of stacked except the network again, to the
    training and the validation part. It has no effect if the data define the validation part.
    Switch it off to compare with models that read only the training part.
    """


@dataclass(frozen=True, kw_only=True)
class NodeParameters(NodeSettings):
    """Parameters of :class:`gattn.apps.nodes.NodeClassifier` and ``NodeRegressor``."""

    label: Annotated[
        str | None, Meta(extra={"default": "``y`` of ``fit``, or an attribute ``y`` or ``label``"})
    ] = field(default=None, kw_only=False)
    """Name of the node attribute to predict."""
    features: FeatureNames = field(default=None, kw_only=False)
    label_type: Annotated[
        str | None, Meta(extra={"default": "the type with the attribute of labels"})
    ] = None
    """Type of the nodes to predict, for a network with several tables of nodes."""
    names: bool = False
    """Use the words in the names of the nodes as features, for example in a network of software
    packages. Leave it off if the names contain the label.
    """
    directed: Annotated[
        bool | None,
        Meta(
            extra={
                "default": "messages in both directions; for ``Data``, only in the direction "
                "of its edges"
            }
        ),
    ] = None
    """Send messages only in the direction of the edges."""
    edge_features: EdgeFeatureNames = None
    edge_weight: EdgeWeightName = None
    edge_type: EdgeTypeName = None
    time: str | None = None
    """Column of the nodes or the edges with times: numbers, or dates such as 2024-01-31. The
    validation part is newer than the training part. A node depends on nothing newer than its own
    time or, if only the edges have times, than its part.
    """
    validation_fraction: Annotated[float, Meta(gt=0, lt=1)] = 0.2
    """Share of the labelled nodes of each class used for validation if no mask marks a validation
    part.
    """
    threads: Threads = 0


PRESETS: dict[str, NodeSettings] = {
    "cora": NodeSettings(),
    "citeseer": NodeSettings(),
    "pubmed": NodeSettings(output_heads=8, learning_rate=0.01, weight_decay=1e-3),
}
"""Settings of the GAT paper for each of its data sets."""
