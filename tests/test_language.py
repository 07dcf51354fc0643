"""Check names and docstrings against the section "Language" of docs/contributing/rules.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("gattn", "tests", "benchmarks", "examples", "docs/tools", ".ci")
PARTICIPLES = {
    *("found", "made", "kept", "told", "given", "held", "known", "taken"),
    *("wanted", "came", "asked", "said", "own", "placed", "meant", "learned"),
}
OPENINGS = ("Of", "As many", "What", "How", "Where", "Which", "Is", "Room")


def files() -> list[Path]:
    """Return the Python files that are checked."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every variable, parameter and attribute that is set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.lineno, node.name


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every docstring, including those below assignments."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for previous, statement in zip((None, *node.body), node.body, strict=False):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str() as text)) if (
                        previous is None or isinstance(previous, (ast.Assign, ast.AnnAssign))
                    ):
                        yield statement.lineno, text.strip()


def problems(source: str) -> list[str]:
    """Return a message for each name and docstring that breaks the rules."""
    tree = ast.parse(source)
    return [
        *(
            f"line {line}: a participle is no name: {name}"
            for line, name in names(tree)
            if name.strip("_") in PARTICIPLES
        ),
        *(
            f"line {line}: docstring has one word: {text}"
            for line, text in docstrings(tree)
            if len(text.split()) < 2
        ),
        *(
            f"line {line}: docstring begins with {opening!r}: {text.splitlines()[0]}"
            for line, text in docstrings(tree)
            for opening in OPENINGS
            if text.startswith(f"{opening} ")
        ),
    ]


def test_names_and_docstrings_are_plain() -> None:
    messages = [
        f"{path.relative_to(ROOT)}: {message}"
        for path in files()
        for message in problems(path.read_text("utf-8"))
    ]
    assert messages == []


def test_listed_folders_exist() -> None:
    for folder in FOLDERS:
        assert list((ROOT / folder).rglob("*.py")), folder


BAD = {
    "found = 1": "line 1: a participle is no name: found",
    "def f(x, *, given): pass": "line 1: a participle is no name: given",
    "self._kept = 1": "line 1: a participle is no name: _kept",
    "for own, x in y: pass": "line 1: a participle is no name: own",
    "import numpy as made": "line 1: a participle is no name: made",
    "with a as told: pass": "line 1: a participle is no name: told",
    "f(held := 2)": "line 1: a participle is no name: held",
    'def f():\n    """Rows."""': "line 2: docstring has one word: Rows.",
    'x = 1\n"""Of a graph, with which it is kept."""': (
        "line 2: docstring begins with 'Of': Of a graph, with which it is kept."
    ),
    'class A:\n    """What it is."""': "line 2: docstring begins with 'What': What it is.",
}


def test_problems_are_reported() -> None:
    for source, message in BAD.items():
        assert problems(source) == [message]


def test_other_names_and_docstrings_are_accepted() -> None:
    source = (
        '"""Offsets of the rows."""\nx.founder = owner = a.found\nf(known=1)\nprint("""Of""")\n'
    )
    assert problems(source) == []
