"""Neural networks for nodes, with attention along the edges and one output per class or number."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gattn.apps.nodes.fields import FieldInput
from gattn.apps.nodes.settings import NetworkSettings
from gattn.nn import GATConv, GATv2Conv, SparseDropout, TransformerConv, record_attention
from gattn.ops.dropout import dropout


class NodeGATConv(GATConv):
    """GATConv layer with additional dropout of the projected features.

    The GAT paper describes dropout of the input features and of the attention weights. Its authors'
    code also drops entries of the projected features after the scores are computed. The
    destinations of the edges must be the first of the sources.
    """

    def _project(self, x_src: Tensor, x_dst: Tensor) -> Any:
        # Source and destination features are computed by one matrix product.
        nodes: Any = super()._project(x_src, x_src)
        return nodes._replace(query=nodes.query[: len(x_dst)], value_dst=nodes.value[: len(x_dst)])

    def attend(self, nodes: Any, *args: Any, **options: Any) -> Any:
        """Compute the attention of the layer; in training, apply dropout to the values first."""
        if self.training:
            nodes = nodes._replace(value=dropout(nodes.value, self.dropout))
        return super().attend(nodes, *args, **options)


CONVOLUTIONS = {
    "stacked": NodeGATConv,
    "gat": NodeGATConv,
    "gatv2": GATv2Conv,
    "transformer": TransformerConv,
}


class AttentionNetwork(nn.Module):
    r"""Network of attention layers along the edges, with ELU activations between them.

    .. math:: h^{(l+1)} = \mathrm{elu}\bigl(\mathrm{conv}(\mathrm{dropout}(h^{(l)}))\bigr)

    The last layer has one output per class, or number, and averages its heads. The initial weights
    are drawn by torch's global generator.

    Args:
        settings: settings; the layer type and the sizes are read.
        features: number of features.
        outputs: number of classes; 1 for numbers.
        edge_dim: number of features of an edge; None if there are none.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).
    """

    def __init__(
        self, settings: NetworkSettings, features: int, outputs: int, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        kind, p, heads = CONVOLUTIONS[settings.model], settings.dropout, settings.heads
        inside = settings.layers - 1
        widths = [features, *[settings.width] * inside]
        self.hidden = nn.ModuleList(
            kind(width, settings.width // heads, heads, dropout=p, edge_dim=edge_dim)
            for width in widths[:-1]
        )
        self.out = kind(
            widths[-1], outputs, settings.output_heads, concat=False, dropout=p, edge_dim=edge_dim
        )
        self.dropout = SparseDropout(p)
        for weight in self.layers[0].parameters():
            if weight.dim() == 2:
                # A product with sparse features reads whole columns of the weight matrix, so its
                # columns are stored contiguously.
                weight.data = weight.data.t().contiguous().t()

    @property
    def layers(self) -> list[nn.Module]:
        """All attention layers, including the last one."""
        return [*self.hidden, self.out]

    def forward(self, inputs: FieldInput) -> Tensor:
        """Return the outputs [k, outputs] of k nodes, from their receptive field and its
        features.
        """
        graph, rows = inputs.field.layers[-1]
        terms = inputs.layer_terms(-1)
        return self.out(self.dropout(self.embed(inputs)), graph, **terms)[:rows]

    def embed(self, inputs: FieldInput) -> Tensor:
        """Return the input of the last layer, [m, width]. If there is only one layer, it is the
        features.
        """
        x = inputs.x
        for place, (layer, (graph, rows)) in enumerate(zip(self.hidden, inputs.field.layers)):
            x = F.elu(layer(self.dropout(x), graph, **inputs.layer_terms(place))[:rows])
        return x


@torch.no_grad()
def attention_weights(network: nn.Module, inputs: FieldInput) -> list[tuple[Tensor, Tensor]]:
    """Return the edges [2, e], including added self-loops, and the attention weights [e, h] of each
    layer of a network; global attention is not included. The network must be in evaluation mode,
    because dropout would change the weights.
    """
    with record_attention(network) as records:
        network(inputs)
    return [(one.edge_index, one.weights) for one in records if "attn" not in one.module]
