"""What gattn uses of PyTorch Geometric that it does not promise to keep, in one place.

| of PyG                                              | without it                                |
|-----------------------------------------------------|-------------------------------------------|
| ``MessagePassing._*_forward_hooks``, ``..pre_hooks``| hooks cannot be seen: layers run edge by  |
|                                                     | edge; ``slow_path_reason`` says so        |
| ``_user_args``, ``_fused_user_args``, ``inspector``,| they are not carried to a converted layer,|
| ``_edge_user_args``, ``fuse``, ``_explain``         | but set there by PyG's constructor        |
| ``_jinja_propagate``, ``_jinja_edge_updater`` and   | taken for a user's own: layers run edge   |
| what they replace, ``_orig_*``                      | by edge, and ``convert`` leaves PyG's     |
| ``SoftmaxAggregation._init_t``                      | a converted one is reset to t = 1         |
| ``aggregation_resolver`` reads the names of         | it does not find readouts by name; they   |
| ``torch_geometric.nn.aggr``                         | are handed over as modules                |

``tests/compat/test_pyg.py`` and ``tests/test_registration.py`` watch over them.
"""

from __future__ import annotations

from typing import Any

from torch.nn import Module
from torch_geometric.nn import MessagePassing, aggr

EDGE_HOOKS = tuple(
    f"_{method}_forward_{when}"
    for method in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("pre_hooks", "hooks")
)
"""The dictionaries in which a ``MessagePassing`` layer keeps the hooks on its equations."""

CLASS_STATE = (
    "inspector",
    "fuse",
    "node_dim",
    "_user_args",
    "_fused_user_args",
    "_edge_user_args",
    "_explain",
)
"""What ``MessagePassing`` reads from the equations of a class, or sets with its own switch."""

FIRST_VALUES = ("_init_t",)
"""What ``SoftmaxAggregation`` keeps of a setting for ``reset_parameters``, as gattn's does."""

BOUND = ("propagate", "edge_updater")
"""Methods that ``MessagePassing`` writes into its subclasses, and binds to some instances."""

EQUATIONS = (
    "edge_update",
    "message",
    "message_and_aggregate",
    "aggregate",
    "update",
    "get_attention",
    *BOUND,
)
"""What a user may override to change what a layer computes along its edges."""

_known: dict[type, dict[str, Any]] = {}
"""The equations of each layer of PyG and gattn, as its own class defines them."""


def register_equations(*kinds: type) -> None:
    """Take the equations that these classes define, as they are now, for their own."""
    for kind in kinds:
        _known[kind] = {name: vars(kind)[name] for name in EQUATIONS if name in vars(kind)}


register_equations(MessagePassing)


def equations(kind: type) -> dict[str, Any]:
    """The equations that instances of a class run, its own or inherited."""
    return {name: getattr(kind, name) for name in EQUATIONS if hasattr(kind, name)}


def overridden(kind: type) -> str:
    """Which equations come from a class that is not known, or were replaced there, in words."""
    found: dict[str, list[str]] = {}
    for name in equations(kind):
        owner = next(base for base in kind.__mro__ if name in vars(base))
        if _known.get(owner, {}).get(name) is not vars(owner)[name] and not _wrote(owner, name):
            found.setdefault(owner.__name__, []).append(name)
    return ", ".join(f"{owner} overrides {', '.join(names)}" for owner, names in found.items())


def _wrote(owner: type, name: str) -> bool:
    """Whether PyG wrote this method of a class, from a template, in the place of an inherited."""
    own = vars(owner)
    return own[name] is own.get(f"_jinja_{name}") and own[name] is not own.get(f"_orig_{name}")


def replaced_methods(layer: Module) -> list[str]:
    """Which equations somebody replaced on the instance; PyG binds its own there, too."""
    own = vars(layer)
    return [name for name in EQUATIONS if name in own and not is_bound_by_pyg(layer, name)]


def is_bound_by_pyg(layer: Module, name: str) -> bool:
    """Whether an attribute of an instance is the method that PyG itself bound to it."""
    bound, kind = vars(layer)[name], type(layer)
    if name not in BOUND or getattr(bound, "__self__", None) is not layer:
        return False
    written = (getattr(kind, f"_{how}_{name}", None) for how in ("orig", "jinja"))
    return getattr(bound, "__func__", name) in written


def is_own(layer: Module, name: str) -> bool:
    """Whether a layer runs an equation as its class of PyG or gattn defines it, without a hook."""
    owner = next(base for base in type(layer).__mro__ if name in vars(base))
    is_original = _known.get(owner, {}).get(name) is vars(owner)[name] or _wrote(owner, name)
    hooks = (hook for hook in EDGE_HOOKS if hook.startswith(f"_{name}_") and "_pre_" not in hook)
    has_hook = any(getattr(layer, hook, None) for hook in hooks)
    return is_original and name not in vars(layer) and not has_hook


def edge_hooks(layer: Module) -> str:
    """Which equation of a layer has a hook, in words; empty where none has."""
    for name in EDGE_HOOKS:
        hooks = getattr(layer, name, None)
        if hooks is None:
            return f"this torch_geometric keeps no {name}: hooks cannot be seen"
        if len(hooks) > 0:
            return f"a hook on {name[1:].split('_forward_')[0]} wants to see its edges"
    return ""


def class_state(layer: Module) -> dict[str, Any]:
    """What PyG's base class set on a layer from its class, and not from its settings."""
    return {name: vars(layer)[name] for name in CLASS_STATE if name in vars(layer)}


def name_aggregation(name: str, kind: type[Module]) -> None:
    """Have PyG's resolver make a readout by this name: of the very class, not of one derived."""

    def make(_: type, *args: Any, **options: Any) -> Module:
        return kind(*args, **options)

    setattr(aggr, name, type(name, (aggr.Aggregation,), {"__new__": make}))
