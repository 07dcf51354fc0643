"""What readouts on segments share: how they read their sets, and how they are called."""

from __future__ import annotations

from torch import Tensor

from gattn.graph import Graph
from gattn.nn.common.segments import Readout, segment_graph


class SegmentReadout(Readout):
    """A readout on the graph with one edge from each row to the set that holds it.

    It says by ``_read`` what it makes of the sets, and by ``_weigh`` how much each row counts.
    """

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Sum up the nodes of each graph.

        Args:
            x: [n, d], the nodes.
            index: [n], the graph of each node, in any order.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: the dimension of the nodes: 0 or -2.
            max_num_elements: the most nodes of any graph. Nothing is padded: only a
                :class:`SetTransformerReadout` under ``torch.compile`` needs it, to bound the
                number of edges inside the graphs beforehand.

        Returns:
            One row per graph, see Shapes; zeros for a graph without nodes.
        """
        segments = segment_graph(x, index, ptr, dim_size, dim)
        return self._read(x, segments, max_num_elements)

    def attention_weights(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Weight of each node in its graph's result, before dropout.

        Args:
            x: [n, d], the nodes.
            index: [n], the graph of each node, in any order.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: the dimension of the nodes: 0 or -2.
            max_num_elements: as in :meth:`forward`.

        Returns:
            One row per node, see Shapes.
        """
        segments = segment_graph(x, index, ptr, dim_size, dim)
        return self._weigh(x, segments, max_num_elements)

    def _read(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """One row per set; no set has more than ``width`` rows, where that is told."""
        raise NotImplementedError

    def _weigh(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """How much each row counts."""
        raise NotImplementedError
