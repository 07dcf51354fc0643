"""How a signed weight looks: orange above zero, blue with an outline below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["DARK", "LIGHT", "Colour", "Palette", "radius"]

Colour: TypeAlias = "tuple[float, float, float]"


@dataclass(frozen=True)
class Palette:
    """The colours of a picture.

    Orange and blue differ for every common colour blindness, and letters of ``ink`` are readable on
    both. A grey printer makes them alike: there the outline tells the sign.

    Attributes:
        ground: of the picture.
        ink: of bonds, letters and text.
        positive: the fullest of weights above zero.
        negative: the fullest of those below.
        outline: drawn around the disc of a negative weight.
    """

    ground: Colour
    ink: Colour
    positive: Colour
    negative: Colour
    outline: Colour

    def disc(self, weight: float) -> Colour:
        """The colour of a weight between -1 and 1; near the ground around zero, never that."""
        strong = self.positive if weight > 0 else self.negative
        share = _FAINTEST + (1 - _FAINTEST) * min(abs(weight), 1.0)
        red, green, blue = (
            below + share * (above - below) for below, above in zip(self.ground, strong)
        )
        return red, green, blue


LIGHT = Palette(
    ground=(1.0, 1.0, 1.0),
    ink=(0.0, 0.0, 0.0),
    positive=(0.96, 0.58, 0.18),
    negative=(0.40, 0.66, 0.90),
    outline=(0.06, 0.25, 0.53),
)
DARK = Palette(
    ground=(0.106, 0.125, 0.153),  # that of a card on a report's dark page
    ink=(0.92, 0.93, 0.95),
    positive=(0.66, 0.33, 0.02),
    negative=(0.10, 0.38, 0.66),
    outline=(0.58, 0.79, 1.00),
)

_FAINTEST = 0.35
_SMALLEST, _LARGEST = 0.18, 0.56


def radius(weight: float) -> float:
    """The radius of a weight's disc, in Angstrom; bonds are 1.5 long, so that no two touch."""
    return _SMALLEST + (_LARGEST - _SMALLEST) * min(abs(weight), 1.0) ** 0.5
