"""How a signed weight looks: orange above zero, blue with an outline below it."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["OUTLINE", "Colour", "colour", "radius"]

Colour: TypeAlias = "tuple[float, float, float]"

# Orange and blue differ for every common colour blindness; both are light enough for black
# letters on them. A grey printer makes them alike: there the outline tells the sign.
_POSITIVE: Colour = (0.96, 0.58, 0.18)
_NEGATIVE: Colour = (0.40, 0.66, 0.90)
OUTLINE: Colour = (0.06, 0.25, 0.53)
"""Drawn around the disc of a negative weight."""

_FAINTEST = 0.35
_SMALLEST, _LARGEST = 0.18, 0.56


def colour(weight: float) -> Colour:
    """The colour of a weight between -1 and 1; paler near zero, never white."""
    strong = _POSITIVE if weight > 0 else _NEGATIVE
    share = _FAINTEST + (1 - _FAINTEST) * min(abs(weight), 1.0)
    red, green, blue = (1 - share * (1 - channel) for channel in strong)
    return red, green, blue


def radius(weight: float) -> float:
    """The radius of a weight's disc, in Angstrom; bonds are 1.5 long, so that no two touch."""
    return _SMALLEST + (_LARGEST - _SMALLEST) * min(abs(weight), 1.0) ** 0.5
