"""The commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

import gattn
from gattn.cli.molecules import app as molecules
from gattn.cli.nodes import app as nodes

__all__ = ["app"]

app = typer.Typer(
    help="Graph attention, from a table to a trained model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(molecules, name="molecules")
app.add_typer(nodes, name="nodes")


def _tell_version(wanted: bool) -> None:
    if wanted:
        print(f"gattn {gattn.__version__}")
        raise typer.Exit


@app.callback()
def _commands(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Show it and exit."),
    ] = False,
) -> None:
    """Keep the name of a group in the command, however many groups there are."""
