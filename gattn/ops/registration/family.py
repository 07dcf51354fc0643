"""A family of scores: attention by one kernel forward and one backward, declared once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from gattn.ops.registration import path_trace
from gattn.ops.registration.backend import select
from gattn.ops.registration.derivatives import by_kernel
from gattn.ops.registration.operator import Operator, Setting, wants_grad
from gattn.ops.registration.shapes import Out


class Family:
    """The operators ``NAME_forward`` and ``NAME_backward``, and the attention that they make."""

    def __init__(
        self,
        name: str,
        *,
        inputs: Mapping[str, str],
        settings: Mapping[str, Setting],
        outputs: Mapping[str, Out],
        reference: Callable[..., Tensor],
        flags: Iterable[str] = (),
        fallback_input: Mapping[str, str] | None = None,
        optional_grads: Iterable[str] = (),
    ) -> None:
        """Declare a family.

        Args:
            name: such as "gat".
            inputs: tensors by their shapes in letters; "?" after the shape of one that may be
                absent.
            settings: the numbers and choices that the reference takes, too.
            outputs: the attention itself, and what backward wants to know of it. Backward is given
                them all, but ``out_acc`` in the place of the first.
            reference: the attention in plain PyTorch: of the inputs, the layout, the seed of
                dropout and the settings.
            flags: booleans that only the kernels of forward take, beside ``needs_backward``.
            fallback_input: for an input that may be absent, the one that then stands for it.
            optional_grads: inputs whose gradients backward leaves out where nobody asks:
                ``wants_NAME`` tells it.
        """
        optional_grads = tuple(optional_grads)
        first, *retained = outputs
        statistics = ["out_acc", *(n for n in retained if n != "out_acc")]

        def gradient(name: str, shape: str) -> Out:
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
            reference=reference,
            derivative=by_kernel(self.backward, inputs, optional_grads),
            saves=(*inputs, "seed", *statistics),
        )
        self.reference = reference

    def run(
        self,
        inputs: tuple[Tensor | None, ...],
        layout: Any,
        seed: Tensor | None,
        settings: tuple[Any, ...],
        backend: str | None,
        flags: tuple[bool, ...] = (),
    ) -> Tensor:
        """The attention, on the backend for the device of its first input or on that named."""
        lead = inputs[0]
        assert lead is not None
        backend = select(backend, lead.device)
        if backend == "reference":
            if path_trace.listeners:
                path_trace.report_reference(self.forward.name, lead.device.type)
            return self.reference(*inputs, layout, seed, *settings)
        flags = *flags, wants_grad(*inputs)
        return self.forward.overload(*inputs, layout, seed, *settings, *flags, backend)[0]
