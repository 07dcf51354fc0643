"""What a model of nodes is made of and trained by, and the settings of the GAT paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gattn.training.checks import check_choice, check_count, check_network, check_seed

__all__ = ["PRESETS", "NodeModel", "NodeSettings", "NodeTask"]

NodeTask = Literal["regression", "classification"]
NodeModel = Literal["gat", "gatv2", "transformer", "gps"]


@dataclass(frozen=True)
class NodeSettings:
    """The settings of :class:`gattn.nodes.predictor.NodePredictor`: by default the GAT paper's.

    Attributes:
        model: ``"gat"``, ``"gatv2"`` or ``"transformer"`` attend along edges; ``"gps"`` among all
            nodes, too, which takes time by the square of their number.
        epochs: at most so many steps, each on all labelled nodes of the training part.
        patience: stop after so many epochs in which neither the loss nor the accuracy of the
            validation part was as good as ever.
        learning_rate: of Adam.
        weight_decay: λ of the penalty λ/2 |w|² in the loss.
        width: features inside, of all heads together.
        layers: how many.
        heads: of every layer but the last.
        output_heads: of the last layer, which averages them; not of ``"gps"``.
        dropout: probability of dropping a feature or a weight of an edge in training; of ``"gat"``
            a projected feature, too.
        seed: of the first weights and of dropout.

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
        ValueError: epochs must be a whole number, at least 1; got 0
    """

    model: NodeModel = "gat"
    epochs: int = 1000
    patience: int = 100
    learning_rate: float = 0.005
    weight_decay: float = 5e-4
    width: int = 64
    layers: int = 2
    heads: int = 8
    output_heads: int = 1
    dropout: float = 0.6
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("model", self.model, get_args(NodeModel))
        for name in ("epochs", "patience", "width", "layers", "heads", "output_heads"):
            check_count(name, getattr(self, name), 1)
        check_seed(self.seed)
        check_network(self)


PRESETS = {
    "cora": NodeSettings(),
    "citeseer": NodeSettings(),
    "pubmed": NodeSettings(output_heads=8, learning_rate=0.01, weight_decay=1e-3),
}
"""The GAT paper's settings by data set."""
