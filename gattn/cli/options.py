"""Options whose default stands in the settings, and is None to the command."""

from __future__ import annotations

from typing import Any

from typer import Option

__all__ = ["option"]


def option(help: str, default: object, *names: str, panel: str | None = None) -> Any:
    """An option that says its default; Typer would write a text for one in parentheses.

    Args:
        help: what it is, in a sentence.
        default: what holds where it is not given, as shown.
        names: as ``--directed/--undirected``; otherwise that of the parameter.
        panel: the heading that it stands under.
    """
    shown = rf"{help} [dim]\[default: {default}][/dim]"
    return Option(*names, help=shown, show_default=False, rich_help_panel=panel)
