"""GAT: layers of graph attention, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gattn.nn import GATConv, GATv2Conv


class GAT(BasicGNN):
    r"""The graph attention network: GATConv or GATv2Conv, an activation between each two.

    .. math:: x \leftarrow \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}(x)))) \text{ for
        every layer}

    Takes the arguments and the parameters of ``torch_geometric.nn.GAT`` and gives its outputs.

    Args:
        in_channels: features of a node, or a pair (source, destination); -1 takes it from the
            first input.
        hidden_channels: features inside, of all heads together.
        num_layers: number of layers.
        out_channels: features of the result; None for hidden_channels.
        dropout: probability of dropping a feature, or a weight, in training.
        act: activation.
        act_first: whether the activation comes before the normalisation.
        act_kwargs: options of the activation.
        norm: normalisation; None for none.
        norm_kwargs: options of the normalisation.
        jk: how the layers' results are joined: ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``;
            None for the last one's.
        v2: GATv2Conv instead of GATConv.
        heads: number of heads; divides hidden_channels.
        concat: whether heads are laid side by side, or averaged.
        **kwargs: of the layer; with ``checkpoint=True`` a layer keeps nothing but its input for
            the backward, which computes it once more: less memory, and a third more time.

    Shapes:
        - **input:** x [n, in_channels]; edges as the layers take them; edge features
          [e, edge_dim]; edge weights [e], which multiply the messages of every layer (PyG's leaves
          them out)
        - **output:** [n, out_channels]

    Raises:
        TypeError: for edges of another type, or dtypes that differ.
        ValueError: where heads do not divide the channels, for a wrong shape or an index out of
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

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        act_first: bool = False,
        act_kwargs: dict[str, Any] | None = None,
        norm: str | Callable[..., Tensor] | None = None,
        norm_kwargs: dict[str, Any] | None = None,
        jk: str | None = None,
        **kwargs: Any,
    ) -> None:
        average_last = out_channels is not None and jk is None
        super().__init__(
            cast(int, in_channels), hidden_channels, num_layers, out_channels, dropout, act,
            act_first, act_kwargs, norm, norm_kwargs, jk, average_last=average_last, **kwargs,
        )  # fmt: skip

    def init_conv(
        self, in_channels: int | tuple[int, int], out_channels: int, **kwargs: Any
    ) -> MessagePassing:
        """Make one layer: the last averages its heads, the others as they are told."""
        layer = GATv2Conv if kwargs.pop("v2", False) else GATConv
        heads, concat = kwargs.pop("heads", 1), kwargs.pop("concat", True)
        average_last = kwargs.pop("average_last", False)
        concat = concat and not (average_last and len(self.convs) == self.num_layers - 1)
        if concat and out_channels % heads:
            raise ValueError(f"heads must divide the channels ({out_channels}); got {heads}")
        channels = out_channels // heads if concat else out_channels
        dropout = self.dropout.p
        return layer(in_channels, channels, heads, concat, dropout=dropout, **kwargs)
