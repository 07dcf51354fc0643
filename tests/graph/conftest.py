"""Fixtures of the tests of graphs."""

import pytest

from gattn.kernels import cpu
from gattn.layout import layout as reference


@pytest.fixture
def sorts(monkeypatch):
    """Count the layouts that the kernels or the reference build."""
    count = []

    def counted(build):
        return lambda *args: count.append(args) or build(*args)

    monkeypatch.setattr(cpu, "build_layout", counted(cpu.build_layout))
    monkeypatch.setattr(reference, "build", counted(reference.build))
    return count
