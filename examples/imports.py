"""The modules of an installed package as a network: which imports which, and what each is about.

    python examples/imports.py --out runs/demo     # SymPy, which comes with PyTorch: no download
    gattn nodes train runs/demo/imports.csv --nodes runs/demo/modules.csv --label part --out run

Writes two tables: an edge for each import of one module by another, and of each module its name,
its words and the part of the package that it lies in, such as ``geometry``. Its words are those of
its docstrings and of the names that it defines: neither its path nor what it imports. The last line
of output is JSON: what was found, and the seconds it took.
"""

import argparse
import ast
import csv
import importlib.util
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LEAST = 60
"""Modules of a part: parts of fewer are left out, with their modules."""


def find_modules(package: str) -> dict[str, Path]:
    """The files of a package's modules, without the package itself, by their dotted names."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"there is no package {package!r} here: pip install {package}")
    root = Path(found.submodule_search_locations[0])
    paths = {path.relative_to(root.parent).with_suffix(""): path for path in root.rglob("*.py")}
    names = {".".join(part for part in path.parts if part != "__init__"): path for path in paths}
    return {name: paths[names[name]] for name in sorted(names) if name != package}


def part_of(module: str) -> str:
    """The part of the package that a module lies in: its second name."""
    return module.split(".")[1]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements within one, in order; expressions hold none, and are not looked through."""
    for field in ("body", "handlers", "orelse", "finalbody"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def imports(found: list[ast.stmt], module: str, path: Path) -> Iterator[str]:
    """The dotted names that a module imports, and those that may be attributes of modules."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def words(tree: ast.Module, found: list[ast.stmt]) -> str:
    """The words of a module's docstrings, and of the names of its functions and classes."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in found if isinstance(node, defined)]
    texts = [ast.get_docstring(tree), *map(ast.get_docstring, nodes), *(n.name for n in nodes)]
    told = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", " ".join(text for text in texts if text))
    return " ".join(word.lower() for word in told if len(word) > 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument("--package", default="sympy", help="an installed package")
    parser.add_argument("--least", type=int, default=LEAST, help="modules of a part")
    parser.add_argument("--out", type=Path, default="runs", help="the folder for the two tables")
    args = parser.parse_args()
    start, modules = time.perf_counter(), find_modules(args.package)
    print(f"Reading the {len(modules):,} modules of {args.package}", flush=True)
    sizes = Counter(map(part_of, modules))
    modules = {name: path for name, path in modules.items() if sizes[part_of(name)] >= args.least}
    edges, nodes = [("source", "target")], [("id", "part", "words")]
    for name, path in modules.items():
        tree = ast.parse(path.read_bytes())
        found = list(statements(tree))
        others = set(imports(found, name, path)) & set(modules) - {name}
        edges += [(name, other) for other in sorted(others)]
        nodes.append((name, part_of(name), words(tree, found)))
    args.out.mkdir(parents=True, exist_ok=True)
    for name, rows in {"imports.csv": edges, "modules.csv": nodes}.items():
        with (args.out / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    parts = sorted(set(map(part_of, modules)))
    count = {"modules": len(modules), "imports": len(edges) - 1, "parts": len(parts)}
    print(f"{', '.join(parts)}: {count['modules']:,} modules, {count['imports']:,} imports")
    told = {"package": args.package, "least": args.least, "out": str(args.out), **count}
    print(json.dumps({**told, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
