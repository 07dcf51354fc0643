"""A user's function of a few edges, as autograd recorded it: backward need not call it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import Node


class Recorded(NamedTuple):
    """What the function gave, and what it was given."""

    made: Tensor
    """With what autograd recorded of it."""
    given: list[Tensor]
    """Rows of edges and parameters, of which some want gradients."""

    @classmethod
    def of(
        cls, function: Callable[..., Tensor], given: Sequence[Tensor], needed: Sequence[bool]
    ) -> Recorded:
        """Call it, recording what has to do with the tensors whose gradients are needed."""
        leaves = [tensor.detach().requires_grad_(need) for tensor, need in zip(given, needed)]
        with torch.enable_grad():
            return cls(function(*leaves), leaves)

    def holds_others(self) -> bool:
        """Whether other tensors than those it was given would have gradients."""
        own = {id(tensor) for tensor in self.given}
        waiting: list[Node | None] = [self.made.grad_fn] if self.made.requires_grad else []
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if id(getattr(node, "variable", self.given[0])) not in own:
                return True
            waiting += [before for before, _ in node.next_functions]
        return False

    def gradients(self, grad: Tensor, *, keep: bool = False) -> list[Tensor | None]:
        """Of everything it was given, None where none is needed or there is none.

        ``keep`` says whether they can be asked for again.
        """
        wanted = [tensor for tensor in self.given if tensor.requires_grad]
        if not self.made.requires_grad:
            return [None] * len(self.given)
        found = iter(
            torch.autograd.grad(
                self.made, wanted, grad.to(self.made.dtype), retain_graph=keep, allow_unused=True
            )
        )
        return [next(found) if tensor.requires_grad else None for tensor in self.given]
