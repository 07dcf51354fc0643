"""Axes of the figures that a test draws."""

from gattn.draw import figure


def drawn_axes(monkeypatch, module):
    """Return a list that receives the axes of every figure that a module of gattn.draw draws."""
    seen = []

    def watch(draw, **how):
        return figure.render(
            lambda panels, theme: [seen.extend(panels), draw(panels, theme)][1], **how
        )

    monkeypatch.setattr(module, "render", watch)
    return seen
