"""Summation of the gradients of a model's parameters over all processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor


def sum_gradients(parameters: Iterable[Tensor], *, group: dist.ProcessGroup | None = None) -> None:
    r"""Sum the gradients of a model's parameters over all processes, in place.

    .. math::
        \nabla_\theta L = \sum_r \nabla_\theta L_r, \qquad
        L_r = \frac{1}{|V|} \sum_{i \in V \cap V_r} \ell_i

    The result equals the gradient of the mean loss over all labelled nodes V, computed in one
    process, if each process divides the *sum* of the losses of its local nodes V_r by the number of
    labelled nodes of the whole graph. A process without labelled nodes must also call ``backward``,
    on a loss of zero. ``DistributedDataParallel`` averages over the processes: with it, multiply
    the loss by the number of processes. A parameter whose gradient is None in every process keeps
    None; if only some processes have a gradient, the others count as zero.

    Args:
        parameters: parameters of the model, the same in every process and in the same order.
        group: process group; None for all processes.

    Raises:
        RuntimeError: torch.distributed is not initialised, or another process has ended.

    Example:
        >>> import torch
        >>> from gattn.distributed import init_processes, sum_gradients
        >>> weight = torch.ones(2, requires_grad=True)
        >>> with init_processes() as processes:
        ...     (3 * weight).sum().backward()
        ...     sum_gradients([weight])  # 3 from each process
        ...     (weight.grad / processes.size).tolist()
        [3.0, 3.0]
    """
    by_type: dict[tuple[torch.dtype, torch.device], list[Tensor]] = defaultdict(list)
    for parameter in parameters:
        if parameter.requires_grad:
            by_type[parameter.dtype, parameter.device].append(parameter)
    for same_type in by_type.values():
        _sum_gradients_of_one_type(same_type, group)


def _sum_gradients_of_one_type(parameters: list[Tensor], group: dist.ProcessGroup | None) -> None:
    """Sum the gradients of those parameters that have the same dtype and device, in one message,
    and replace each ``grad``. All processes must call this function with as many parameters; it
    raises RuntimeError if another process has ended.

    The message ends with one number per parameter, which counts the processes that have a gradient.
    If it is 0, the gradient of the parameter stays None.
    """
    grads = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in parameters]
    has_grad = parameters[0].new_tensor([p.grad is not None for p in parameters])
    message = torch.cat([*(grad.flatten() for grad in grads), has_grad])
    dist.all_reduce(message, group=group)
    *sums, flags = message.split([*(p.numel() for p in parameters), len(parameters)])
    for parameter, summed, has_any in zip(parameters, sums, flags.tolist()):
        if has_any:
            parameter.grad = summed.view_as(parameter).clone()
