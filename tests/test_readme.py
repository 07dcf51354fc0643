"""The README's Python blocks run, one after the other."""

import re
from pathlib import Path

import pytest
import tomlkit

ROOT = Path(__file__).parents[1]
INSTALL = re.compile(r"pip install -e [\"']\.\[([a-z,]+)\]")
LINK = re.compile(r"(?:\[[^\]]+\]\(|src=\")([^)#:\"]+)[)\"]")


def test_code_blocks_of_the_readme_run_without_error() -> None:
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)


def test_links_between_pages_lead_to_files_that_exist() -> None:
    pages = [ROOT / page for page in ("README.md", "CONTRIBUTING.md", "examples/README.md")]
    pages += (ROOT / "docs").glob("design*.md")
    missing = [
        f"{page}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    assert missing == []


def extras_of(name: str) -> set[str]:
    """Return an extra and the extras that it contains."""
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text())["project"].unwrap()
    needs = " ".join(project["optional-dependencies"][name])
    inner = [
        part for group in re.findall(r"gattn\[([a-z,]+)\]", needs) for part in group.split(",")
    ]
    return {name}.union(*map(extras_of, inner))


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_first_install_command_includes_the_extras_of_all_applications(page: str) -> None:
    lines = INSTALL.findall((ROOT / page).read_text())
    extras = [set().union(*map(extras_of, line.split(","))) for line in lines]
    assert {"molecules", "nodes", "serve"} <= extras[0]
