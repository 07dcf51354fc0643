"""Page on the migration from Chemprop: every flag has a row, and every named option exists."""

import re
from pathlib import Path

import typer.main

from gattn.apps.cli.molecules import app

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "chemprop.md"
OPTION = re.compile(r"--[a-z][a-z0-9-]*")


def rows() -> list[list[str]]:
    """Return the cells of the two tables of Chemprop's options."""
    text = GUIDE.read_text("utf-8")
    begin = text.index("| `chemprop train` (2.3)")
    end = text.index("The models of the two libraries differ")
    lines = [line for line in text[begin:end].splitlines() if line.startswith("|")]
    return [line.strip("|").split("|") for line in lines if not line.startswith("|--")]


def options() -> set[str]:
    """Return the options of all commands of gattn molecules."""
    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    return {name for command in commands for each in command.params for name in each.opts}


def test_every_option_on_the_migration_page_exists() -> None:
    named = {option for _, ours in rows() for option in OPTION.findall(ours)}
    assert named - options() == set()
