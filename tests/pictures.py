"""Reports without plots, because drawing takes most of the time of a run."""

import pytest

from gattn.apps.molecules.runs import stages as molecule_stages
from gattn.apps.nodes.runs import train as node_stages
from gattn.apps.report import run_plots

BLANK = b"<svg/>"


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Make reports contain an empty picture with the same text in place of each plot."""
    for module, name in (
        (run_plots, "render"), (node_stages, "draw_network"), (molecule_stages, "draw_molecule")
    ):  # fmt: skip
        patch.setattr(module, name, lambda *arguments, **options: BLANK)
