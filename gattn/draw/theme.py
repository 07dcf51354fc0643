"""Colours of all pictures and pages, for light and dark screens.

The hues are from Okabe and Ito, Color Universal Design, 2008. People with any common form of
colour blindness can distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        positive: colour of the largest positive weight of an atom; ``ink`` is readable on it.
        negative: colour of the most negative weight.
        outline: line around the disc of a negative weight, which marks it in greyscale print.
    """

    ground: str = "#f5f6f8"
    paper: str = "#ffffff"
    ink: str = "#1c2430"
    muted: str = "#5b6572"
    line: str = "#dde1e7"
    first: str = "#0072b2"
    second: str = "#b84a00"
    best: str = "#e3f0f9"
    positive: str = "#e69f00"
    negative: str = "#56b4e9"
    outline: str = "#0f4085"


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
    positive="#a85405",
    negative="#1a61a8",
    outline="#94c9ff",
)

PALETTE = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933", "#882255",
)  # fmt: skip
"""Colours of classes that colour-blind readers can distinguish; the last two are from Paul Tol."""


def mixture(colour: str, ground: str = "#000000", share: float = 1.0) -> tuple[float, ...]:
    """Return red, green and blue from 0 to 1 of a colour that is mixed with a background.

    >>> mixture("#ff0000"), mixture("#ff0000", "#ffffff", 0.0)
    ((1.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    """
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(ground[1:]))
    return tuple((share * above + (1 - share) * below) / 255 for above, below in pairs)
