"""Readout that concatenates the results of several readouts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.resolver import aggregation_resolver

from gattn.functional import aggregate
from gattn.graph import Graph
from gattn.nn.common.segments import Readout, segment_index
from gattn.nn.readout.base import SegmentReadout


class MultiReadout(Readout):
    r"""Readout that concatenates the results of several readouts for each graph.

    .. math:: y_g = \Big\Vert_r \mathrm{readout}_r(X_g)

    A readout by learned queries is better than a sum on many tasks and worse on others. With both,
    the model can learn which one to use.

    Args:
        readouts: list of PyG ``Aggregation`` modules or of names. ``"sum"`` (or ``"add"``) and
            ``"mean"``
            run on gattn's deterministic operator; any other name, such as ``"max"`` or ``"std"``,
            is resolved by PyG.

    Shapes:
        - **input:** x [n, in_channels]; index [n], or ptr [g + 1]
        - **output:** [g, out_1 + out_2 + ...]

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: for an empty list of readouts, or a name that PyG does not know.

    Reference:
        Buterez et al., "Graph neural networks with adaptive readouts" (NeurIPS 2022); Corso et
        al., "Principal neighbourhood aggregation for graph nets" (NeurIPS 2020).

    Example:
        >>> import torch
        >>> from gattn.nn import LearnedQueryReadout, MultiReadout
        >>> readout = MultiReadout(["sum", LearnedQueryReadout(8, 16, num_queries=2)])
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 40])
        >>> [weights.shape for weights in readout.attention_weights(x, batch, dim_size=3)]
        [torch.Size([5, 1]), torch.Size([5, 2, 1])]
    """

    def __init__(self, readouts: Sequence[str | Aggregation]) -> None:
        super().__init__()
        if len(readouts) == 0:
            raise ValueError("readouts must contain at least one readout; got none")
        self.readouts = ModuleList(_resolve(readout) for readout in readouts)

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Compute one row for each graph from the graph's nodes.

        Args:
            x: node features, [n, in_channels].
            index: [n], the graph of each node, in any order that the readouts allow.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: dimension of the nodes: 0 or -2.
            max_num_elements: largest number of nodes of a graph, which a
                :class:`SetTransformerAggregation` needs under ``torch.compile``.

        Returns:
            The concatenated results, [g, out_1 + out_2 + ...].
        """
        if index is None and ptr is None and dim_size is None:
            # If dim_size is None, PyG's aggregations read it from the device, which takes long.
            dim_size = 1
        if max_num_elements is None:
            outs = [readout(x, index, ptr, dim_size, dim) for readout in self.readouts]
        else:
            outs = [
                readout(x, index, ptr, dim_size, dim, max_num_elements=max_num_elements)
                for readout in self.readouts
            ]
        return torch.cat([out.flatten(1) for out in outs], dim=1)

    def attention_weights(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
    ) -> list[Tensor]:
        """Return the weights of the nodes in each readout.

        Args:
            x: node features, [n, in_channels].
            index: [n], the graph of each node.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: dimension of the nodes: 0 or -2.

        Returns:
            One tensor per readout, the result of its ``attention_weights``; for a sum or a mean,
            the factor of each node, [n, 1].

        Raises:
            TypeError: for a readout that is not a weighted sum, such as PyG's ``"max"``.
        """
        for readout in self.readouts:
            if not hasattr(readout, "attention_weights"):
                raise TypeError(f"{readout} has no method attention_weights; leave it out")
        return [
            readout.attention_weights(x, index, ptr, dim_size, dim)  # type: ignore[operator]
            for readout in self.readouts
        ]

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({list(self.readouts)})"


class _LinearReadout(SegmentReadout):
    """Readout that sums or averages the nodes of each graph in a fixed order."""

    def __init__(self, mean: bool) -> None:
        super().__init__()
        self.mean = mean

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return aggregate(self._weights(x, segments, width), x.unsqueeze(1), segments).squeeze(1)

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        if not self.mean:
            return x.new_ones(x.shape[0], 1)
        size = segments.in_degree()[segment_index(segments)].unsqueeze(1)
        return size.double().reciprocal().to(x.dtype)

    def __repr__(self) -> str:
        return "'mean'" if self.mean else "'sum'"


def _resolve(readout: str | Aggregation) -> Aggregation:
    if readout in ("sum", "add", "mean"):
        return _LinearReadout(mean=readout == "mean")
    return aggregation_resolver(readout)
