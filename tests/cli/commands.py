"""Commands run in this process, which has imported torch already."""

import sys

import pytest

from gattn.cli import main


def run_command(patch, *arguments):
    """Run ``gattn`` with these arguments; gives its exit code."""
    patch.setattr(sys, "argv", ["gattn", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code or 0


def runner(patch, capsys, *product):
    """A function that runs a command, or those of a product: its exit code, and what it wrote."""

    def run(*arguments):
        code = run_command(patch, *product, *arguments)
        out, err = capsys.readouterr()
        return code, err if code else out + err

    return run
