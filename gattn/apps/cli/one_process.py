"""Check that a command which runs in one process was not started by torchrun."""

from __future__ import annotations

import typer

from gattn.apps.runtime.processes import process_count


def check_one_process(context: typer.Context) -> None:
    """Raise an error if torchrun started several processes of a command that must run in one
    process.

    Args:
        context: the group of commands.

    Raises:
        ValueError: torchrun started several processes.
    """
    count, command = process_count(), context.invoked_subcommand
    if count > 1:
        raise ValueError(
            f"gattn {context.info_name} {command} runs in one process, but torchrun started "
            f"{count}: start it without torchrun"
        )
