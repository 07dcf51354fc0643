"""Helpers that run commands in the test process, which saves importing torch again."""

import sys

import pytest

from gattn.apps.cli import main
from tests.pictures import leave_blank


def run_command(patch, *arguments):
    """Run ``gattn`` with these arguments and return the exit code."""
    patch.setattr(sys, "argv", ["gattn", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code or 0


def runner(patch, capsys, *product):
    """Return a function that runs a command and returns its exit code and its output."""

    def run(*arguments):
        code = run_command(patch, *product, *arguments)
        out, err = capsys.readouterr()
        return code, err if code else out + err

    return run


def train(*arguments):
    """Run a training, whose plots are empty."""
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        assert run_command(patch, *arguments) == 0
