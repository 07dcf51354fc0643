"""Reports without their pictures, which take most of the time of a run."""

import pytest

from gattn.molecules.runs import report as molecule_report
from gattn.nodes.runs import report as node_report
from gattn.training import run_report
from gattn.training.report import Figure

BLANK = b"<svg/>"


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Have reports hold an empty picture, with its text, in the place of each that they draw."""
    for module in (run_report, node_report, molecule_report):
        patch.setattr(module, "themed", lambda plot, alt, caption="": Figure(BLANK, alt, caption))
