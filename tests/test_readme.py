"""The README's Python blocks run, one after the other."""

import re
from pathlib import Path

import pytest
import tomlkit

ROOT = Path(__file__).parents[1]
INSTALL = re.compile(r"pip install -e [\"']\.\[([a-z,]+)\]")
LINK = re.compile(r"(?:\[[^\]]+\]\(|src=\")([^)#:\"]+)[)\"]")


def test_readme_is_a_landing_page() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_readme_blocks_run() -> None:
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", "docs/design.md", "docs/design_apps.md", "examples/README.md"],
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    missing = [link for link in LINK.findall(path.read_text())
               if not (path.parent / link).exists()]  # fmt: skip
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
def test_one_line_installs_all_commands(page: str) -> None:
    lines = INSTALL.findall((ROOT / page).read_text())
    extras = [set().union(*map(extras_of, line.split(","))) for line in lines]
    assert {"molecules", "nodes", "serve"} <= extras[0]
