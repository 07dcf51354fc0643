"""How training went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gattn.training.plots.style import render
from gattn.training.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["learning_curve"]


def learning_curve(
    losses: Sequence[Sequence[float]],
    scores: Sequence[Sequence[float]],
    chosen: Sequence[int],
    *,
    score: str = "validation loss",
    dark: bool = False,
) -> bytes:
    """Draw the training loss and the validation metric by epoch, the chosen epochs marked.

    Args:
        losses: of each member of the ensemble, the training loss after every epoch.
        scores: of each member, the validation metric after every epoch.
        chosen: of each member, the epoch whose weights were kept, counted from 1.
        score: the name of the metric.
        dark: for a dark page.

    Returns:
        A picture as PNG. No member: an empty one that says so.

    Raises:
        ValueError: not as many losses, scores and chosen epochs; a chosen epoch that was not run.
        ImportError: matplotlib is not installed.

    >>> learning_curve([[1.0, 0.5, 0.3]], [[1.1, 0.8, 0.9]], [2])[:4]
    b'\\x89PNG'
    """
    if not len(losses) == len(scores) == len(chosen):
        raise ValueError(
            "losses, scores and chosen epochs must be of the same members; got "
            f"{len(losses)}, {len(scores)} and {len(chosen)}"
        )
    for epoch, curve in zip(chosen, scores):
        if not 1 <= epoch <= len(curve):
            raise ValueError(f"a chosen epoch must be between 1 and {len(curve)}; got {epoch}")

    def draw(panels: list[Axes], theme: Theme) -> None:
        upper, lower = panels
        thin = len(losses) > 1
        width, opacity = (0.9, 0.75) if thin else (1.8, 1.0)
        for loss, curve, epoch in zip(losses, scores, chosen):
            for axes, values in ((upper, loss), (lower, curve)):
                epochs = range(1, len(values) + 1)
                axes.plot(epochs, values, color=theme.first, linewidth=width, alpha=opacity)
            lower.axvline(epoch, color=theme.second, linewidth=0.8, linestyle=":")
            lower.plot(epoch, curve[epoch - 1], "o", color=theme.second, markersize=5, zorder=3)
        if losses and all(value > 0 for curve in losses for value in curve):
            upper.set_yscale("log")  # the last epochs matter, and they differ by little
        members = f", {len(losses)} members" if thin else ""
        upper.set_title(f"Training loss{members}" if losses else "No network was trained")
        kept = f"epoch {chosen[0]} kept" if len(set(chosen)) == 1 else "kept epochs marked"
        lower.set_title(f"{score[:1].upper()}{score[1:]}, {kept}" if losses else score)
        lower.set_xlabel("epoch")

    return render(draw, dark=dark, height=4.4, ratios=(1, 1))
