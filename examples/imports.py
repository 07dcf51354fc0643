"""Write the imports between the modules of an installed package, and their words, as a network.

    python examples/imports.py --out runs/demo     # SymPy, which comes with PyTorch: no download
    gattn nodes train runs/demo/imports.csv --nodes runs/demo/modules.csv --label part --out run

Writes two tables: an edge for each import between two modules, and for each module its name, its
words and its part of the package, such as ``geometry``. The words come from the docstrings and from
the names of functions and classes, but not from the path or the imports. The last line of output is
JSON: the counts and the time in seconds.
"""

import argparse
import ast
import contextlib
import csv
import importlib.util
import json
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

LEAST = 60
"""Minimum number of modules of a part. Smaller parts and their modules are left out."""


def find_modules(package: str) -> dict[str, Path]:
    """Return the files of a package's modules by dotted name, without the package itself."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"package {package!r} is not installed: pip install {package}")
    root = Path(spec.submodule_search_locations[0])
    paths = {path.relative_to(root.parent).with_suffix(""): path for path in root.rglob("*.py")}
    names = {".".join(part for part in path.parts if part != "__init__"): path for path in paths}
    return {name: paths[names[name]] for name in sorted(names) if name != package}


def part_of(module: str) -> str:
    """Return the part of the package that contains a module: its second name."""
    return module.split(".")[1]


def parse(modules: dict[str, Path]) -> dict[str, ast.Module]:
    """Parse the files of modules, without those in the syntax of another Python version."""
    trees = {}
    for name, path in modules.items():
        # A package may contain files for newer Python versions, which raise a SyntaxError here.
        with contextlib.suppress(SyntaxError):
            trees[name] = ast.parse(path.read_bytes())
    return trees


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements inside a node in order. Expressions are not searched."""
    for field in ("body", "handlers", "orelse", "finalbody"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def imports(body: list[ast.stmt], module: str, path: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports, including possible attributes of modules."""
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def words(tree: ast.Module, body: list[ast.stmt]) -> str:
    """Return the words of a module's docstrings and of its functions' and classes' names."""
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in body if isinstance(node, defined)]
    texts = [ast.get_docstring(tree), *map(ast.get_docstring, nodes), *(n.name for n in nodes)]
    tokens = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", " ".join(text for text in texts if text))
    return " ".join(word.lower() for word in tokens if len(word) > 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    parser.add_argument(
        "--package",
        default="sympy",
        help="name of an installed package, whose modules become nodes",
    )
    parser.add_argument(
        "--least",
        type=int,
        default=LEAST,
        help="minimum number of modules of a part of the package that is kept",
    )
    parser.add_argument(
        "--out", type=Path, default="runs", help="folder to which the two tables are written"
    )
    args = parser.parse_args()
    start, modules = time.perf_counter(), find_modules(args.package)
    print(f"Reading the {len(modules):,} modules of {args.package}", flush=True)
    sizes = Counter(map(part_of, modules))
    modules = {name: path for name, path in modules.items() if sizes[part_of(name)] >= args.least}
    trees = parse(modules)
    if skipped := len(modules) - len(trees):
        version = platform.python_version()
        print(f"Left out {skipped:,} of them, whose syntax Python {version} cannot read")
    edges, nodes = [("source", "target")], [("id", "part", "words")]
    for name, tree in trees.items():
        body = list(statements(tree))
        others = set(imports(body, name, modules[name])) & set(trees) - {name}
        edges += [(name, other) for other in sorted(others)]
        nodes.append((name, part_of(name), words(tree, body)))
    args.out.mkdir(parents=True, exist_ok=True)
    for name, rows in {"imports.csv": edges, "modules.csv": nodes}.items():
        with (args.out / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    parts = sorted(set(map(part_of, trees)))
    count = {
        "modules": len(trees),
        "skipped": skipped,
        "imports": len(edges) - 1,
        "parts": len(parts),
    }
    print(f"{', '.join(parts)}: {count['modules']:,} modules, {count['imports']:,} imports")
    result = {"package": args.package, "least": args.least, "out": str(args.out), **count}
    print(json.dumps({**result, "seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
