"""Pictures of the report page of a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from gattn.apps.report import plots
from gattn.apps.report.report import Figure

if TYPE_CHECKING:
    from torch import Tensor

    from gattn.apps.fitting.calibration import Reliability

# Maximum number of targets with separate plots.
SHOWN = 12


class Words(NamedTuple):
    """Words that a report uses for targets and for predicted probabilities.

    Attributes:
        several: plural noun of the columns, for example "targets".
        event: the event whose probability is predicted, for example "class 1".
    """

    several: str
    event: str


TARGETS = Words("targets", "class 1")
CLASSES = Words("classes", "the predicted class")


def part_figures(
    task: Literal["regression", "classification", "multiclass"],
    y: Tensor,
    mean: Tensor,
    std: Tensor | None,
    names: Sequence[str],
    reliability: Reliability,
    *,
    words: Words = TARGETS,
    logarithmic: Sequence[bool] = (),
) -> dict[str, Figure]:
    """Draw the plots of one part: predictions against labels, and calibration.

    Args:
        task: type of the predictions.
        y: [k, t] measured values or classes, NaN for missing labels.
        mean: [k, t] predicted values, or probabilities of class 1.
        std: [k, t] standard deviations of the predicted values; None for no error bars. They are
            ignored for classes.
        names: names of the t targets, with their units.
        reliability: calibration curve of the intervals or of the probabilities.
        words: words for several targets and for the event of a probability.
        logarithmic: for each target whether predictions against values are plotted on logarithmic
            axes; empty for none.

    Returns:
        Figures by file name without its suffix: ``calibration``; for numbers ``parity``, or with
        several targets ``parity-1`` and so on, for at most twelve targets; for classes ``roc`` of
        all targets together.
    """
    name = names[0] if len(names) == 1 else f"{len(names)} {words.several}"
    figures: dict[str, Figure] = {}
    if task != "regression":
        figures["roc"] = Figure(
            plots.roc(y, mean, name=name, several=words.several),
            f"True positive rate against false positive rate of {name}",
        )
        figures["calibration"] = Figure(
            plots.reliability(reliability, name=name, event=words.event),
            f"Observed frequency of {words.event} of {name}, by predicted probability",
            "On the dashed line, a predicted probability of 30 % occurs in 30 % of the rows.",
        )
        return figures
    for i, target in enumerate(names[:SHOWN]):
        end = f"-{i + 1}" if len(names) > 1 else ""
        bars = None if std is None else std[:, i]
        is_log = bool(logarithmic) and logarithmic[i]
        figures[f"parity{end}"] = Figure(
            plots.parity(y[:, i], mean[:, i], bars, name=target, logarithmic=is_log),
            f"Predicted against measured values of {target}",
        )
    figures["calibration"] = Figure(
        plots.coverage(reliability, name=name),
        f"Fraction of the values inside the intervals of {name}, by coverage",
        "If the intervals are exact, 90 % of the points are in the grey band.",
    )
    return figures


def write_plots(folder: Path, figures: Mapping[str, Figure]) -> None:
    """Write the figures of a report as PNG files."""
    folder.mkdir(exist_ok=True)
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(figure.picture)
