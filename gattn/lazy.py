"""Lazy import of a package's public names when they are first used.

PyTorch, PyTorch Geometric and the packages of the extras take seconds to import. A package of gattn
therefore imports a module only when one of the module's names is used (PEP 562). The names are
listed in the stub file of the package, ``__init__.pyi``, which type checkers and editors read too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType


def attach(
    package: str,
    file: str,
    *,
    extra: str = "",
    prepare: Callable[[object], object] = lambda value: None,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package whose submodules are
    imported lazily.

    Args:
        package: name of the package.
        file: ``__file__`` of the package; the stub file ``__init__.pyi`` is in the same folder.
            Each of its lines ``from module import name`` makes a name available, and its
            ``__all__`` is returned.
        extra: the extra of gattn that installs the packages that the modules import; named in
            errors.
        prepare: called once with each name's value before its first use.
        elsewhere: what to use in place of a name that users of PyG expect here, for errors.

    Returns:
        The two functions and the list.

    Raises:
        AttributeError: raised by ``__getattr__`` for a name that the stub file does not import.
        ImportError: raised by ``__getattr__`` if a package of the extra is missing.
        FileNotFoundError: the package has no stub file.

    Example:
        >>> import gattn.data
        >>> get, _, names = attach("gattn.data", gattn.data.__file__)
        >>> "Split" in names
        True
        >>> get("Split")
        <class 'gattn.data.splits.Split'>
    """
    modules: dict[str, str] = {}
    names: list[str] = []
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.update((alias.name, node.module) for alias in node.names)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)

    def load(name: str) -> object:
        """Import a public name when it is first used, and store it in the package. Raises
        AttributeError for an unknown name, and ImportError that names the extra if another package
        is missing.
        """
        if name not in modules:
            hint = f": {elsewhere[name]}" if name in elsewhere else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        # The requested name is a submodule of the package.
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        try:
            value = getattr(import_module(modules[name]), name)
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").partition(".")[0] == "gattn":
                raise
            message = f'{package} needs {error.name}: pip install "gattn[{extra}]"'
            raise ImportError(message) from error
        prepare(value)
        # The value is stored in the module, so that Python does not call __getattr__ again for it.
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *names}), names
