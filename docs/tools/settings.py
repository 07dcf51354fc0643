"""Write the page of all settings from their declarations.

    python -m docs.tools.settings

writes docs/guide/settings.md.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from gattn.apps.cli.help import SHORT
from gattn.apps.cli.molecules import FILE_ONLY
from gattn.apps.fitting.settings import Setting, declared
from gattn.apps.links.runs.config import LinkRunSettings
from gattn.apps.links.settings import LinkSettings
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.molecules.screening.settings import ScreenSettings
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.settings import NodeSettings
from gattn.apps.serve.settings import ServeSettings

PAGE = Path(__file__).parents[1] / "guide" / "settings.md"
COMMANDS = {
    "molecules train": (RunSettings, MoleculeSettings),
    "molecules predict": (ScreenSettings,),
    "nodes train": (NodeRunSettings, NodeSettings),
    "links train": (LinkRunSettings, LinkSettings),
    "serve": (ServeSettings,),
}


def page() -> str:
    """Return the page: a table for each command, and for commands with common settings."""
    lines = [
        "# All settings",
        "",
        "A setting has the same name everywhere: the setting `learning_rate` in `config.toml` is",
        "the parameter `learning_rate` of the estimators and the option `--learning-rate` of the",
        "command. In `config.toml`, the settings of the network and its training are in the table",
        "`[model]`. A table whose title names several commands has settings of all of them.",
        "Commands with further options name `--help-all` in their `--help`. Short forms:",
        f"{', '.join(f'`{short}` for `--{name}`' for name, short in SHORT.items())}.",
        "",
        "These settings of `gattn molecules train` have no option. Write them to a TOML file, and",
        f"pass it with `--config`: {', '.join(f'`{name}`' for name in FILE_ONLY)}.",
    ]
    owners: dict[str, list[str]] = {}
    for command, kinds in COMMANDS.items():
        for setting in chain.from_iterable(declared(kind).values() for kind in kinds):
            owners.setdefault(_row(setting), []).append(command)
    tables: dict[str, list[str]] = {}
    for row, commands in owners.items():
        tables.setdefault(f"gattn {', '.join(commands)}", []).append(row)
    for title, rows in tables.items():
        lines += ["", f"## {title}", "", "| Setting | What it does | Values | Default |"]
        lines += ["|---|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _row(setting: Setting) -> str:
    cells = (f"`{setting.name}`", setting.description, setting.expected, setting.default_text)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
