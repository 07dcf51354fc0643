"""Typer application of the command ``gattn``, with the groups ``molecules``, ``nodes`` and
``links`` and the command ``serve``.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gattn import __version__
from gattn.apps.cli.help import CommandGroup
from gattn.apps.cli.links import app as links
from gattn.apps.cli.molecules import app as molecules
from gattn.apps.cli.nodes import app as nodes
from gattn.apps.cli.serve import serve

app = CommandGroup("Train graph attention models on tables of molecules or networks, and use them.")
app.add_typer(molecules, name="molecules")
app.add_typer(nodes, name="nodes")
app.add_typer(links, name="links")
app.command(no_args_is_help=True)(serve)


def _print_version(requested: bool) -> None:
    """Print the version and end the command, if the option was passed."""
    if requested:
        print(f"gattn {__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Define the options of the command ``gattn`` itself."""
