"""Replace PyG's attention layers inside a model by gattn's, which take over their parameters."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch_geometric.nn as pyg
from torch.nn import Module, MultiheadAttention
from torch_geometric.nn import MessagePassing, attention
from torch_geometric.nn.attention import PerformerAttention
from torch_geometric.nn.models import attentive_fp
from torch_geometric.nn.models import sgformer as pyg_sgformer

import gattn.nn
from gattn.compat import pyg as pyg_internals
from gattn.models import AttentiveFP, Polynormer, SGFormer, sgformer
from gattn.nn.conv.gps_conv import ATTENTION_OPTIONS

_Model = TypeVar("_Model", bound=Module)
_log = logging.getLogger("gattn")

OF_THE_SAME_ATTRIBUTES: dict[type[Module], type[Module]] = {
    attention.PolynormerAttention: gattn.nn.PolynormerAttention,
    attention.SGFormerAttention: gattn.nn.SGFormerAttention,
    pyg.Polynormer: Polynormer,
    pyg.SGFormer: SGFormer,
    pyg_sgformer.GraphModule: sgformer.GraphModule,
    pyg_sgformer.SGModule: sgformer.SGModule,
}
"""PyG's modules all of whose attributes are those that a module here has."""

TWINS: dict[type[Module], type[Module]] = {
    pyg.AGNNConv: gattn.nn.AGNNConv,
    pyg.FAConv: gattn.nn.FAConv,
    pyg.GATConv: gattn.nn.GATConv,
    pyg.GATv2Conv: gattn.nn.GATv2Conv,
    pyg.GPSConv: gattn.nn.GPSConv,
    pyg.GeneralConv: gattn.nn.GeneralConv,
    pyg.HANConv: gattn.nn.HANConv,
    pyg.HEATConv: gattn.nn.HEATConv,
    pyg.HGTConv: gattn.nn.HGTConv,
    pyg.HypergraphConv: gattn.nn.HypergraphConv,
    pyg.PointTransformerConv: gattn.nn.PointTransformerConv,
    pyg.RGATConv: gattn.nn.RGATConv,
    pyg.ResGatedGraphConv: gattn.nn.ResGatedGraphConv,
    pyg.Set2Set: gattn.nn.Set2Set,
    pyg.SoftmaxAggregation: gattn.nn.SoftmaxAggregation,
    pyg.SuperGATConv: gattn.nn.SuperGATConv,
    pyg.TransformerConv: gattn.nn.TransformerConv,
    attentive_fp.GATEConv: gattn.nn.GATEConv,
    pyg.AttentiveFP: AttentiveFP,
    **OF_THE_SAME_ATTRIBUTES,
}
"""PyG's layers and models that have one with the same attributes and parameters here."""


pyg_internals.register_equations(*TWINS)


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


def _multiset(theirs: Any) -> Module:
    return gattn.nn.GraphMultisetTransformer(
        theirs.channels,
        theirs.k,
        len(theirs.encoders),
        theirs.heads,
        theirs.layer_norm,
        theirs.dropout,
    )


REBUILT: dict[type[Module], Callable[[Any], Module]] = {
    pyg.AttentionalAggregation: _attentional,
    pyg.GraphMultisetTransformer: _multiset,
    pyg.SetTransformerAggregation: _set_transformer,
}
"""How to build the readout that takes the parameters of PyG's."""

WITHOUT_TWIN = frozenset(
    {
        "ASAPooling",
        "CuGraphGATConv",
        "DNAConv",
        "DenseGATConv",
        "FeaStConv",
        "JumpingKnowledge",
        "LPAttLayer",
        "MemPooling",
        "MultiheadAttention",
        "MultiheadAttentionBlock",
        "PatchTransformerAggregation",
        "PerformerAttention",
        "QFormer",
        "ViS_MP",
    }
)
"""Names of torch's and PyG's modules with attention that stay as they are."""

WHERE_ASKED: dict[str, Callable[[Any], bool]] = {
    "JumpingKnowledge": lambda theirs: theirs.mode == "lstm",
}
"""Those of them that attend only where they were made so."""


@dataclass(frozen=True)
class ConversionReport:
    """Which of a model's attention layers are gattn's, and why others are not.

    Args:
        replaced: class by path of the layers that run on gattn.
        left: reason by path of those that do not, and that :func:`convert` leaves.
        convertible: class by path of PyG's layers that :func:`convert` would replace.
        seen: number by class of the other modules; told where there is none of the above.
        edge_by_edge: reason by path of gattn's layers that do not run on the kernels, as their
            ``slow_path_reason`` has it.

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
    edge_by_edge: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"gattn runs {_layers(self.replaced)}{_listed(self.replaced)}"]
        if self.edge_by_edge:
            slow = _listed(self.edge_by_edge)
            lines.append(f"edge by edge, as PyG's and as slowly, {len(self.edge_by_edge)}{slow}")
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

    The new layers hold the very same parameters, buffers and submodules as those that they replace,
    and their settings, hooks and mode: optimizers go on, and outputs stay but for what the guide
    lists (``docs/guide/migrate.md``, "What differs"). The model is changed in place; where it is
    itself such a layer, the new one is returned. What was replaced and what was left is logged
    (logger ``gattn``, level INFO), and told by :func:`conversion_report`.

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
    report, seen, wholes = ConversionReport(), Counter[str](), list[str]()
    for path, module in model.named_modules():
        slow = getattr(module, "slow_path_reason", "") if _is_ours(module) else ""
        if slow:
            report.edge_by_edge[path] = slow
        kind, reason = type(module), _why_not(module)
        part = path.startswith(tuple(wholes))
        if isinstance(module, _OURS if part else (*_OURS, *_NEW)) and not reason:
            report.replaced[path] = kind.__name__
        elif kind in (*TWINS, *REBUILT) and not reason:
            report.convertible[path] = kind.__name__
        elif part:
            continue
        elif reason:
            report.left[path] = reason
        else:
            seen[kind.__name__] += 1
            continue
        told = "attn" if isinstance(module, _GPS) else ""  # its local layer is told of, too
        wholes.append(f"{path}.{told}" if path else told)
    report.seen.update(seen)
    return report


_OURS = (
    *TWINS.values(),
    gattn.nn.AttentionalReadout,
    gattn.nn.GraphMultisetTransformer,
    gattn.nn.SetTransformerReadout,
)
"""What takes the place of PyG's."""
_NEW = (
    gattn.nn.GraphAttention,
    gattn.nn.LearnedQueryReadout,
    gattn.nn.LinearAttention,
    gattn.nn.MultiheadAttentionBlock,
)
"""What PyG does not have, and other modules of gattn are made of."""
_GPS = (pyg.GPSConv, gattn.nn.GPSConv)


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
    if kind in OF_THE_SAME_ATTRIBUTES:
        return _retype(module, OF_THE_SAME_ATTRIBUTES[kind])
    if kind in TWINS:
        return _adopt(module, TWINS[kind])
    return _rebuild(module, REBUILT[kind]) if kind in REBUILT else module


def _retype(theirs: Module, kind: type[Module]) -> Module:
    """A module that has the attributes of PyG's, and its very hooks; its children may change."""
    twin = kind.__new__(kind)
    vars(twin).update(vars(theirs), _modules=dict(theirs._modules))
    return twin


def _adopt(theirs: Module, kind: type[Module]) -> Module:
    """A layer made with the settings of PyG's, which holds what that one holds."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        twin = kind(**_settings(theirs, kind))
    own, given = vars(twin), vars(theirs)
    for name in ("_parameters", "_buffers", "_modules"):
        absent = {key: None for key, value in own[name].items() if value is None}
        own[name] = {**absent, **given[name]}
        for key in given[name]:
            own.pop(key, None)  # an attribute would hide what is registered
    own["_non_persistent_buffers_set"] = given["_non_persistent_buffers_set"]
    kept = (*_CHANGED_LATER, *pyg_internals.FIRST_VALUES)
    own.update({key: given[key] for key in kept if key in given})
    of_pyg = (*pyg_internals.CLASS_STATE, *pyg_internals.BOUND)
    for key, value in given.items():  # what somebody hung on it
        if not key.startswith("_") and key not in of_pyg and not hasattr(twin, key):
            own[key] = value
    _hand_over_hooks(theirs, twin)
    if isinstance(twin, MessagePassing) and isinstance(theirs, MessagePassing):
        twin.explain = theirs.explain
    return twin


_CHANGED_LATER = ("training", "aggr", "flow", "norm_with_batch")
"""Settings that no argument of ours gives back as they are."""


def _settings(theirs: Any, kind: type[Module]) -> dict[str, Any]:
    """The arguments of a constructor: PyG's layers keep them under their names, but for these.

    A width that only a map knows may be any where the map was exchanged: the map is handed over.
    """
    held: dict[str, Any] = dict(vars(theirs))
    if kind is gattn.nn.GATEConv:
        source, out = theirs.att_r.shape[1], theirs.att_l.shape[1]
        edge = max(getattr(theirs.lin1, "in_features", source) - source, 0)
        held.update(in_channels=source, out_channels=out, edge_dim=edge)
    elif kind is gattn.nn.GPSConv:
        held.update(conv=None, norm=None)  # these are handed over
    elif kind is gattn.nn.GeneralConv:
        held.update(
            l2_normalize=theirs.normalize_l2, bias=getattr(theirs.lin_msg, "bias", None) is not None
        )
    elif kind is gattn.nn.HEATConv:
        held.update(
            num_node_types=getattr(theirs.hetero_lin, "num_types", 1),
            num_edge_types=getattr(theirs.edge_type_emb, "num_embeddings", 1),
            edge_type_emb_dim=getattr(theirs.edge_type_emb, "embedding_dim", 1),
            edge_dim=getattr(theirs.edge_attr_emb, "in_channels", 1),
            edge_attr_emb_dim=getattr(theirs.edge_attr_emb, "out_channels", 1),
            bias=getattr(theirs.lin, "bias", None) is not None,
        )
    elif kind is gattn.nn.HGTConv:
        held.update(metadata=(theirs.node_types, theirs.edge_types))
    elif kind is gattn.nn.TransformerConv:
        held.update(bias=getattr(theirs.lin_key, "bias", None) is not None)
    else:
        held.update(bias=getattr(theirs, "bias", None) is not None)
    return {name: held[name] for name in inspect.signature(kind).parameters if name in held}


def _hand_over_hooks(theirs: Module, twin: Module) -> None:
    """Let a module call the very hooks of another: a handle removes them from both."""
    vars(twin).update({key: value for key, value in vars(theirs).items() if "_hook" in key})


def _rebuild(theirs: Module, build: Callable[[Any], Module]) -> Module:
    """A new readout that holds the parameters, the hooks and the mode of PyG's."""
    with torch.random.fork_rng(devices=[]):
        twin = build(theirs)
    held = dict(theirs.named_parameters(remove_duplicate=False))
    for path, _ in list(twin.named_parameters(remove_duplicate=False)):
        owner, _, name = path.rpartition(".")
        twin.get_submodule(owner)._parameters[name] = held[path]
    _hand_over_hooks(theirs, twin)
    for module in set(twin.modules()).difference(theirs.modules()):
        module.training = theirs.training
    return twin


def _why_not(module: Any) -> str:
    """Why attention stays as it is; empty for what can be replaced, and without attention."""
    kind = type(module)
    if _is_ours(module):
        return _unusual_attention(module)
    if kind in TWINS or kind in REBUILT:
        return _unusual(module)
    for known in (*TWINS, *REBUILT):
        if isinstance(module, known):
            return f"a subclass of {known.__name__}, which {_own(kind, known)}"
    of_torch = (b for b in kind.__mro__ if b.__module__.startswith(("torch.", "torch_geometric.")))
    known = next((base.__name__ for base in of_torch if base.__name__ in WITHOUT_TWIN), "")
    if known and (known not in WHERE_ASKED or WHERE_ASKED[known](module)):
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
    if type(module) in OF_THE_SAME_ATTRIBUTES:  # which call their parts as ours are called
        for path, part in module.named_modules():
            if part is not module and (reason := _why_not(part)):
                return f"its {path} stays, {reason}"
    return _unusual_attention(module)


def _unusual_attention(module: Any) -> str:
    """Why the attention inside a GPSConv is not gattn's."""
    if not isinstance(module, _GPS):
        return ""
    attn = module.attn
    if isinstance(attn, PerformerAttention):
        return "its attention is a PerformerAttention, which gattn has not"
    if isinstance(attn, MultiheadAttention):
        plain = attn.bias_k is None and not attn.add_zero_attn and attn._qkv_same_embed_dim
        options = " and ".join(ATTENTION_OPTIONS)
        return "" if plain else f"its attention has other options than {options}"
    return ""


def _layers(found: dict[str, str]) -> str:
    return f"{len(found)} attention layer{'s' * (len(found) != 1)}"


def _listed(items: dict[str, str]) -> str:
    named = ", ".join(f"{path or 'the model itself'} ({what})" for path, what in items.items())
    return f": {named}" if named else ""
