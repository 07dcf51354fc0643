"""Reports without plots, because drawing takes most of the time of a run."""

import pytest

from gattn.molecules.runs import report as molecule_report
from gattn.molecules.runs.atoms import report as atom_report
from gattn.nodes.runs import report as node_report
from gattn.training import run_report
from gattn.training.report import Figure

BLANK = b"<svg/>"


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Make reports contain an empty picture with the same text in place of each plot."""
    for module in (run_report, node_report, molecule_report, atom_report):
        for name in ("themed", "plot_figure"):
            if hasattr(module, name):
                patch.setattr(
                    module, name, lambda plot, alt, caption="": Figure(BLANK, alt, caption)
                )
