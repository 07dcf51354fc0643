"""GAT: a stack of graph attention layers."""

from __future__ import annotations

from typing import Any

from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gattn.nn import GATConv, GATv2Conv


class GAT(BasicGNN):
    r"""Graph attention network: GATConv or GATv2Conv layers with activation functions between them.

    .. math:: x \leftarrow \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}(x)))) \text{ for
        every layer}

    Has the arguments, parameters and outputs of ``torch_geometric.nn.GAT``.

    Args:
        in_channels: number of node features, or a pair (source, destination); -1 reads it from the
            first input.
        hidden_channels: hidden width, of all heads together.
        num_layers: number of layers.
        out_channels: number of output features; None for hidden_channels.
        dropout: dropout probability of features and attention weights.
        act: activation function.
        act_first: whether the activation comes before the normalisation.
        act_kwargs: arguments of the activation function.
        norm: normalisation; None for no normalisation.
        norm_kwargs: arguments of the normalisation.
        jk: combination of the layers' outputs (jumping knowledge): ``"last"``, ``"cat"``,
            ``"max"`` or ``"lstm"``; None uses the output of the last layer.
        v2: whether to use GATv2Conv instead of GATConv.
        heads: number of heads; must divide hidden_channels.
        concat: whether to concatenate heads; False averages them.
        **kwargs: other arguments of the layers. With ``checkpoint=True`` a layer stores only its
            input for the backward pass and computes the rest again, which takes less memory and
            about a third more time.

    Shapes:
        - **input:** x [n, in_channels]; edges as the layers take them; edge features
          [e, edge_dim]; edge weights [e], which multiply the messages of every layer (PyG's GAT
          has none)
        - **output:** [n, out_channels]

    Raises:
        TypeError: edges have another type, or dtypes differ.
        ValueError: heads do not divide the channels, a shape is wrong, or an index is out of
            range.

    Reference:
        Velickovic et al., "Graph attention networks" (ICLR 2018).

    Example:
        >>> import torch
        >>> from gattn.models import GAT
        >>> model = GAT(16, 32, num_layers=2, out_channels=7, heads=4)
        >>> model(torch.randn(3, 16), torch.tensor([[0, 1, 2], [1, 2, 2]])).shape
        torch.Size([3, 7])
    """

    supports_edge_weight = True  # pyright: ignore[reportGeneralTypeIssues]
    supports_edge_attr = True  # pyright: ignore[reportGeneralTypeIssues]

    def init_conv(
        self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any
    ) -> MessagePassing:
        """Create one layer. The last layer averages its heads if out_channels is set and jk is not.
        Raises ValueError if the heads do not divide the channels that they are concatenated to, and
        the errors of the layer's constructor.
        """
        layer = GATv2Conv if kwargs.pop("v2", False) else GATConv
        heads, concat = kwargs.pop("heads", 1), kwargs.pop("concat", True)
        concat = concat and not getattr(self, "_is_conv_to_out", False)
        if concat and out_channels % heads:
            raise ValueError(f"heads must divide the channels ({out_channels}); got {heads}")
        channels = out_channels // heads if concat else out_channels
        dropout = self.dropout.p
        return layer(in_channels, channels, heads, concat, dropout=dropout, **kwargs)
