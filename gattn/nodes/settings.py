"""Settings of a model of nodes, and the presets of the GAT paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from gattn.training.settings import Seed, Settings, SettingsError, Threads, document

__all__ = ["PRESETS", "NodeModel", "NodeParameters", "NodeSettings", "NodeTask", "Preset"]

NodeTask = Literal["regression", "classification"]
NodeModel = Literal["stacked", "gat", "gatv2", "transformer", "gps"]
Preset = Literal["cora", "citeseer", "pubmed"]


@document
@dataclass(frozen=True, kw_only=True)
class NodeSettings(Settings):
    """The settings of :class:`gattn.nodes.predictor.NodePredictor`: by default the GAT paper's.

    Attributes:
        {settings}

    Raises:
        ValueError: a value out of its range; the message names the setting.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018), section 3.3.

    Example:
        >>> NodeSettings(model="gatv2").heads
        8
        >>> NodeSettings(epochs=0)
        Traceback (most recent call last):
            ...
        gattn.training.settings.SettingsError: epochs must be a whole number, at least 1; got 0
    """

    panel: ClassVar[str] = "The network and its training"

    model: Annotated[
        NodeModel,
        Meta(
            description="Model to train. stacked: a combination of gat with linear models, "
            "perceptrons and propagated labels; gat, gatv2 and transformer: networks that attend "
            "along edges; gps: a network that also attends among all nodes, in time that grows "
            "with the square of their number."
        ),
    ] = "stacked"
    epochs: Annotated[
        int,
        Meta(ge=1, description="Training steps, at most; each step uses all labelled nodes."),
    ] = 1000
    patience: Annotated[
        int,
        Meta(
            ge=1,
            description="Stop after this many epochs without a better loss or accuracy of the "
            "validation part. Lower it to save time.",
        ),
    ] = 100
    learning_rate: Annotated[
        float,
        Meta(gt=0, description="Learning rate of Adam. Lower it if the training loss jumps."),
    ] = 0.005
    weight_decay: Annotated[
        float,
        Meta(
            ge=0,
            description="Factor λ of the penalty λ/2 |w|² in the loss. Raise it if the network "
            "overfits.",
        ),
    ] = 5e-4
    width: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of hidden features of a node, of all heads together; heads must "
            "divide it.",
        ),
    ] = 64
    layers: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of attention layers; each extends the neighbourhood of a node by "
            "one edge.",
        ),
    ] = 2
    heads: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of attention heads of every layer but the last; it must divide "
            "width.",
        ),
    ] = 8
    output_heads: Annotated[
        int,
        Meta(
            ge=1,
            description="Number of heads of the last layer, which averages them; gps has none.",
        ),
    ] = 1
    dropout: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Probability of dropping a hidden feature or an attention weight in "
            "training; gat drops projected features, too. Lower it for large training parts.",
        ),
    ] = 0.6
    seed: Seed = 0

    def check(self) -> None:
        """Check that the heads divide the width."""
        super().check()
        if self.width % self.heads:
            raise SettingsError(f"heads ({self.heads}) must divide width ({self.width})")


@dataclass(frozen=True, kw_only=True)
class NodeParameters(NodeSettings):
    """Parameters of :class:`gattn.nodes.NodeClassifier` and ``NodeRegressor``."""

    label: Annotated[
        str | None,
        Meta(
            description="Attribute to predict.",
            extra={"default": "``y`` of ``fit``, or an attribute ``y`` or ``label``"},
        ),
    ] = field(default=None, kw_only=False)
    features: Annotated[
        Sequence[str] | None,
        Meta(
            description="Attributes to read as features. Numbers are standardised, categories "
            "one-hot encoded, texts become TF-IDF vectors; without attributes, degrees and "
            "random-walk probabilities are computed.",
            extra={"default": "all others, or the ``x`` of PyG's ``Data``"},
        ),
    ] = field(default=None, kw_only=False)
    names: Annotated[
        bool,
        Meta(
            description="Read the words of the nodes' names as a feature, as those of packages. "
            "Leave it off if the names contain the label."
        ),
    ] = False
    directed: Annotated[
        bool | None,
        Meta(
            description="Send messages along the direction of edges only.",
            extra={"default": "both ways, but for ``Data`` as its edges are"},
        ),
    ] = None
    validation_fraction: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of the labelled nodes (of every class) held out for validation if "
            "no mask marks a validation part.",
        ),
    ] = 0.2
    threads: Threads = 0


PRESETS: dict[str, NodeSettings] = {
    "cora": NodeSettings(),
    "citeseer": NodeSettings(),
    "pubmed": NodeSettings(output_heads=8, learning_rate=0.01, weight_decay=1e-3),
}
"""The GAT paper's settings by data set."""
