"""Plots: the drawn data equal the input, gaps are allowed, and no global state is used."""

import io
import threading
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image
from sklearn.metrics import average_precision_score, roc_auc_score

from gattn.apps.fitting.calibration import Reliability
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.report import plots
from gattn.apps.report.plots import style
from gattn.draw import figure
from gattn.draw.theme import DARK, LIGHT

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
    "learning curve": lambda: plots.learning_curve([_history(1, 0.5, chosen=1)]),
    "members": lambda: plots.learning_curve([_history(1, 0.5), _history(2, 0.4)]),
    "no member": lambda: plots.learning_curve([]),
    "a loss of 0": lambda: plots.learning_curve([_history(1, 0)]),
    "parity": lambda: plots.parity(Y, GUESS, name="x & <y>"),
    "parity with bars": lambda: plots.parity(Y, GUESS, np.ones(5)),
    "parity on logarithmic axes": lambda: plots.parity(
        [1e-3, 1.0, 1e4], [2e-3, 0.5, 1e3], np.full(3, 2.0), logarithmic=True
    ),
    "density on logarithmic axes": lambda: plots.parity(
        np.arange(1, 2001), np.arange(1, 2001), logarithmic=True
    ),
    "parity of one": lambda: plots.parity([2.0], [2.0]),
    "parity of none": lambda: plots.parity([np.nan], [2.0]),
    "density": lambda: plots.parity(np.arange(2000), np.arange(2000) + 1),
    "residuals": lambda: plots.residuals(Y, GUESS),
    "residuals of none": lambda: plots.residuals([], []),
    "no residual": lambda: plots.residuals([1, 2], [1, 2]),
    "coverage": lambda: plots.coverage(INTERVALS),
    "coverage of none": lambda: plots.coverage(NOTHING),
    "roc": lambda: plots.roc(CLASSES[:, 0], CHANCES[:, 0]),
    "roc of two": lambda: plots.roc(CLASSES[:, [0, 0]], CHANCES),
    "roc of one class": lambda: plots.roc(CLASSES[:, 1], CHANCES[:, 1]),
    "precision": lambda: plots.precision_recall(CLASSES, CHANCES),
    "precision of one class": lambda: plots.precision_recall([1.0], [0.5]),
    "reliability": lambda: plots.reliability(INTERVALS),
    "reliability of none": lambda: plots.reliability(NOTHING),
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
    monkeypatch.setattr(style, "render", watch)
    return seen


@pytest.mark.parametrize("name", DRAWN)
def test_every_plot_is_a_picture(name: str) -> None:
    _check(DRAWN[name]().png(), LIGHT.paper)


@pytest.mark.parametrize("name", ["learning curve", "parity with bars", "density", "roc of two"])
def test_plots_are_dark_on_dark_pages(name: str) -> None:
    _check(DRAWN[name]().png(dark=True), DARK.paper)


@pytest.mark.parametrize("name", DRAWN)
def test_both_versions_have_the_layout_of_each(name: str) -> None:
    plot = DRAWN[name]()
    assert plot.pngs() == (plot.png(), plot.png(dark=True))


def _check(picture: bytes, paper: str) -> None:
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    assert image.width == round(figure.WIDTH * figure.DOTS)
    assert image.getpixel((1, 1)) == tuple(bytes.fromhex(paper[1:]))
    assert len(image.getcolors(image.width * image.height)) > 20


def test_a_plot_leaves_no_trace_and_minds_no_setting_of_the_user() -> None:
    before = DRAWN["parity"]().png()
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "text.usetex": True}):
        assert DRAWN["parity"]().png() == before
        assert mpl.rcParams["font.size"] == 30
    assert DRAWN["parity"]().png() == before


def test_no_plot_goes_through_pyplot() -> None:
    """Pyplot keeps every figure in a global table of the process."""
    paths = list(Path(plots.__file__).parent.glob("*.py"))
    assert len(paths) > 5
    for path in paths:
        assert "pyplot" not in path.read_text("utf-8"), path


def test_parity_holds_the_known_rows_and_their_errors(axes: list[Axes]) -> None:
    plots.parity(Y, GUESS, np.full(5, 0.3), name="solubility").png()
    (points,) = [one for one in axes[0].collections if len(one.get_offsets()) == 4]
    has_label = ~np.isnan(Y)
    assert np.allclose(points.get_offsets(), np.stack([Y[has_label], GUESS[has_label]], 1))
    error = GUESS[has_label] - Y[has_label]
    title = axes[0].get_title(loc="left")
    assert title.startswith("solubility\n")
    assert f"RMSE {np.sqrt((error**2).mean()):#.3g}" in title
    assert f"MAE {np.abs(error).mean():#.3g}" in title
    assert f"R² {1 - (error**2).mean() / Y[has_label].var():#.3g}" in title


def test_residuals_are_counted(axes: list[Axes]) -> None:
    plots.residuals(Y, GUESS).png()
    assert sum(bar.get_height() for bar in axes[0].patches) == 4


def test_the_kept_epoch_is_marked(axes: list[Axes]) -> None:
    plots.learning_curve([_history(3, 2, 2.5, chosen=1), _history(3, 1, chosen=1)]).png()
    marks = [line for line in axes[1].lines if line.get_marker() == "o"]
    assert [tuple(mark.get_xydata()[0]) for mark in marks] == [(2, 2.1), (2, 1.1)]
    drawn = [line.get_ydata().tolist() for line in axes[0].lines if len(line.get_ydata()) == 3]
    assert drawn == [[3, 2, 2.5]]


def test_a_target_of_one_class_is_counted_and_not_drawn(axes: list[Axes]) -> None:
    plots.roc(CLASSES, CHANCES).png()
    assert axes[0].get_title(loc="left") == "ROC-AUC 0.889\nonly one class: 1 of 2 targets"


def test_the_mean_of_targets_lies_between_them(axes: list[Axes]) -> None:
    plots.roc(CLASSES[:, [0, 0]], np.stack([CHANCES[:, 0], 1 - CHANCES[:, 0]], 1)).png()
    (mean,) = [line for line in axes[0].lines if "mean" in str(line.get_label())]
    assert np.isclose(np.mean(mean.get_ydata()), 0.5, atol=0.01)
    assert axes[0].get_title(loc="left") == "mean ROC-AUC 0.500"


def test_the_area_under_the_mean_is_the_mean_area(axes: list[Axes]) -> None:
    generator = np.random.default_rng(0)
    classes = (generator.random((300, 3)) < 0.3).astype(float)
    chances = 0.4 * classes + 0.6 * generator.random((300, 3))
    plots.precision_recall(classes, chances).png()
    (mean,) = [line for line in axes[0].lines if "mean" in str(line.get_label())]
    area = np.mean([average_precision_score(classes[:, i], chances[:, i]) for i in range(3)])
    assert np.isclose(np.mean(mean.get_ydata()), area, atol=0.005)


@pytest.mark.parametrize("count", [2, 7, 300])
def test_areas_are_those_of_scikit_learn(count: int, axes: list[Axes]) -> None:
    generator = np.random.default_rng(count)
    classes = generator.integers(0, 2, count).astype(float)
    classes[:2] = 0, 1
    chances = generator.random(count).round(1)  # some of them are equal
    for draw, name, area in (
        (plots.roc, "ROC-AUC", roc_auc_score(classes, chances)),
        (plots.precision_recall, "average precision", average_precision_score(classes, chances)),
    ):
        axes.clear()
        draw(classes, chances).png()
        assert axes[0].get_title(loc="left") == f"{name} {style.number(float(area))}"


@pytest.mark.parametrize("draw", [plots.coverage, plots.reliability])
def test_what_is_said_stands_against_what_is_found(draw, axes: list[Axes]) -> None:
    draw(INTERVALS).png()
    (line,) = [line for line in axes[0].lines if line.get_marker() == "o"]
    assert line.get_xydata().tolist() == [[0.5, 0.6], [0.9, 0.8]]


def test_rows_behind_each_frequency_are_shown(axes: list[Axes]) -> None:
    plots.reliability(INTERVALS).png()
    assert [bar.get_height() for bar in axes[1].patches] == [40, 40]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plots.parity([1, 2], [1]), r"one length \[k\]; got \(2,\), \(1,\)"),
        (lambda: plots.parity([[1]], [[1]]), r"one length \[k\]; got \(1, 1\)"),
        (lambda: plots.roc([0, 2], [0.1, 0.2]), "classes must be 0, 1 or NaN; got 2"),
        (lambda: plots.roc([0, 1], [0.1]), r"got \(2,\) and \(1,\)"),
    ],
)
def test_what_does_not_fit_is_told(draw, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.48951, "0.490"),
        (-0.0427, "−0.0427"),
        (99.96, "100"),
        (-123.4, "−123"),
        (1234567.8, "1,234,568"),
        (2.5e12, "2.5e+12"),
        (float("inf"), "∞"),
        (None, "–"),
    ],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert style.number(value) == text


@pytest.mark.parametrize(
    "name", ["$\\frac{", "$x$ \\$", "日本語 🧪", "a\nb\tc", "\x07", "long " * 40, "</svg>&"]
)
def test_any_name_of_a_column_can_be_drawn(name: str, axes: list[Axes]) -> None:
    plots.parity([1.0, 2.0], [1.0, 2.0], name=name).png()
    plots.roc([0, 1], [0.2, 0.8], name=name).png()
    plots.coverage(INTERVALS, name=name).png()
    assert len(axes) == 3
    for one in axes:
        assert len(one.get_title(loc="left").split("\n")[0]) <= figure.LONGEST + name.count("$")


def test_threads_draw_the_same() -> None:
    """Matplotlib's settings are global to the process, so threads draw one after another."""
    alone = DRAWN["parity"]().png(dark=False), DRAWN["parity"]().png(dark=True)
    pictures: dict[int, bytes] = {}

    def work(i: int) -> None:
        pictures[i] = DRAWN["parity"]().png(dark=bool(i % 2))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [pictures[i] == alone[i % 2] for i in range(4)] == [True] * 4
