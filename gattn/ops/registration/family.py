"""Declaration of an attention function that has one forward kernel and one backward kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from gattn.graph import Graph
from gattn.kernels import reference
from gattn.layout.layout import Layout
from gattn.ops.registration import checks, path_trace
from gattn.ops.registration.backend import select
from gattn.ops.registration.derivatives import by_kernel
from gattn.ops.registration.operator import Operator, Setting, wants_grad
from gattn.ops.registration.shapes import Out

_FREE = {"b": "h", "u": "h_v", "w": "c_v"}
"""Names, for errors, of the lengths that one input alone has: the heads of the bias, and the heads
and the channels of the value.
"""

_NOT_IN_SCORE = ("value", "attn_bias", "edge_weight")
"""Inputs of every family that are not arguments of its score."""


class Family:
    """Declaration of the forward and the backward operator of an attention function."""

    def __init__(
        self,
        name: str,
        *,
        inputs: Mapping[str, str],
        settings: Mapping[str, Setting],
        outputs: Mapping[str, Out],
        score: Callable[..., Tensor],
        edges_in_value: bool = False,
        flags: Iterable[str] = (),
        fallback_input: Mapping[str, str] | None = None,
        optional_grads: Iterable[str] = (),
    ) -> None:
        """Declare the forward and the backward operator, and register both with torch.

        Args:
            name: prefix of the operators, for example "gat".
            inputs: shapes of the inputs in letters, by name; an optional input ends in "?".
            settings: types of the numbers and choices that kernels and reference take, by name.
            outputs: the result, then the statistics that forward saves for backward. Backward takes
                ``out_acc`` and the statistics, not the result.
            score: the score [e, h] of the edges in plain PyTorch. Its arguments are the inputs,
                except the value, the bias and the weight of the edges, and the settings, except
                dropout. The inputs of nodes have one row for each edge. The score is the
                specification of the family: the reference implementation and the second
                derivatives are computed from it.
            edges_in_value: whether the edge term W a_ij is also added to the value.
            flags: booleans that only the forward kernels take, in addition to ``needs_backward``.
            fallback_input: by name of an optional input, the input that is used if it is absent.
            optional_grads: inputs for which backward computes the gradient only if its flag
                ``wants_NAME`` is set.

        Raises:
            ValueError: if a shape contains an unknown letter.
        """
        self.score, self._edges_in_value = score, edges_in_value
        self._letters = {name: shape.rstrip("?").split() for name, shape in inputs.items()}
        self._optional = {name for name, shape in inputs.items() if shape.endswith("?")} - {"value"}
        optional_grads = tuple(optional_grads)
        first, *others = outputs
        statistics = ["out_acc", *(n for n in others if n != "out_acc")]

        def gradient(name: str, shape: str) -> Out:
            """Return the declaration of the gradient of an input, which exists only if the input
            does and the gradient is requested.
            """
            conditions = [name] if shape.endswith("?") else []
            conditions += [f"wants_{name}"] if name in optional_grads else []
            return Out(shape.rstrip("?"), only_if=tuple(conditions))

        self.backward = Operator(
            f"{name}_backward",
            inputs={f"grad_{first}": outputs[first].shape, **inputs},
            statistics=statistics,
            seed=True,
            settings=settings,
            flags=[f"wants_{n}" for n in optional_grads],
            fallback_input=fallback_input,
            outputs={f"grad_{n}": gradient(n, shape) for n, shape in inputs.items()},
        )
        self.forward = Operator(
            f"{name}_forward",
            inputs=inputs,
            outputs=outputs,
            seed=True,
            settings=settings,
            flags=[*flags, "needs_backward"],
            fallback_input=fallback_input,
            reference=self.run_reference,
            derivative=by_kernel(self.backward, inputs, optional_grads),
            saves=(*inputs, "seed", *statistics),
        )

    def check(
        self, graph: Graph, inputs: tuple[Tensor | None, ...], has_value: bool = True
    ) -> None:
        """Check the type of the graph, and the dtypes, the devices and the shapes of the inputs.

        The inputs are in the order of the declaration. ``has_value`` is False for a function that
        returns attention weights. It has no value. Raises TypeError or ValueError for the first
        that does not fit, or if only one of edge_attr and edge_proj is passed.
        """
        checks.check_graph(graph)
        named: dict[str, Any] = dict(zip(self._letters, inputs))
        checks.check_floats(graph, **named)
        lengths = {"n": graph.num_dst, "m": graph.num_src, "e": graph.num_edges}
        for name, letters in self._letters.items():
            tensor = named[name]
            if tensor is None and (name in self._optional or not (has_value or name != "value")):
                continue
            if tensor is None or not _fits(tensor.shape, letters, lengths):
                expected = [lengths.get(letter, _FREE.get(letter, letter)) for letter in letters]
                checks.check_shape(name, named[name], *expected)
        if (named.get("edge_attr") is None) != (named.get("edge_proj") is None):
            raise ValueError(
                "edge_attr and edge_proj must be passed together; got only one of them"
            )
        heads = lengths["h"]
        if named["attn_bias"] is not None and lengths["b"] not in (1, heads):
            raise ValueError(
                f"attn_bias must have {heads} heads, or one for all; got {lengths['b']}"
            )
        if has_value and "u" in self._letters["value"]:
            checks.check_grouped("value", heads, lengths["u"])

    def run_reference(self, *args: Any) -> Tensor:
        """Compute the attention in plain PyTorch: [n, h, c] in the dtype of the value.

        Args:
            *args: the inputs, the layout, the seed of dropout and the settings.
        """
        named = self.forward.by_name(args)
        value, attn_bias, edge_weight = map(named.pop, _NOT_IN_SCORE)
        layout, seed, dropout = map(named.pop, ("layout", "seed", "dropout"))
        value = named[self.forward.fallback_input["value"]] if value is None else value
        score = self.score_edges(named, layout)
        edge_value = None
        if self._edges_in_value:
            edges = {name: named[name] for name in ("edge_attr", "edge_proj")}
            rows = reference.rows_of_edges(edges, self.forward.shapes, layout)
            edge_value = reference.project(**rows)
        return reference.attend(
            score, value, attn_bias, edge_weight, layout, seed, dropout, edge_value
        )

    def score_edges(self, arguments: Mapping[str, Any], layout: Layout) -> Tensor:
        """Compute the score of every edge in plain PyTorch, [e, h], in CSR order and in the
        accumulation dtype.

        ``arguments`` contains the inputs and the settings of the score by name; other entries are
        ignored.
        """
        shapes, settings = self.forward.shapes, self.forward.settings
        numbers = {n: value for n, value in arguments.items() if n in settings}
        tensors = {n: value for n, value in arguments.items() if n in shapes}
        return self.score(**reference.rows_of_edges(tensors, shapes, layout), **numbers)

    def run(
        self,
        inputs: tuple[Tensor | None, ...],
        layout: Any,
        seed: Tensor | None,
        settings: tuple[Any, ...],
        backend: str | None,
        flags: tuple[bool, ...] = (),
    ) -> Tensor:
        """Compute the attention on a backend. By default, the device of the first input determines
        the backend; if it has no kernels, the reference runs, with one warning. Inputs, settings
        and flags are in the order of the declaration. The inputs are not checked, see
        :meth:`check`. Raises ValueError for an unknown backend, and RuntimeError if the requested
        backend cannot run.
        """
        lead = inputs[0]
        assert lead is not None
        backend = select(backend, lead.device)
        if backend == "reference":
            if path_trace.listeners:
                path_trace.report_reference(self.forward.name, lead.device.type)
            return self.run_reference(*inputs, layout, seed, *settings)
        flags = *flags, wants_grad(*inputs)
        # torch's dispatcher calls Operator._autograd first. If a gradient is needed, the call goes
        # through _OperatorFunction. In both cases, it ends in Operator._kernel.
        return self.forward.overload(*inputs, layout, seed, *settings, *flags, backend)[0]


def _fits(shape: Sequence[int], letters: Sequence[str], lengths: dict[str, int]) -> bool:
    """Return True if a shape has the known lengths of its letters; store the unknown lengths in
    ``lengths``.
    """
    return len(shape) == len(letters) and all(
        lengths.setdefault(letter, length) == length for letter, length in zip(letters, shape)
    )
