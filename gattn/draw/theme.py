"""Colours of plots and of the report page, for light and dark screens.

The hues are from Okabe and Ito, Color Universal Design, 2008. People with any common form of
colour blindness can distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DARK", "LIGHT", "Theme"]


@dataclass(frozen=True)
class Theme:
    """Colours of a page as hexadecimal RGB values; the default values are for a light page.

    Attributes:
        ground: background of the page.
        paper: background of a plot, a table or a card.
        ink: text.
        muted: secondary text and lines, with a contrast of at least 4.5 to 1 to the paper.
        line: grids and borders.
        first: colour of the model.
        second: colour of the baseline beside it, and of warnings.
        best: background of the best number of a row.
    """

    ground: str = "#f5f6f8"
    paper: str = "#ffffff"
    ink: str = "#1c2430"
    muted: str = "#5b6572"
    line: str = "#dde1e7"
    first: str = "#0072b2"
    second: str = "#c24e00"
    best: str = "#e3f0f9"


LIGHT = Theme()

DARK = Theme(
    ground="#12151a",
    paper="#1b2027",
    ink="#e8ebef",
    muted="#a3adb9",
    line="#343c47",
    first="#56b4e9",
    second="#e69f00",
    best="#1d3a4d",
)
