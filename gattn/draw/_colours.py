"""Colours of weights: orange for positive, blue for negative, green for weights without a sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["DARK", "LIGHT", "Colour", "Palette", "radius"]

Colour: TypeAlias = "tuple[float, float, float]"


@dataclass(frozen=True)
class Palette:
    """Set of colours for a picture.

    People with any common colour blindness can distinguish orange and blue, and letters in ``ink``
    are
    readable on all colours. In greyscale print the outline marks the negative weights.

    Attributes:
        ground: background of the picture.
        ink: colour of bonds, letters and text.
        positive: colour of the largest positive weight.
        negative: colour of the most negative weight.
        unsigned: colour of the largest weight if weights cannot be negative, as for attention.
        outline: line around the disc of a negative weight.
    """

    ground: Colour
    ink: Colour
    positive: Colour
    negative: Colour
    unsigned: Colour
    outline: Colour

    def disc(self, weight: float, *, signed: bool = True) -> Colour:
        """Return the colour of a weight from -1 to 1, or of an unsigned weight from 0 to 1.

        The colour of a small weight is close to the background, but still distinguishable from it.
        """
        strong = self.unsigned if not signed else self.positive if weight > 0 else self.negative
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
    unsigned=(0.20, 0.70, 0.52),
    outline=(0.06, 0.25, 0.53),
)
DARK = Palette(
    ground=(0.106, 0.125, 0.153),  # background colour of the report's boxes in dark mode
    ink=(0.92, 0.93, 0.95),
    positive=(0.66, 0.33, 0.02),
    negative=(0.10, 0.38, 0.66),
    unsigned=(0.00, 0.42, 0.31),
    outline=(0.58, 0.79, 1.00),
)

_FAINTEST = 0.35
_SMALLEST, _LARGEST = 0.18, 0.56


def radius(weight: float) -> float:
    """Return the radius of the disc for a weight, in Angstrom. It is less than half of a bond,
    which is 1.5 Angstrom long.
    """
    return _SMALLEST + (_LARGEST - _SMALLEST) * min(abs(weight), 1.0) ** 0.5
