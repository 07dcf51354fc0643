"""Plots: the drawn data equal the input, gaps are allowed, and no global state is used."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from gattn.apps.fitting.calibration import Reliability
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.report import run_plots
from gattn.draw import figure
from gattn.draw.theme import LIGHT

Y = np.array([1.0, 2.0, np.nan, 4.0, 5.5])
GUESS = np.array([1.1, 1.8, 3.0, 4.4, 5.0])
CLASSES = np.array([[0, 1], [0, 1], [1, 1], [1, np.nan], [0, 1], [1, 1.0]])
CHANCES = np.array([[0.1, 0.9], [0.6, 0.8], [0.7, 0.7], [0.9, 0.6], [0.3, 0.5], [0.4, 0.4]])

INTERVALS = Reliability((0.5, 0.9), (0.6, 0.8), (40, 40))
NOTHING = Reliability((), (), ())


def _history(*losses: float, chosen: int = 0) -> History:
    records = (EpochRecord(i, loss, loss + 0.1, 1e-3, 2.0) for i, loss in enumerate(losses))
    return History(tuple(records), chosen)


DRAWN = {
    "learning curve": lambda: run_plots.learning_curve([_history(1, 0.5, chosen=1)]),
    "members": lambda: run_plots.learning_curve([_history(1, 0.5), _history(2, 0.4)]),
    "a loss of 0": lambda: run_plots.learning_curve([_history(1, 0)]),
    "parity": lambda: run_plots.parity(Y, GUESS, name="x & <y>"),
    "parity with bars": lambda: run_plots.parity(Y, GUESS, np.ones(5)),
    "parity on logarithmic axes": lambda: run_plots.parity(
        [1e-3, 1.0, 1e4], [2e-3, 0.5, 1e3], np.full(3, 2.0), logarithmic=True
    ),
    "parity of one": lambda: run_plots.parity([2.0], [2.0]),
    "parity of none": lambda: run_plots.parity([np.nan], [2.0]),
    "parity of many": lambda: run_plots.parity(np.arange(2000), np.arange(2000) + 1),
    "coverage": lambda: run_plots.coverage(INTERVALS),
    "coverage of none": lambda: run_plots.coverage(NOTHING),
    "roc of two": lambda: run_plots.roc(CLASSES[:, [0, 0]], CHANCES),
    "roc of one class": lambda: run_plots.roc(CLASSES[:, 1:], CHANCES[:, 1:]),
    "reliability": lambda: run_plots.reliability(INTERVALS),
    "reliability of none": lambda: run_plots.reliability(NOTHING),
}


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the resolution, which makes drawing faster."""
    monkeypatch.setattr(figure, "DOTS", 50)


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Axes]:
    """List that receives the axes of every figure drawn in the test."""
    seen: list[Axes] = []

    def watch(draw, **how):
        return render(lambda panels, theme: [seen.extend(panels), draw(panels, theme)][1], **how)

    render = figure.render
    monkeypatch.setattr(run_plots, "render", watch)
    return seen


@pytest.mark.parametrize("name", DRAWN)
def test_every_plot_has_the_background_colour_of_the_page(name: str) -> None:
    image = Image.open(io.BytesIO(DRAWN[name]())).convert("RGB")
    assert image.width == round(figure.WIDTH * figure.DOTS)
    assert image.getpixel((1, 1)) == tuple(bytes.fromhex(LIGHT.paper[1:]))
    assert len(image.getcolors(image.width * image.height)) > 20


def test_plots_do_not_depend_on_or_change_settings_of_matplotlib() -> None:
    before = DRAWN["parity"]()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "text.usetex": True}):
        assert DRAWN["parity"]() == before
        assert mpl.rcParams["font.size"] == 30
    assert DRAWN["parity"]() == before


def test_roc_plot_title_counts_targets_with_only_one_class(axes: list[Axes]) -> None:
    run_plots.roc(CLASSES, CHANCES)
    assert axes[0].get_title(loc="left") == "ROC-AUC 0.889\nonly one class: 1 of 2 targets"


@pytest.mark.parametrize(
    "name", ["$\\frac{", "$x$ \\$", "日本語 🧪", "a\nb\tc", "\x07", "long " * 40, "</svg>&"]
)
def test_plots_accept_unusual_column_names_and_shorten_long_names(
    name: str, axes: list[Axes]
) -> None:
    run_plots.parity([1.0, 2.0], [1.0, 2.0], name=name)
    run_plots.roc([[0], [1]], [[0.2], [0.8]], name=name)
    run_plots.coverage(INTERVALS, name=name)
    assert len(axes) == 3
    for one in axes:
        assert len(one.get_title(loc="left").split("\n")[0]) <= figure.LONGEST + name.count("$")
