"""Write the page of all settings from their declarations.

    python -m docs.tools.settings

writes docs/guide/settings.md.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from gattn.apps.cli.molecules import FILE_ONLY
from gattn.apps.fitting.settings import declared
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
    """Return the page: a table for each panel of options of the commands."""
    lines = [
        "# All settings",
        "",
        "A setting has the same name everywhere: the setting `learning_rate` in `config.toml` is",
        "the parameter `learning_rate` of the estimators and the option `--learning-rate` of the",
        "command. In `config.toml`, the settings of the network and its training are in the table",
        "`[model]`.",
        "",
        "These settings of `gattn molecules train` have no option. Write them to a TOML file, and",
        f"pass it with `--config`: {', '.join(f'`{name}`' for name in FILE_ONLY)}.",
    ]
    for command, kinds in COMMANDS.items():
        settings = [setting for kind in kinds for setting in declared(kind).values()]
        order = list(dict.fromkeys(setting.panel for setting in settings))
        settings = sorted(settings, key=lambda setting: order.index(setting.panel))
        lines += ["", f"## gattn {command}"]
        for panel, group in groupby(settings, key=lambda setting: setting.panel):
            lines += ["", f"### {panel}", "", "| Setting | What it does | Values | Default |"]
            lines += ["|---|---|---|---|"]
            for setting in group:
                cells = (f"`{setting.name}`", setting.description, setting.expected)
                cells = (*cells, setting.default_text)
                lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
