"""Attention layers on small graphs, recorded by autograd as one function.

On a batch of molecules, torch takes as much time to record the operators of a layer (products,
scores, attention, sums) as to compute them. Here, autograd records one function for the whole
layer. It calls the same operators and kernels, so that it gives the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter

from gattn.graph import Graph
from gattn.kernels.precision import infinite_as_nan
from gattn.ops.nodes import SCORES_BACKWARD, node_scores
from gattn.ops.projection import LARGE
from gattn.ops.registration import checks
from gattn.ops.registration.backend import is_transformed, select
from gattn.ops.registration.derivatives import reference_gradients
from gattn.ops.registration.family import Family
from gattn.ops.registration.operator import SavedValues, below_autograd, wants_grad


class Layer(NamedTuple):
    r"""Attention between linear projections of x, plus a skip connection and a bias.

    .. math:: y = \mathrm{attention}(W_1 x + b_1, W_2 x + b_2, \ldots) + W_s x + b
    """

    family: Family
    """Declaration of the attention. Its first inputs are the projections of x."""
    settings: tuple[Any, ...]
    """Settings of the attention, except dropout."""
    heads: int
    channels: int
    concat: bool
    """Whether the heads are concatenated; otherwise they are averaged."""
    projections: Sequence[Any]
    """Linear layers with the weights W_k, [h * c, d], and the biases b_k."""
    skip: Any
    """Linear layer with the weight W_s, [h * c, d] or [c, d]; None without a skip connection."""
    bias: Tensor | None
    """b, [h * c] or [c]. There is a skip connection or a bias."""
    vectors: tuple[Tensor, ...]
    """Vectors a_t, [1, h, c]. If there are any, the first inputs are the dot products of a_t and
    the only projection, as in GATConv.
    """
    others: tuple[Tensor | None, ...]
    """Inputs of the attention after the projections."""


class _Call(NamedTuple):
    layer: Layer
    constants: tuple[Any, ...]
    """Arguments of the attention after its inputs."""

    def split(self, tensors: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
        """Return the weights and biases of the projections, the vectors and the other inputs."""
        end = 3 + 2 * len(self.layer.projections)
        last = end + len(self.layer.vectors)
        return tensors[3:end:2], tensors[4:end:2], tensors[end:last], tensors[last:]


def serves(x: Tensor, graph: Graph, width: int) -> bool:
    """Return True for features on a small graph on a CPU, outside of autocast, tracers and
    transforms.
    """
    return (
        not torch.compiler.is_compiling()
        and type(x) in (Tensor, Parameter)
        and x.dim() == 2
        and x.dtype in checks.FLOATS
        and x.shape[0] * width < LARGE
        and type(graph) is Graph
        and graph.blocks is None
        and not is_transformed()
        and select(None, x.device) == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


def run(layer: Layer, x: Tensor, graph: Graph, dropout: float) -> Tensor | None:
    """Compute a layer for x, [n, d], as one function: [n, h * c] or [n, c].

    Returns None if an argument has an unexpected type, dtype or shape, so that the operators of the
    layer raise an error.
    """
    weights = [t for linear in layer.projections for t in (linear.weight, linear.bias)]
    skip = None if layer.skip is None else layer.skip.weight
    tensors = (x, skip, layer.bias, *weights, *layer.vectors, *layer.others)
    if not _are_valid(layer, tensors, graph, dropout):
        return None
    seed = checks.new_seed(dropout, x.device, graph.edge_offset)
    needs_backward = wants_grad(*tensors)
    flags = (needs_backward,) * len(layer.family.forward.flags)
    call = _Call(layer, (graph.layout, seed, *layer.settings, dropout, *flags, "cpu"))
    if needs_backward:
        return _LayerFunction.apply(call, *tensors)  # type: ignore[return-value]
    return _compute(call, tensors)[0]


def _are_valid(layer: Layer, tensors: Sequence[Any], graph: Graph, dropout: float) -> bool:
    numbers_are_valid = all(type(s) in (float, int, str) for s in (*layer.settings, dropout))
    if not (numbers_are_valid and 0 <= dropout <= 1):
        return False
    x, width = tensors[0], layer.heads * layer.channels
    lengths = {"1": 1, "n": graph.num_dst, "e": graph.num_edges, "h": layer.heads}
    lengths |= {"c": layer.channels, "p": width, "o": width if layer.concat else layer.channels}
    shapes = ["n i", "o i", "o", *("p i", "p") * len(layer.projections)]
    shapes += ["1 h c"] * len(layer.vectors)
    shapes += [*layer.family.forward.shapes.values()][-len(layer.others) :]
    return all(t is None or _fits(t, x, shape, lengths) for t, shape in zip(tensors, shapes))


def _fits(t: Any, x: Tensor, shape: str, lengths: dict[str, int]) -> bool:
    """Return True for a plain tensor of this shape and of the dtype and device of x."""
    letters = shape.rstrip("?").split()
    return (
        type(t) in (Tensor, Parameter)
        and t.layout == torch.strided
        and (t.dtype, t.device, t.dim()) == (x.dtype, x.device, len(letters))
        and all(lengths.setdefault(k, n) == n for k, n in zip(letters, t.shape))
    )


def _compute(
    call: _Call, tensors: tuple[Any, ...]
) -> tuple[Tensor, Sequence[Any], Sequence[Tensor]]:
    """Return the output of a layer, and the arguments and the outputs of the attention."""
    layer, (x, skip, bias) = call.layer, tensors[:3]
    weights, biases, vectors, others = call.split(tensors)
    inputs = [F.linear(x, w, b).unflatten(1, (-1, layer.channels)) for w, b in zip(weights, biases)]
    if vectors:
        inputs[:0] = infinite_as_nan(node_scores(inputs[0], torch.cat(vectors))).unbind()
    args = (*inputs, *others, *call.constants)
    outputs = layer.family.forward.overload(*args)
    out = outputs[0].flatten(1) if layer.concat else outputs[0].mean(1)
    return out + (bias if skip is None else F.linear(x, skip, bias)), args, outputs


class _LayerFunction(torch.autograd.Function):
    """Autograd function of a layer. Its second derivatives are those of the operators."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Any) -> Tensor:
        out, args, outputs = below_autograd(_compute, call, tensors)
        saved, ctx.settings = call.layer.family.forward.values_to_save(args, outputs)
        ctx.call, ctx.count = call, len(tensors)
        ctx.save_for_backward(*tensors, *saved)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        call, saved = ctx.call, ctx.saved_tensors
        tensors = saved[: ctx.count]
        if torch.is_grad_enabled():
            return None, *reference_gradients(lambda *t: _compute(call, t)[0], tensors, grads)
        values = call.layer.family.forward.saved_values(saved[ctx.count :], ctx.settings)
        return None, *_gradients(call, grads[0], tensors, values, ctx.needs_input_grad[1:])


def _gradients(
    call: _Call, grad: Tensor, tensors: tuple[Any, ...], saved: SavedValues, needed: Sequence[bool]
) -> Iterator[Tensor | None]:
    """Yield the gradients of the tensors of a layer."""
    layer, operator, (x, skip) = call.layer, call.layer.family.forward, tensors[:2]
    weights, _, vectors, others = call.split(tensors)
    heads = int(layer.heads)
    if layer.concat:
        grad_heads = grad.reshape(-1, heads, layer.channels)
    else:
        grad_heads = (grad / heads).unsqueeze(1).expand(-1, heads, -1)
    names = operator.inputs[-len(others) :]
    requested = frozenset(n for n, t in zip(names, others) if t is not None and t.requires_grad)
    assert operator.derivative is not None
    grads: list[Any] = [*operator.derivative(operator, grad_heads, saved, requested).values()]
    grad_vectors: Sequence[Tensor] = ()
    if vectors:
        scores = torch.stack(grads[: len(vectors)])
        args = scores, saved["value"], torch.cat(vectors), "cpu"
        grad_value, grad_vectors = below_autograd(SCORES_BACKWARD.overload, *args)
        grads[: len(vectors) + 1] = [grads[len(vectors)].add_(grad_value)]
    outputs = [t.reshape(-1, heads * layer.channels) for t in grads[: len(weights)]]
    pairs = [*zip(outputs, weights)] + ([] if skip is None else [(grad, skip)])
    grad_x = None
    for output, weight in pairs if needed[0] else ():
        grad_x = output @ weight if grad_x is None else torch.addmm(grad_x, output, weight)
    yield grad_x
    yield grad.t() @ x if needed[1] else None
    yield grad.sum(0) if needed[2] else None
    for output, index in zip(outputs, range(3, 3 + 2 * len(weights), 2)):
        yield output.t() @ x if needed[index] else None
        yield output.sum(0) if needed[index + 1] else None
    yield from (t[None] for t in grad_vectors)
    yield from (None if t is None else g for t, g in zip(others, grads[len(weights) :]))
