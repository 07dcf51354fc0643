"""Fixture of the tests of gattn.apps.nodes."""

import pytest

from tests.pictures import leave_blank


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch):
    """Leave the plots of reports empty; the commands' tests in tests/apps/cli draw them."""
    leave_blank(monkeypatch)
