"""Plot of the training and validation losses in each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gattn.apps.report.plots.style import note, png
from gattn.draw.theme import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gattn.apps.fitting.types import History


def learning_curve(histories: Sequence[History]) -> bytes:
    """Plot the training and validation losses of each epoch, and mark the selected epoch of each
    network.

    Args:
        histories: the training history of each member of the ensemble.

    >>> from gattn.apps.fitting.types import EpochRecord, History
    >>> records = EpochRecord(0, 1.0, 1.1, 1e-3, 2.5), EpochRecord(1, 0.5, 0.8, 1e-3, 2.5)
    >>> learning_curve([History(records, chosen=1)])[:4]
    b'\\x89PNG'
    """

    def draw(panels: list[Axes], theme: Theme) -> None:
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        upper, lower = panels
        several = len(histories) > 1
        width, opacity = (0.9, 0.75) if several else (1.8, 1.0)
        for history in histories:
            epochs = [record.epoch + 1 for record in history.records]
            train = [record.train_loss for record in history.records]
            validation = [record.validation_loss for record in history.records]
            for axes, curve in ((upper, train), (lower, validation)):
                axes.plot(epochs, curve, color=theme.first, linewidth=width, alpha=opacity)
                axes.axvline(history.chosen + 1, color=theme.second, linewidth=0.8, linestyle=":")
            chosen = history.chosen + 1, validation[history.chosen]
            lower.plot(*chosen, "o", color=theme.second, markersize=5)
        members = f" of {len(histories)} members" if several else ""
        upper.set_title(f"Training loss{members}")
        lower.set_title("Validation loss, with the chosen epoch marked")
        lower.set_xlabel("epoch")
        lower.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        if not histories:
            return note(upper, "no network was trained", theme)
        losses = [record.train_loss for history in histories for record in history.records]
        if min(losses) > 0 and max(losses) > 5 * min(losses):
            # The losses have a logarithmic axis only if they differ by more than a factor of 5.
            # Otherwise this axis would have few ticks.
            upper.set_yscale("log")
            upper.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            upper.yaxis.set_major_formatter("{x:g}")
            upper.yaxis.set_minor_formatter(NullFormatter())

    return png(draw, ratios=(1, 1))
