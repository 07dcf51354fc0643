"""Fixtures of the tests of the kernels."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def small_tiles() -> Iterator[None]:
    """Choose tiles so small that small graphs have split rows and several programs."""
    from gattn.kernels.triton import tiles

    with tiles.override(split=4, rows=4, unroll=2):
        yield
