"""Colours of the theme have enough contrast and are distinguishable."""

import pytest

from gattn.draw.theme import DARK, LIGHT, Theme

# Matrices that simulate how people with protanopia or deuteranopia (red-green blindness) see linear
# RGB colours: Viénot, Brettel and Mollon, "Digital video colourmaps for checking the legibility of
# displays by dichromats" (1999).
BLIND = {
    "protan": ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)),
    "deutan": ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)),
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
}


def _linear(colour: str) -> list[float]:
    parts = [byte / 255 for byte in bytes.fromhex(colour[1:])]
    return [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]


def _contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2, from 1 to 21."""
    weights = (0.2126, 0.7152, 0.0722)
    light = sorted(sum(w * x for w, x in zip(weights, _linear(c))) for c in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
@pytest.mark.parametrize("text", ["ink", "muted", "first"])
def test_text_stands_out_from_what_is_behind_it(theme: Theme, text: str) -> None:
    for behind in (theme.ground, theme.paper):
        assert _contrast(getattr(theme, text), behind) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_best_number_can_be_read(theme: Theme) -> None:
    assert _contrast(theme.ink, theme.best) >= 7
    assert _contrast(theme.second, theme.paper) >= 3


@pytest.mark.parametrize("sight", BLIND)
@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_lines_are_told_apart_with_every_sight(theme: Theme, sight: str) -> None:
    seen = [
        [sum(w * x for w, x in zip(row, _linear(colour))) for row in BLIND[sight]]
        for colour in (theme.first, theme.second)
    ]
    assert sum(abs(a - b) for a, b in zip(*seen)) > 0.25
