"""Every Python block of the documentation runs; the site builds without a warning."""

import ast
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import gattn
import gattn.apps.cli
from docs.tools import settings as settings_page
from gattn.apps.cli.app import app
from tests.pictures import leave_blank

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def trains(page: Path) -> bool:
    """Return True if the blocks of a page train models, which takes seconds."""
    return any(
        ".fit(" in code if language == "python" else code.startswith("gattn ")
        for language, code in FENCE.findall(page.read_text())
    )


def run_command(line: str) -> None:
    """Run a shell line that calls gattn in this process; a screening starts no other processes."""
    words = shlex.split(line)
    if words[1:3] == ["molecules", "predict"]:
        words += ["--workers", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as done:
            gattn.apps.cli.main()
    assert not done.value.code, line


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if trains(page) else [])
        for page in PAGES
        if "```python" in page.read_text()
    ],
    ids=lambda page: str(page.relative_to(ROOT / "docs")),
)
def test_code_blocks_of_each_page_run_without_error(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page run one after the other, as a reader would type them.

    Of the blocks of shell commands, only those that call gattn are run.
    """
    monkeypatch.chdir(tmp_path)
    leave_blank(monkeypatch)
    torch.manual_seed(0)
    module = types.ModuleType(f"page_{page.stem}")
    # PyG looks up the classes of a layer in its module.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for number, (language, block) in enumerate(FENCE.findall(page.read_text())):
        if language == "python":
            exec(compile(block, f"{page.name}, block {number}", "exec"), vars(module))
        elif language == "sh" and block.startswith("gattn "):
            for line in block.replace("\\\n", "").splitlines():
                run_command(line)


def test_pages_of_the_documentation_write_files_of_different_names() -> None:
    pattern = r'(?:--out |to_csv\("|open\(")([a-z][\w.]*)'
    names = [name for page in PAGES for name in {*re.findall(pattern, page.read_text())}]
    assert sorted(names) == sorted(set(names))


def test_settings_page_equals_the_output_of_docs_tools_settings() -> None:
    """The command ``python -m docs.tools.settings`` writes the page."""
    assert settings_page.PAGE.read_text("utf-8") == settings_page.page()


def test_llms_txt_names_only_pages_and_commands_that_exist() -> None:
    text = (ROOT / "docs" / "llms.txt").read_text()
    pages = re.findall(r"\]\((\S+)\)", text)
    assert [page for page in pages if (ROOT / "docs" / page) in PAGES] == pages
    groups: Any = typer.main.get_command(app)
    for line in re.findall(r"`gattn ([a-z].*?)`", text):
        command, words = groups, shlex.split(line)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for param in command.params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= options


def names_in(path: Path) -> set[str]:
    """Return the dotted names of the functions and classes in a file, nested ones included."""
    if path.suffix == ".cpp":
        return set(re.findall(r"^\w[\w:<>]* (\w+)\(", path.read_text(), re.MULTILINE))
    kinds, names = (ast.FunctionDef, ast.ClassDef), set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, kinds):
                names.add(prefix + child.name)
                name = f"{prefix}{child.name}."
            visit(child, name)

    visit(ast.parse(path.read_text()), "")
    return names


def test_page_of_call_paths_names_only_files_and_functions_that_exist() -> None:
    text = (ROOT / "docs" / "paths.md").read_text()
    rows = re.findall(r"^\| `([\w/]+\.(?:py|cpp))` \| (.*?) \|", text, re.MULTILINE)
    assert len(rows) > 40
    missing = [
        f"{path}: {name}"
        for path, functions in rows
        for name in re.findall(r"`([\w.]+)`", functions)
        if name not in names_in(ROOT / "gattn" / path)
    ]
    assert not missing


def test_every_documentation_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    there = {str(page.relative_to(ROOT / "docs")) for page in PAGES}
    assert set(re.findall(r"(\S+\.md)$", text, re.MULTILINE)) == there


def test_newest_changelog_section_has_the_version_of_the_package() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, date = next(heading for heading in headings if heading[0] != "Unreleased")
    assert version == gattn.__version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)


def test_every_name_of_nn_is_on_one_page_of_the_reference() -> None:
    pages = (ROOT / "docs" / "api" / "nn").glob("*.md")
    listed = [
        name for page in pages for name in re.findall(r"^ {8}- (\w+)$", page.read_text(), re.M)
    ]
    assert sorted(listed) == sorted(gattn.nn.__all__)
