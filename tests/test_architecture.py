"""Modules import downward, without cycles, and use no private name of another module."""

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


# Python documents these methods of named tuples as public.
NAMED_TUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}


class Module(NamedTuple):
    """Parsed module of gattn, with its dotted name."""

    name: str
    tree: ast.Module

    @property
    def imports(self) -> Iterator[tuple[str, str, str]]:
        """Yield each import: the name it binds, the module, and the name in that module."""
        for node in _running(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.asname or alias.name.split(".")[0], alias.name, ""
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{self.name}: imports are absolute"
                for alias in node.names:
                    yield alias.asname or alias.name, node.module or "", alias.name


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node outside of ``if TYPE_CHECKING``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        yield node
        yield from _running(node)


@functools.cache
def modules() -> dict[str, Module]:
    parsed = {}
    for path in sorted((ROOT / "gattn").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        parsed[name] = Module(name, ast.parse(path.read_text("utf-8")))
    return parsed


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _is_compiled(name: str) -> bool:
    return name == "gattn.kernels.cpu._kernels"


def _may_see(here: str, there: str) -> bool:
    """Return True if a module may import another: a private one only within its package."""
    parts = there.split(".")
    for i, part in enumerate(parts):
        owner = ".".join(parts[:i])
        if _is_private(part) and not (here == owner or here.startswith(f"{owner}.")):
            return False
    return True


def _defined(module: Module) -> set[str]:
    """Private names that a module defines: functions, variables, attributes, fields."""
    names = set()
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)  # an entry of __slots__ or an argument of object.__setattr__
    return {name for name in names if _is_private(name)}


def private_uses() -> set[str]:
    """Return ``module: name`` for each use of a private name of another module."""
    every = modules()
    definitions = {name: _defined(module) for name, module in every.items()}
    ours = set().union(*definitions.values())
    uses = set()
    for here, module in every.items():
        aliases = {}
        for bound, there, name in module.imports:
            if there.split(".")[0] != "gattn":
                continue
            full = f"{there}.{name}" if name else there
            is_module = full in every or _is_compiled(full)
            if not _may_see(here, full if is_module else there) or (
                _is_private(name) and not is_module
            ):
                uses.add(f"{here}: {full}")
            aliases[bound] = full
        for node in ast.walk(module.tree):
            if not (isinstance(node, ast.Attribute) and _is_private(node.attr)):
                continue
            if node.attr in NAMED_TUPLE:
                continue
            base = node.value.id if isinstance(node.value, ast.Name) else ""
            if base in aliases:  # The name was imported from another file.
                full = f"{aliases[base]}.{node.attr}"
                if not (full in every or _is_compiled(full)) or not _may_see(here, full):
                    uses.add(f"{here}: {full}")
            elif base in ("self", "cls"):  # an attribute of the class itself or of a base class
                continue
            elif node.attr in ours - definitions[here]:
                # The attribute belongs to an object whose class is in another file.
                uses.add(f"{here}: .{node.attr}")
    return uses


def imports() -> dict[str, set[str]]:
    """Return the modules of gattn that each module imports, at any place in the file."""
    every = modules()
    imported: dict[str, set[str]] = {}
    for here, module in every.items():
        targets = {f"{t}.{n}" if f"{t}.{n}" in every else t for _, t, n in module.imports}
        imported[here] = {target for target in targets if target in every and target != here}
    return imported


def test_private_names_are_used_only_in_their_module() -> None:
    assert sorted(private_uses()) == []


def test_imports_have_no_cycle() -> None:
    graphlib.TopologicalSorter(imports()).prepare()  # raises a CycleError that names the circle
