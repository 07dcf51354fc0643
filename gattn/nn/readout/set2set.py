"""Readout by repeated attention (Set2Set). Its query is updated by an LSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import aggr as pyg

from gattn.compat.pyg import Twin
from gattn.graph import Graph
from gattn.nn.common.checks import check_at_least, check_features
from gattn.nn.common.scores import attend_with_score, dot_product_score
from gattn.nn.readout.base import SegmentReadout


class Set2Set(SegmentReadout, pyg.Set2Set, Twin):
    r"""Readout by repeated attention to the nodes of each graph. Its query is updated by an LSTM.

    .. math::
        q_t = \mathrm{LSTM}([q_{t-1}, r_{t-1}]), \qquad
        r_t = \sum_{j \in g} \mathrm{softmax}_{j \in g} (q_t \cdot x_j)\, x_j, \qquad
        y_g = [q_T, r_T]

    The arguments, the parameters and the results are the same as in ``torch_geometric.nn.Set2Set``.
    The dot product, the softmax and the sum are computed by one operator.

    Args:
        in_channels: number of node features, d.
        processing_steps: number of steps, T.
        **kwargs: arguments of ``torch.nn.LSTM``, except ``batch_first``, ``bidirectional`` and
            ``proj_size``.

    Shapes:
        - **input:** x [n, d]; index [n], in any order, or ptr [g + 1]
        - **output:** [g, 2 d]; a graph without nodes gets the query, which is the same for all
          empty graphs, and d zeros
        - **weights:** [n, 1], of the last step; they sum to 1 over each graph

    Raises:
        TypeError: if an input is a list or an array and no tensor.
        ValueError: if x is not two-dimensional, or for an argument that the LSTM cannot have here.

    Reference:
        Vinyals, Bengio and Kudlur, "Order matters: sequence to sequence for sets" (ICLR 2016).

    Example:
        >>> import torch
        >>> from gattn.nn import Set2Set
        >>> readout = Set2Set(8, processing_steps=3)
        >>> x, batch = torch.randn(5, 8), torch.tensor([0, 0, 0, 2, 2])
        >>> readout(x, batch, dim_size=3).shape
        torch.Size([3, 16])
    """

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Raise ValueError for sizes out of range, and for options of the LSTM that change its
        input or output.
        """
        check_at_least(1, in_channels=arguments["in_channels"])
        check_at_least(0, processing_steps=arguments["processing_steps"])
        for option in ("batch_first", "bidirectional", "proj_size"):
            if value := arguments["kwargs"].get(option):
                raise ValueError(
                    f"{option} must be left out, as the LSTM reads one query of "
                    f"{arguments['in_channels']} features for each graph; got {option}={value}"
                )

    def _reduce(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        return self._steps(x, segments, want_weights=False)[0]

    def _weights(self, x: Tensor, segments: Graph, width: int | None) -> Tensor:
        weights = self._steps(x, segments, want_weights=True)[1]
        return x.new_zeros(x.shape[0], 1) if weights is None else weights

    def _steps(
        self, x: Tensor, segments: Graph, want_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return the result [q_T, r_T] of each graph, [g, 2 d], and the attention weights of the
        last step, [n, 1]. Without steps, the result is zeros. The weights are None unless
        ``want_weights`` is True and there is a step and a segment. The weights of every step are
        passed to the active recordings. Raises ValueError or TypeError if x has a wrong width or
        dtype, and RuntimeError under torch.jit.trace.
        """
        check_features("x", x, self.in_channels, self.lstm.weight_ih_l0)
        value = x.unsqueeze(1)
        memory = x.new_zeros(segments.num_dst, self.out_channels)
        state, weights = None, None
        for _ in range(self.processing_steps if segments.num_dst else 0):
            query, state = self.lstm(memory.unsqueeze(0), state)
            query = query.view(segments.num_dst, self.in_channels).to(x.dtype)
            score = dot_product_score(query.unsqueeze(1), value, scale=1.0)
            result, weights = attend_with_score(score, value, segments, want_weights=want_weights)
            memory = torch.cat([query, result.squeeze(1)], dim=-1)
        return memory, weights
