"""Access to the private parts of PyTorch Geometric (PyG) that gattn uses.

| part of PyG                                         | without it                                |
|-----------------------------------------------------|-------------------------------------------|
| ``MessagePassing._*_forward_hooks``, ``..pre_hooks``| hooks cannot be seen: layers run edge by  |
|                                                     | edge; see ``slow_path_reason``            |
| ``_user_args``, ``_fused_user_args``, ``inspector``,| not copied to a converted layer, but set  |
| ``_edge_user_args``, ``fuse``, ``_explain``         | there by PyG's constructor                |
| ``_jinja_propagate``, ``_jinja_edge_updater`` and   | treated as a user's: layers run edge by   |
| what they replace, ``_orig_*``                      | edge, and ``convert`` keeps PyG's layers  |
| ``BasicGNN._is_conv_to_out``                        | the last layer of GAT concatenates heads  |

``tests/compat/test_pyg.py`` checks these parts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch.nn import Module
from torch_geometric.nn import MessagePassing

_Layer = TypeVar("_Layer", bound=Module)

EDGE_HOOKS = tuple(
    f"_{method}_forward_{when}"
    for method in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for when in ("pre_hooks", "hooks")
)
"""Names of the attributes in which a ``MessagePassing`` layer stores the hooks of its methods."""

CLASS_STATE = (
    "inspector", "fuse", "node_dim", "_user_args", "_fused_user_args", "_edge_user_args",
    "_explain",
)  # fmt: skip
"""Names of the attributes that ``MessagePassing`` computes from the methods of a class, or that its
attribute ``explain`` sets.
"""

BOUND = ("propagate", "edge_updater")
"""Names of the methods that ``MessagePassing`` generates for a subclass or for one instance."""

EQUATIONS = (
    "edge_update", "message", "message_and_aggregate", "aggregate", "update", "get_attention",
    *BOUND,
)  # fmt: skip
"""Names of the message-passing methods that a user may override to change the result of a layer."""

_registered: dict[type, dict[str, Any]] = {}
"""Dictionary from a layer class of PyG or gattn to the functions that implement its methods in
EQUATIONS.
"""


def register_equations(*classes: type) -> None:
    """Store the present methods in EQUATIONS of some classes as the original methods, so that a
    later replacement by a user is detected. Classes that are already stored are left out.
    """
    for cls in classes:
        methods = {name: vars(cls)[name] for name in EQUATIONS if name in vars(cls)}
        _registered.setdefault(cls, methods)


register_equations(MessagePassing)


def equations(cls: type) -> dict[str, Any]:
    """Return the methods in EQUATIONS that instances of a class call, as a dictionary by name."""
    return {name: getattr(cls, name) for name in EQUATIONS if hasattr(cls, name)}


def overridden(cls: type) -> str:
    """Describe which of PyG's message-passing methods (EQUATIONS) a subclass overrides or a user
    has replaced; "" if none.

    Such a method was defined by an unregistered subclass, or it was replaced on a registered class.
    """
    overrides: dict[str, list[str]] = {}
    for name in equations(cls):
        owner = next(base for base in cls.__mro__ if name in vars(base))
        if _registered.get(owner, {}).get(name) is not vars(owner)[name] and not _is_generated(
            owner, name
        ):
            overrides.setdefault(owner.__name__, []).append(name)
    return ", ".join(f"{owner} overrides {', '.join(names)}" for owner, names in overrides.items())


def _is_generated(owner: type, name: str) -> bool:
    """Return True if PyG generated this method for a class from a template."""
    members = vars(owner)
    method = members[name]
    return method is members.get(f"_jinja_{name}") and method is not members.get(f"_orig_{name}")


def replaced_methods(layer: Module) -> list[str]:
    """Return the names of the methods in EQUATIONS that were replaced on a layer by anyone
    except PyG.
    """
    members = vars(layer)
    return [name for name in EQUATIONS if name in members and not is_bound_by_pyg(layer, name)]


def is_bound_by_pyg(layer: Module, name: str) -> bool:
    """Return True if PyG itself stored a method with this name on an instance of a layer."""
    bound, cls = vars(layer)[name], type(layer)
    if name not in BOUND or getattr(bound, "__self__", None) is not layer:
        return False
    generated = (getattr(cls, f"_{prefix}_{name}", None) for prefix in ("orig", "jinja"))
    return getattr(bound, "__func__", name) in generated


def is_original(layer: Module, name: str) -> bool:
    """Return True if a method of a layer is the original one of its class and no hook replaces its
    result. A hook that runs before the method changes only its inputs, so it may exist. The class
    of the layer must have a method of this name.
    """
    owner = next(base for base in type(layer).__mro__ if name in vars(base))
    unchanged = _registered.get(owner, {}).get(name) is vars(owner)[name] or _is_generated(
        owner, name
    )
    hooks = (hook for hook in EDGE_HOOKS if hook.startswith(f"_{name}_") and "_pre_" not in hook)
    has_hook = any(getattr(layer, hook, None) for hook in hooks)
    return unchanged and name not in vars(layer) and not has_hook


def edge_hooks(layer: Module) -> str:
    """Describe the first method of a layer that has a hook, or the first list of hooks that this
    version of PyG lacks; return an empty string if there is neither.
    """
    for name in EDGE_HOOKS:
        hooks = getattr(layer, name, None)
        if hooks is None:
            return f"this version of torch_geometric has no {name}: hooks cannot be seen"
        if len(hooks) > 0:
            return f"a hook on {name[1:].split('_forward_')[0]} needs its edges"
    return ""


class Twin:
    """Base class of modules with the constructor of PyG's module, which is another base class.

    The constructor first checks its arguments by the methods ``_check_arguments`` of the class and
    its base classes, and then calls PyG's constructor and :meth:`_complete`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give gattn's subclass of a PyG module the constructor of that module with the checks."""
        super().__init_subclass__(**kwargs)
        theirs = [base for base in cls.__bases__ if base.__module__.startswith("torch_geometric.")]
        if theirs and cls.__module__.startswith("gattn.") and "__init__" not in vars(cls):
            cls.__init__ = _checked_constructor(theirs[0])

    @staticmethod
    def _check_arguments(arguments: dict[str, Any]) -> None:
        """Check arguments that PyG does not check; they may be changed. A class that checks
        arguments overrides this method, which checks none; its errors are those of the constructor.

        Args:
            arguments: all arguments by name; the entry "kwargs" is a dictionary.
        """

    def _complete(self, arguments: dict[str, Any]) -> None:
        """Replace parts of PyG's module after its constructor, given the caller's arguments."""


def _checked_constructor(theirs: type) -> Callable[..., None]:
    """Return a constructor with the signature of a PyG module's, which checks its arguments, calls
    that constructor, and completes the module; see :class:`Twin`.
    """
    construct, signature = theirs.__init__, inspect.signature(theirs)

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **options: Any) -> None:
        """Check the arguments, with PyG's defaults for those that are not passed, then call PyG's
        constructor. Raises the errors of ``_check_arguments``, and TypeError for an unknown
        argument.
        """
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        arguments: dict[str, Any] = bound.arguments
        passed = dict(arguments)
        for kind in reversed(type(self).__mro__):
            if "_check_arguments" in vars(kind):
                kind._check_arguments(arguments)
        options = arguments.pop("kwargs", {})
        construct(self, **arguments, **options)
        self._complete(passed)

    return checked


def retyped(theirs: Module, kind: type[_Layer]) -> _Layer:
    """Create a module of another class that has the attributes and hooks of a PyG module, and the
    same parameters and submodules (not copies); the PyG module is not changed. Methods that PyG
    bound to the instance are left out.
    """
    twin = kind.__new__(kind)
    state = dict(vars(theirs), _modules=dict(theirs._modules))
    if isinstance(twin, MessagePassing) and isinstance(theirs, MessagePassing):
        # PyG computes these attributes from the methods of a class.
        MessagePassing.__init__(twin, node_dim=0)
        for name in (*CLASS_STATE, *BOUND):
            state.pop(name, None)
        twin.__setstate__(vars(twin) | state)
        twin.explain = theirs.explain
    else:
        twin.__setstate__(state)
    return twin
