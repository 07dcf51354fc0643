"""Replace PyG's attention layers inside a model by gattn's, which take over their parameters."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch_geometric.nn as pyg
from torch.nn import Module, MultiheadAttention
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.models import attentive_fp

import gattn.nn
from gattn.models import AttentiveFP
from gattn.nn.gps_conv import ATTENTION_OPTIONS

_Model = TypeVar("_Model", bound=Module)
_log = logging.getLogger("gattn")

TWINS: dict[type[Module], type[Module]] = {
    pyg.AGNNConv: gattn.nn.AGNNConv,
    pyg.FAConv: gattn.nn.FAConv,
    pyg.GATConv: gattn.nn.GATConv,
    pyg.GATv2Conv: gattn.nn.GATv2Conv,
    pyg.GPSConv: gattn.nn.GPSConv,
    pyg.HANConv: gattn.nn.HANConv,
    pyg.HGTConv: gattn.nn.HGTConv,
    pyg.RGATConv: gattn.nn.RGATConv,
    pyg.SuperGATConv: gattn.nn.SuperGATConv,
    pyg.TransformerConv: gattn.nn.TransformerConv,
    attentive_fp.GATEConv: gattn.nn.GATEConv,
    pyg.AttentiveFP: AttentiveFP,
}
"""PyG's layers and models that have one with the same attributes and parameters here."""


def _attentional(theirs: Any) -> Module:
    gate = theirs.gate_mlp if theirs.gate_nn is None else theirs.gate_nn
    return gattn.nn.AttentionalReadout(gate, theirs.mlp if theirs.nn is None else theirs.nn)


def _set_transformer(theirs: Any) -> Module:
    return gattn.nn.SetTransformerReadout(
        theirs.channels,
        theirs.num_seed_points,
        len(theirs.encoders),
        len(theirs.decoders),
        theirs.heads,
        theirs.concat,
        theirs.layer_norm,
        theirs.dropout,
    )


REBUILT: dict[type[Module], Callable[[Any], Module]] = {
    pyg.AttentionalAggregation: _attentional,
    pyg.SetTransformerAggregation: _set_transformer,
}
"""How to build the readout that takes the parameters of PyG's."""

WITHOUT_TWIN = (
    pyg.GeneralConv,
    pyg.GraphMultisetTransformer,
    pyg.HypergraphConv,
    pyg.PointTransformerConv,
    MultiheadAttention,
)
"""Modules with attention that stay as they are."""


@dataclass(frozen=True)
class ConversionReport:
    """Which of a model's attention layers are gattn's, and why others are not.

    Args:
        replaced: class by path of the layers that run on gattn.
        left: reason by path of those that do not, and that :func:`convert` leaves.
        convertible: class by path of PyG's layers that :func:`convert` would replace.
        seen: number by class of the other modules; told where there is none of the above.

    Example:
        >>> from gattn import ConversionReport
        >>> print(ConversionReport({"conv1": "GATConv"}, {"pool": "no SetPooling in gattn"}))
        gattn runs 1 attention layer: conv1 (GATConv)
        left as they were, 1: pool (no SetPooling in gattn)
    """

    replaced: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    convertible: dict[str, str] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"gattn runs {_layers(self.replaced)}{_listed(self.replaced)}"]
        if self.convertible:
            found = f"{_layers(self.convertible)}{_listed(self.convertible)}"
            lines.append(f"gattn.convert would replace {found}")
        if self.left:
            lines.append(f"left as they were, {len(self.left)}{_listed(self.left)}")
        if self.seen and not self.replaced and not self.convertible:
            seen = ", ".join(f"{number} {kind}" for kind, number in self.seen.items())
            lines.append(f"seen, without attention that gattn knows: {seen}")
        return "\n".join(lines)


def convert(model: _Model) -> _Model:
    """Replace PyG's attention layers inside a model by gattn's, which take over their parameters.

    The new layers hold the very same parameters, buffers and submodules as those that they
    replace, and their settings, hooks and mode: optimizers go on, outputs stay. The model is
    changed in place; where it is itself such a layer, the new one is returned. What was replaced
    and what was left is logged (logger ``gattn``, level INFO), and told by
    :func:`conversion_report`.

    Args:
        model: any module. Layers reached by an attribute other than a registered submodule, as
            in a plain list, are not found.

    Returns:
        The model.

    Raises:
        TypeError: for anything but a module.

    Warns:
        UserWarning: nothing in the model runs on gattn; it tells what was seen.

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
            f"found: use torch.nn.ModuleList or torch.nn.ModuleDict",
            stacklevel=2,
        )
    return converted


def conversion_report(model: Module) -> ConversionReport:
    """Tell which attention layers of a model are gattn's, and why others are not.

    Args:
        model: any module, converted or not.

    Returns:
        The report; before :func:`convert`, it names what that would replace and leave.

    Example:
        >>> import torch, torch_geometric.nn as pyg
        >>> from gattn import conversion_report, convert
        >>> layers = [(pyg.GATConv(8, 8), "x, e -> x"), torch.nn.MultiheadAttention(8, 2)]
        >>> print(conversion_report(convert(pyg.Sequential("x, e", layers))))
        gattn runs 1 attention layer: module_0 (GATConv)
        left as they were, 1: module_1 (gattn has no MultiheadAttention of the same parameters)
    """
    report, seen = ConversionReport(), Counter[str]()
    for path, module in model.named_modules():
        kind = type(module)
        if isinstance(module, _OURS):
            report.replaced[path] = kind.__name__
        elif _is_part(path, report):
            continue
        elif reason := _why_not(module):
            report.left[path] = reason
        elif kind in TWINS or kind in REBUILT:
            report.convertible[path] = kind.__name__
        else:
            seen[kind.__name__] += 1
    report.seen.update(seen)
    return report


_OURS = (*TWINS.values(), gattn.nn.AttentionalReadout, gattn.nn.SetTransformerReadout)


def _is_ours(module: Module) -> bool:
    """Whether a module is of gattn, or of a subclass of one."""
    return any(kind.__module__.startswith("gattn.") for kind in type(module).__mro__)


def _replace(module: Module, done: dict[Module, Module]) -> Module:
    """The twin of a module, or itself, with its children replaced; one twin for one module."""
    if module not in done:
        done[module] = twin = _twin(module)
        for name, child in twin._modules.items():
            if child is not None:
                twin._modules[name] = _replace(child, done)
    return done[module]


def _twin(module: Module) -> Module:
    kind = type(module)
    if _why_not(module):
        return module
    if kind in TWINS:
        return _adopt(module, TWINS[kind])
    return _rebuild(module, REBUILT[kind]) if kind in REBUILT else module


def _adopt(theirs: Module, kind: type[Module]) -> Module:
    """An instance with the attributes of PyG's layer, which are those of ours."""
    twin = kind.__new__(kind)
    own: dict[str, Any] = {}
    if isinstance(twin, MessagePassing):
        MessagePassing.__init__(twin, aggr=None, node_dim=0)
        own = {name: vars(twin)[name] for name in _OF_THE_CLASS}
        twin.__dict__.clear()
    twin.__dict__.update({name: v for name, v in vars(theirs).items() if name not in _BOUND})
    for name in ("_parameters", "_buffers", "_modules"):
        twin.__dict__[name] = dict(vars(theirs)[name])
    twin.__dict__.update(own)
    for name in ("_cached_edge_index", "_cached_adj_t"):
        if name in vars(twin):  # in PyG's form; ours is made again at the first forward
            twin.__dict__[name] = None
    if isinstance(twin, MessagePassing) and isinstance(theirs, MessagePassing):
        twin.explain = theirs.explain
    return twin


_OF_THE_CLASS = (
    "inspector",
    "fuse",
    "node_dim",
    "_user_args",
    "_fused_user_args",
    "_edge_user_args",
    "_explain",
)
"""What PyG's base class reads from the equations of a class, or sets with its own switch."""
_BOUND = ("propagate", "edge_updater")
"""Methods that PyG's base class binds to an instance in some modes."""


def _rebuild(theirs: Module, build: Callable[[Any], Module]) -> Module:
    """A new readout that holds the parameters, the hooks and the mode of PyG's."""
    with torch.random.fork_rng(devices=[]):
        twin = build(theirs)
    held = dict(theirs.named_parameters(remove_duplicate=False))
    for path, _ in list(twin.named_parameters(remove_duplicate=False)):
        owner, _, name = path.rpartition(".")
        twin.get_submodule(owner)._parameters[name] = held[path]
    twin.__dict__.update({k: v for k, v in vars(theirs).items() if "_hooks" in k})
    for module in set(twin.modules()).difference(theirs.modules()):
        module.training = theirs.training
    return twin


def _why_not(module: Any) -> str:
    """Why attention stays as it is; empty for what can be replaced, and without attention."""
    kind = type(module)
    if _is_ours(module):
        return ""
    if kind in TWINS or kind in REBUILT:
        return _unusual(module)
    for known in (*TWINS, *REBUILT):
        if isinstance(module, known):
            return f"a subclass of {known.__name__}, which {_own(kind, known)}"
    if isinstance(module, WITHOUT_TWIN):
        return f"gattn has no {kind.__name__} of the same parameters"
    return ""


def _own(kind: type, known: type) -> str:
    """What a subclass does by itself: the methods of the known class that it overrides."""
    overridden: dict[str, None] = {}
    for base in kind.__mro__[: kind.__mro__.index(known)]:
        for name, value in vars(base).items():
            # PyG writes methods of its own, as propagate, into every class that it meets.
            written_there = getattr(value, "__qualname__", "") == f"{base.__qualname__}.{name}"
            if written_there and hasattr(known, name):
                overridden[name] = None
    return f"overrides {', '.join(overridden)}" if overridden else "may change what it computes"


def _unusual(module: Any) -> str:
    replaced = [
        name
        for name in vars(module)
        if name not in _BOUND and callable(getattr(type(module), name, None))
    ]
    if replaced:
        return f"its {', '.join(replaced)} was replaced on the instance"
    attn = getattr(module, "attn", None)
    if isinstance(module, pyg.GPSConv) and isinstance(attn, MultiheadAttention):
        plain = attn.bias_k is None and not attn.add_zero_attn and attn._qkv_same_embed_dim
        options = " and ".join(ATTENTION_OPTIONS)
        return "" if plain else f"its attention has other options than {options}"
    return ""


def _is_part(path: str, report: ConversionReport) -> bool:
    """Whether this is a part of what was told of: of a layer, or of a GPSConv its attention."""
    owner, _, name = path.rpartition(".")
    wholes = (*report.left, *(p for p, kind in report.convertible.items() if kind != "GPSConv"))
    inside = any(path.startswith(f"{whole}." if whole else "") for whole in wholes)
    told = report.replaced.get(owner) or report.convertible.get(owner)
    return inside or (name == "attn" and told == "GPSConv")


def _layers(found: dict[str, str]) -> str:
    return f"{len(found)} attention layer{'s' * (len(found) != 1)}"


def _listed(items: dict[str, str]) -> str:
    named = ", ".join(f"{path or 'the model itself'} ({what})" for path, what in items.items())
    return f": {named}" if named else ""
