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
OPENINGS = ("Of ", "As many ", "What ", "How ", "Where ", "Which ", "Is ", "Room ")


def files() -> list[Path]:
    """Return the Python files that are checked."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def names(node: ast.AST) -> Iterator[str]:
    """Yield the variable, parameter or attribute that a node sets, if it sets one."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.arg(arg=name) | ast.alias(asname=str(name)):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)):
            yield name


def docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of the docstrings of a node and of its assignments."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        for previous, statement in zip((None, *node.body), node.body, strict=False):
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as text)) if (
                    previous is None or isinstance(previous, (ast.Assign, ast.AnnAssign))
                ):
                    yield statement.lineno, text.strip()


def problems(source: str) -> Iterator[str]:
    """Yield a message for each name and docstring that breaks the rules."""
    for node in ast.walk(ast.parse(source)):
        for name in names(node):
            if name.strip("_") in PARTICIPLES:
                yield f"line {node.lineno}: a participle is no name: {name}"
        for line, text in docstrings(node):
            if len(text.split()) < 2:
                yield f"line {line}: docstring has one word: {text}"
            elif text.startswith(OPENINGS):
                yield f"line {line}: docstring begins with a word of OPENINGS: {text[:70]}"


def test_names_and_docstrings_follow_the_rules_of_language() -> None:
    paths = files()
    assert {path.relative_to(ROOT).parts[0] for path in paths} == {
        folder.split("/")[0] for folder in FOLDERS
    }
    messages = [
        f"{path.relative_to(ROOT)}: {message}"
        for path in paths
        for message in problems(path.read_text("utf-8"))
    ]
    assert messages == []
