"""Fixtures of the tests of gattn molecules."""

import pytest

from tests.apps.cli.commands import run_command, runner
from tests.apps.cli.molecule_table import GP, NETWORK, TABLE
from tests.pictures import leave_blank
from tests.zoo import build_once


@pytest.fixture
def gattn(request, monkeypatch, capsys):
    """Return a function that runs a command and returns its exit code and output.

    The first word of the command is molecules, or the PRODUCT of the module. Plots are empty,
    because drawing takes most of the time; only a run of the fixture ``folder`` contains them.
    """
    leave_blank(monkeypatch)
    product = getattr(request.module, "PRODUCT", "molecules")
    return runner(monkeypatch, capsys, product)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Folder with a table and two runs: regression by a network, classification by a kernel."""
    return build_once(tmp_path_factory, "molecules", _train)


def _train(folder):
    data = folder / "data.csv"
    data.write_text(TABLE + "bad(,1.0,idle,3\nCCOCC,,,3\nCCOCCC,high,idle,3\n")
    for name, options in (
        ("numbers", ["--target", "y", *NETWORK]),
        ("classes", ["--target", "kind", *GP]),
    ):
        command = ["molecules", "train", data, "--out", folder / name, *options]
        with pytest.MonkeyPatch.context() as patch:
            if name == "numbers":
                leave_blank(patch)
            assert run_command(patch, *command) == 0
