"""Reports without plots, because drawing takes most of the time of a run."""

from typing import NoReturn

import pytest

from gattn.apps.molecules.runs import report as molecule_report
from gattn.apps.nodes.runs import report as node_report
from gattn.apps.report.plots import style
from gattn.apps.report.report import Figure

BLANK = b"<svg/>"


def leave_blank(patch: pytest.MonkeyPatch) -> None:
    """Make reports contain an empty picture with the same text in place of each plot.

    A plot that is drawn in another way is an error, so that no run takes ten times as long
    unnoticed.
    """

    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError("leave_blank does not replace this plot")

    patch.setattr(style.Plot, "pngs", lambda plot: (BLANK, BLANK))
    for name in ("render", "render_both"):
        patch.setattr(style, name, refuse)
    for module in (node_report, molecule_report):
        patch.setattr(module, "themed", lambda draw, alt, caption="": Figure(BLANK, alt, caption))
