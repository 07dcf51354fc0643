"""Base class of readouts that reduce segments of rows."""

from __future__ import annotations

from torch import Tensor

from gattn.graph import Graph
from gattn.nn.common.segments import Readout, segment_graph


class SegmentReadout(Readout):
    """Base class of readouts that reduce each set of rows to one row.

    A subclass implements ``_reduce``, which computes the output of the sets, and ``_weights``,
    which computes the attention weights of the rows.
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
        """Compute one row for each graph from the nodes of the graph. The attention weights are
        passed to the active recordings.

        Args:
            x: node features, [n, d].
            index: [n], the graph of each node, in any order.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: dimension of the nodes: 0 or -2.
            max_num_elements: largest number of nodes of a graph. Only a
                :class:`SetTransformerAggregation` under ``torch.compile`` needs it, to bound the
                number of edges within the graphs.

        Returns:
            One row per graph, see Shapes; zeros for a graph without nodes, except in
            :class:`Set2Set`.

        Raises:
            TypeError: for inputs that are not tensors, or an index or ptr that is not int32 or
                int64.
            ValueError: for a wrong shape or dimension, or an index or ptr out of range.
            RuntimeError: under torch.jit.trace.
        """
        segments = segment_graph(x, index, ptr, dim_size, dim)
        return self._reduce(x, segments, max_num_elements)

    def attention_weights(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Return the attention weight of each node in its graph, before dropout.

        Args:
            x: node features, [n, d].
            index: [n], the graph of each node, in any order.
            ptr: [g + 1], the index of each graph's first node, in place of index.
            dim_size: number of graphs, g. Without it ``index.max() + 1`` is read from the device.
            dim: dimension of the nodes: 0 or -2.
            max_num_elements: largest number of nodes of a graph, as in :meth:`forward`.

        Returns:
            One row per node, see Shapes.

        Raises:
            TypeError: for inputs that are not tensors, or an index or ptr that is not int32 or
                int64.
            ValueError: for a wrong shape or dimension, or an index or ptr out of range.
            RuntimeError: under torch.jit.trace.
        """
        segments = segment_graph(x, index, ptr, dim_size, dim)
        return self._weights(x, segments, max_num_elements)

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return one row for each set. ``width`` is the maximum number of rows in a set, or
        None.
        """
        raise NotImplementedError

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        """Return the attention weights of the rows. The arguments are those of ``_reduce``."""
        raise NotImplementedError
