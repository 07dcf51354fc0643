"""Gradients of parameters: each process holds the part of its own nodes; their sum is the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor


def sum_gradients(parameters: Iterable[Tensor], *, group: dist.ProcessGroup | None = None) -> None:
    r"""Sum the gradients of replicated parameters over all processes, in place.

    .. math::
        \nabla_\theta L = \sum_r \nabla_\theta L_r, \qquad
        L_r = \frac{1}{|V|} \sum_{i \in V \cap V_r} \ell_i

    They are then those of one process for the mean loss over the labelled nodes V, if each process
    divides the *sum* of the losses of its own nodes V_r by the number of labelled nodes of the
    whole graph. A process without labelled nodes calls ``backward`` on its loss of zero all the
    same. (``DistributedDataParallel`` averages over the processes: there the loss is multiplied by
    their number.)

    Args:
        parameters: those of the model, the same in every process, in the same order.
        group: the processes; None for all.

    Raises:
        RuntimeError: torch.distributed has not been initialised, or a process is gone.

    Example:
        >>> import torch
        >>> from gattn.distributed import connect, sum_gradients
        >>> weight = torch.ones(2, requires_grad=True)
        >>> with connect() as processes:
        ...     (3 * weight).sum().backward()
        ...     sum_gradients([weight])  # 3 for each process
        ...     (weight.grad / processes.size).tolist()
        [3.0, 3.0]
    """
    alike: dict[tuple[torch.dtype, torch.device], list[Tensor]] = defaultdict(list)
    for parameter in parameters:
        if parameter.requires_grad:
            alike[parameter.dtype, parameter.device].append(parameter)
    for some in alike.values():
        _sum_alike(some, group)


def _sum_alike(parameters: list[Tensor], group: dist.ProcessGroup | None) -> None:
    """Sum the gradients of parameters of one dtype and device in one message.

    The last numbers of it tell which parameters have a gradient anywhere: the others stay without.
    """
    grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
    has_grad = parameters[0].new_tensor([p.grad is not None for p in parameters])
    whole = torch.cat([*(grad.flatten() for grad in grads), has_grad])
    dist.all_reduce(whole, group=group)
    *sums, found = whole.split([*(p.numel() for p in parameters), len(parameters)])
    for parameter, summed, is_there in zip(parameters, sums, found.tolist()):
        if is_there:
            parameter.grad = summed.view_as(parameter).clone()
