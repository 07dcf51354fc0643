"""What gattn uses of PyTorch Geometric that it does not promise to keep, in one place.

| of PyG                                              | without it                                |
|-----------------------------------------------------|-------------------------------------------|
| ``MessagePassing._*_forward_hooks``, ``..pre_hooks``| hooks cannot be seen: layers run edge by  |
|                                                     | edge, and their ``why_not_fused`` says so |
| ``_user_args``, ``_fused_user_args``, ``inspector``,| they are not carried to a converted layer,|
| ``_edge_user_args``, ``fuse``, ``_explain``         | but set there by PyG's constructor        |

``tests/test_pyg_internals.py`` takes each of them away.
"""

from __future__ import annotations

from typing import Any

from torch.nn import Module

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

BOUND = ("propagate", "edge_updater")
"""Methods that ``MessagePassing`` binds to an instance in some modes."""


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
