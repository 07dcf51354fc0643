"""Replacement of PyG's attention layers in a model by gattn's layers with the same parameters."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch_geometric.nn as pyg
from torch.nn import Module, MultiheadAttention
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.models import sgformer as pyg_sgformer

import gattn.nn
from gattn.compat import pyg as pyg_internals
from gattn.models import AttentiveFP, Polynormer, SGFormer, sgformer
from gattn.nn.attention import set_attention
from gattn.nn.conv.gps_conv import ATTENTION_OPTIONS

_Model = TypeVar("_Model", bound=Module)
_log = logging.getLogger("gattn")

_CLASSES = (
    *(getattr(gattn.nn, name) for name in gattn.nn.__all__),
    *(AttentiveFP, Polynormer, SGFormer, sgformer.GraphModule, sgformer.SGModule),
)
TWINS: dict[type[Module], type[Module]] = {
    base: cls
    for cls in _CLASSES
    for base in getattr(cls, "__bases__", ())
    if base.__name__ == cls.__name__ and cls.__module__ != set_attention.__name__
}
"""Dictionary from PyG layers and models to the gattn classes that have their names and attributes.
The blocks of the Set Transformer are not in it, because gattn's blocks read sets without padding.
"""

WHOLE = pyg.Polynormer, pyg.SGFormer, pyg_sgformer.GraphModule, pyg_sgformer.SGModule
"""Models that are replaced only if all of their submodules are replaced."""


UNSUPPORTED = frozenset((
    "ASAPooling", "CuGraphGATConv", "DNAConv", "DenseGATConv", "FeaStConv", "JumpingKnowledge",
    "LPAttLayer", "MemPooling", "MultiheadAttention", "MultiheadAttentionBlock",
    "PatchTransformerAggregation", "PerformerAttention", "QFormer", "ViS_MP",
))  # fmt: skip
"""Names of attention classes of torch and PyG that gattn cannot replace."""

CONDITIONAL: dict[str, Callable[[Any], bool]] = {
    "JumpingKnowledge": lambda theirs: theirs.mode == "lstm",
}
"""Modules that contain attention only for some settings, each with a function that tests these
settings.
"""


@dataclass(frozen=True)
class ConversionReport:
    """Report on the attention layers of a model: which ones run on gattn, and why the others do
    not.

    Args:
        replaced: the layers that run on gattn: a dict from the path in the model to the class name.
        left: the attention layers that :func:`convert` does not replace: a dict from the path to
            the reason.
        convertible: PyG's layers that :func:`convert` would replace: a dict from the path to the
            class name.
        seen: number of other modules by class name; printed if the model has no attention layer.
        edge_by_edge: gattn's layers that do not run on the fast kernels: a dict from the path to
            the reason, which is the layer's ``slow_path_reason``.

    Example:
        >>> from gattn import ConversionReport
        >>> print(ConversionReport({"conv1": "GATConv"}, {"pool": "no SetPooling in gattn"}))
        gattn runs 1 attention layer: conv1 (GATConv)
        not replaced, 1: pool (no SetPooling in gattn)
    """

    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    convertible: dict[str, str] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    edge_by_edge: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a text with one line for each group of layers: replaced, edge by edge,
        convertible, and not replaced; without the first and the third, also the other modules.
        """
        lines = [f"gattn runs {_layers(self.replaced)}{_listed(self.replaced)}"]
        if self.edge_by_edge:
            slow = _listed(self.edge_by_edge)
            lines.append(f"edge by edge, as slow as PyG, {len(self.edge_by_edge)}{slow}")
        if self.convertible:
            layers = f"{_layers(self.convertible)}{_listed(self.convertible)}"
            lines.append(f"gattn.convert would replace {layers}")
        if self.left:
            lines.append(f"not replaced, {len(self.left)}{_listed(self.left)}")
        if self.seen and not self.replaced and not self.convertible:
            seen = ", ".join(f"{number} {kind}" for kind, number in self.seen.items())
            lines.append(f"other modules, without attention layers that gattn can replace: {seen}")
        return "\n".join(lines)


def convert(model: _Model) -> _Model:
    """Replace PyG's attention layers in a model by gattn's layers with the same parameters.

    The new layers have the same parameter, buffer and submodule objects as the old ones, and the
    same settings, hooks and mode. Optimizers continue to work, and outputs are equal except for the
    differences in the guide (``docs/guide/migrate.md``). The model is changed in place; if it is
    itself such a layer, the new layer is returned. The result is logged (logger ``gattn``, level
    INFO) and returned by :func:`conversion_report`.

    Args:
        model: any module. Only registered submodules are replaced, not layers in a plain list.

    Returns:
        The model.

    Raises:
        TypeError: model is not a ``torch.nn.Module``.

    Warns:
        UserWarning: no layer of the model runs on gattn; the message lists its modules.

    Example:
        >>> import torch, torch_geometric.nn as pyg
        >>> from gattn import conversion_report, convert
        >>> model = pyg.GAT(8, 16, num_layers=2, out_channels=4).eval()
        >>> x, edge_index = torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 2]])
        >>> before = model(x, edge_index)
        >>> model = convert(model)
        >>> torch.allclose(model(x, edge_index), before, atol=1e-5)
        True
        >>> print(conversion_report(model))
        gattn runs 2 attention layers: convs.0 (GATConv), convs.1 (GATConv)
    """
    if not isinstance(model, Module):
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    converted: Any = _replace(model, {})
    report = conversion_report(converted)
    _log.info("%s", report)
    if not report.replaced and not any(map(_is_ours, converted.modules())):
        warnings.warn(
            f"gattn.convert replaced nothing: {report}. Layers in a plain list or dict are not "
            f"registered: use torch.nn.ModuleList or torch.nn.ModuleDict",
            stacklevel=2,
        )
    return converted


def conversion_report(model: Module) -> ConversionReport:
    """Report which attention layers of a model run on gattn, and why the others do not.

    Args:
        model: any module, converted or not.

    Returns:
        The report; before :func:`convert`, it lists which layers it would replace and which not.

    Example:
        >>> import torch, torch_geometric.nn as pyg
        >>> from gattn import conversion_report, convert
        >>> layers = [(pyg.GATConv(8, 8), "x, e -> x"), torch.nn.MultiheadAttention(8, 2)]
        >>> print(conversion_report(convert(pyg.Sequential("x, e", layers))))
        gattn runs 1 attention layer: module_0 (GATConv)
        not replaced, 1: module_1 (gattn has no MultiheadAttention with the same parameters)
    """
    report, seen, wholes = ConversionReport(), Counter[str](), list[str]()
    for path, module in model.named_modules():
        slow = getattr(module, "slow_path_reason", "") if _is_ours(module) else ""
        if slow:
            report.edge_by_edge[path] = slow
        kind, reason = type(module), _why_not(module)
        part = path.startswith(tuple(wholes))
        if isinstance(module, _OURS if part else (*_OURS, *_NEW)) and not reason:
            report.replaced[path] = kind.__name__
        elif kind in TWINS and not reason:
            report.convertible[path] = kind.__name__
        elif part:
            continue
        elif reason:
            report.left[path] = reason
        else:
            seen[kind.__name__] += 1
            continue
        # The report has a separate entry for the local layer of a GPSConv. The GPSConv's own entry
        # describes only its global attention.
        part_path = "attn" if isinstance(module, _GPS) else ""
        wholes.append(f"{path}.{part_path}" if path else part_path)
    report.seen.update(seen)
    return report


_OURS = tuple(TWINS.values())
"""gattn classes that replace PyG classes."""
_NEW = (
    gattn.nn.GraphAttention,
    gattn.nn.LearnedQueryReadout,
    gattn.nn.LinearAttention,
    gattn.nn.MultiheadAttentionBlock,
)
"""gattn's attention modules that have no counterpart in PyG and occur inside other gattn
modules.
"""
_GPS = (pyg.GPSConv, gattn.nn.GPSConv)


def _is_ours(module: Module) -> bool:
    """Return True if a module is an instance of a gattn class or of a subclass of a gattn class."""
    return any(kind.__module__.startswith("gattn.") for kind in type(module).__mro__)


def _replace(module: Module, done: dict[Module, Module]) -> Module:
    """Replace the children of a module in place, and return the replacement of the module itself,
    or the module if there is none.

    ``done`` contains the modules that are already replaced, because one module may occur several
    times.
    """
    if module not in done:
        done[module] = twin = _twin(module)
        for name, child in twin._modules.items():
            if child is not None:
                twin._modules[name] = _replace(child, done)
    return done[module]


def _twin(module: Module) -> Module:
    """Return the gattn module that replaces a PyG module; return the module itself if there is
    none. The PyG module is not changed; its replacement has the same children, or new blocks if
    they are those of the Set Transformer.
    """
    kind = type(module)
    if kind not in TWINS or _why_not(module):
        return module
    twin = pyg_internals.retyped(module, TWINS[kind])
    if kind in (pyg.GraphMultisetTransformer, pyg.SetTransformerAggregation):
        set_attention.use_blocks(twin)
    return twin


def _why_not(module: Any) -> str:
    """Return the reason why a module with attention is not replaced; "" if it can be replaced or
    has no attention.
    """
    kind = type(module)
    if _is_ours(module):
        return _unusual_attention(module)
    if kind in TWINS:
        return _unusual(module)
    for base in TWINS:
        if isinstance(module, base):
            return f"a subclass of {base.__name__} that {_overrides(kind, base)}"
    of_torch = (b for b in kind.__mro__ if b.__module__.startswith(("torch.", "torch_geometric.")))
    name = next((base.__name__ for base in of_torch if base.__name__ in UNSUPPORTED), "")
    if name and (name not in CONDITIONAL or CONDITIONAL[name](module)):
        return f"gattn has no {kind.__name__} with the same parameters"
    return ""


def _overrides(kind: type, known_base: type) -> str:
    """Describe the methods that a subclass overrides; "may change what it computes" if none is
    found.
    """
    overridden: dict[str, None] = {}
    for base in kind.__mro__[: kind.__mro__.index(known_base)]:
        for name, value in vars(base).items():
            # PyG generates methods such as propagate for every subclass. Only a method whose
            # qualified name contains the name of this class was written by the user.
            is_written_here = getattr(value, "__qualname__", "") == f"{base.__qualname__}.{name}"
            if is_written_here and hasattr(known_base, name):
                overridden[name] = None
    return f"overrides {', '.join(overridden)}" if overridden else "may change what it computes"


def _unusual(module: Any) -> str:
    """Return the reason why an instance of a PyG layer cannot be replaced; "" if it can be."""
    if overrides := pyg_internals.overridden(type(module)):
        return overrides
    replaced = [
        name
        for name in vars(module)
        if callable(getattr(type(module), name, None))
        and not pyg_internals.is_bound_by_pyg(module, name)
    ]
    if replaced:
        return f"its {', '.join(replaced)} was replaced on the instance"
    if type(module) in WHOLE:
        for path, part in module.named_modules():
            if part is not module and (reason := _why_not(part)):
                return f"its {path} is not replaced: {reason}"
    return _unusual_attention(module)


def _unusual_attention(module: Any) -> str:
    """Return the reason why the attention of a GPSConv is not replaced; "" if it is, and for any
    other module.
    """
    if not isinstance(module, _GPS):
        return ""
    attn = module.attn
    if isinstance(attn, PerformerAttention):
        return "its attention is a PerformerAttention, which gattn does not implement"
    if isinstance(attn, MultiheadAttention):
        plain = attn.bias_k is None and not attn.add_zero_attn and attn._qkv_same_embed_dim
        options = " and ".join(ATTENTION_OPTIONS)
        return "" if plain else f"its attention has options other than {options}"
    return ""


def _layers(layers: dict[str, str]) -> str:
    return f"{len(layers)} attention layer{'s' * (len(layers) != 1)}"


def _listed(items: dict[str, str]) -> str:
    named = ", ".join(f"{path or 'the model itself'} ({what})" for path, what in items.items())
    return f": {named}" if named else ""
