"""Report page: it loads no external files, and all text is escaped."""

import base64
import html.parser
import math
import re
from pathlib import Path

import pytest
import torch

from gattn.apps.fitting.calibration import Reliability
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.report.report import Figure, Highlight, ReportContent, Section, Table, write_report
from gattn.apps.report.run_report import RunFacts, run_report
from gattn.draw import figure

EVIL = '<script>alert("1")</script> & \'C[C@@H](N)C(=O)O>>"'
SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the resolution, which makes drawing faster."""
    monkeypatch.setattr(figure, "DOTS", 50)


class _Page(html.parser.HTMLParser):
    """Parser that collects the elements of a page with their attributes, and the visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def _evil() -> ReportContent:
    table = Table((EVIL, "n"), ((EVIL, 1.5), (EVIL, math.nan)), EVIL, ((1,), ()))
    figures = (Figure(PNG, EVIL, EVIL), Figure(SVG, EVIL))
    section = Section(EVIL, (EVIL,), (table,), figures)
    return ReportContent(EVIL, EVIL, (section,) * 3, (Highlight(EVIL, EVIL, EVIL),))


def _read(path: Path) -> _Page:
    return _Page(path.read_text("utf-8"))


def test_report_escapes_text_from_data(tmp_path: Path) -> None:
    page = _read(write_report(tmp_path, _evil()))
    names = {name for name, _ in page.elements}
    assert "script" not in names
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert page.texts.count(EVIL) >= 3 * 6
    alts = [attributes["alt"] for name, attributes in page.elements if name == "img"]
    assert alts == [EVIL] * 6


def test_report_page_loads_no_other_files(tmp_path: Path) -> None:
    path = write_report(tmp_path, _evil())
    for name, attributes in _read(path).elements:
        for key in ("src", "srcset", "href"):
            if key in attributes:
                assert re.match(r"data:|#section-\d+$", attributes[key]), (name, attributes)
    page = path.read_text("utf-8")
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert "url(" not in page
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html"]


def test_report_shows_numbers_with_three_digits_counts_in_full_and_nan_as_a_dash(
    tmp_path: Path,
) -> None:
    table = Table(("metric", "model"), (("RMSE", 0.123456789), ("R²", math.nan), ("rows", 12345)))
    content = ReportContent("t", "s", (Section("Errors", tables=(table,)),))
    page = _read(write_report(tmp_path, content))
    assert {"0.123", "12,345", "–"} <= set(page.texts)


def _run(task: str, **changes: object) -> RunFacts:
    """Return the results of a small run of this task, as the report shows them."""
    y = torch.tensor([[0.0], [1.0], [math.nan], [1.0]])
    numbers = task == "regression"
    metrics = {"rmse": 0.5, "mae": 0.4, "r2": 0.8} if numbers else {"roc_auc": 0.9, "pr_auc": 0.8}
    facts = {
        "title": "solubility & more", "summary": "A model.", "item": "molecules",
        "task": TASKS[task], "targets": ("logS",), "y": y, "mean": y.nan_to_num(0.3),
        "metrics": {
            "test": metrics, "val": metrics, "baselines": {"kernel_ridge": metrics, "mean": {}},
            "intervals": {"coverage": 0.9, "held": 0.95, "mean_width": 1.2},
        },
        "std": torch.ones_like(y) if numbers else None,
        "histories": [History((EpochRecord(0, 1.0, 1.1, 1e-3, 2.0),), 0)],
        "reliability": Reliability((0.5, 0.9), (0.4, 0.95), (3, 3)),
        "parts": {"train": 8, "val": 1, "test": 4}, "rows": 16, "errors": {3: "not a SMILES"},
        "settings": {"epochs": 1}, "versions": {"torch": "2.13"},
        "notes": ("A baseline is better.",), "interval_notes": ("They contain 95 %.",),
    }  # fmt: skip
    return RunFacts(**(facts | changes))


@pytest.mark.parametrize(("task", "figure"), [("regression", "parity"), ("classification", "roc")])
def test_report_of_a_trained_model_has_every_section(
    task: str, figure: str, tmp_path: Path
) -> None:
    content, figures = run_report(_run(task), [Section("The worst", ("Here.",))])
    assert set(figures) == {figure, "calibration", "learning-curve"}
    titles = [section.title for section in content.sections]
    assert titles == [
        "Metrics", "Uncertainty", "The worst",
        "Training", "Data", "Settings and versions",
    ]  # fmt: skip
    page = _read(write_report(tmp_path, content))
    pictures = [attributes for name, attributes in page.elements if name == "img"]
    assert len(pictures) == 3
    text = " ".join(page.texts)
    for sentence in (
        "A baseline is better.", "They contain 95 %.", "Left out: 1 of 16 rows.",
        "2 more rows have no label.", "not a SMILES",
    ):  # fmt: skip
        assert sentence in text
