"""The report page in a browser: no errors, every picture loads, and it fits every width.

Chromium and its driver come with ``apt-get install chromium chromium-driver``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from gattn.apps.fitting.calibration import probability_reliability
from gattn.apps.fitting.tasks import TASKS
from gattn.apps.fitting.types import EpochRecord, History
from gattn.apps.report.report import Figure, Section, write_report
from gattn.apps.report.run_report import RunFacts, run_report
from tests.apps.serve.clients import axe_faults

if TYPE_CHECKING:
    from selenium import webdriver

pytestmark = pytest.mark.slow

LONG = "CC(C)C[C@H](NC(=O)[C@H](CC(=O)O)NC(=O)[C@@H](N)CC1=CNC2=CC=CC=C12)C(=O)N" * 4
PICTURE = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 260 200">
<circle cx="130" cy="100" r="70" fill="none" stroke="#0072b2" stroke-width="4"/></svg>"""

TEXT_HEIGHTS = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) {
  const parent = walker.currentNode.parentElement;
  if (walker.currentNode.textContent.trim() && parent.getClientRects().length)
    texts.push([parseFloat(getComputedStyle(parent).fontSize), walker.currentNode.textContent]);
}
return texts;
"""
PICTURES = """
return [...document.images].map(i => [i.complete, i.naturalWidth, i.getBoundingClientRect().width]);
"""
WIDTHS = """
const page = document.documentElement;
return {window: window.innerWidth, room: page.clientWidth, used: page.scrollWidth};
"""
BEYOND = """
const room = document.documentElement.clientWidth;
return [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll table") &&
  e.getBoundingClientRect().right > room + 0.5).map(e => e.outerHTML.slice(0, 80));
"""


def _facts(task: str) -> RunFacts:
    """Return a run that can make a page too wide: long names, gaps, many targets, bad rows."""
    generator = torch.Generator().manual_seed(0)
    targets = 1 if task == "regression" else 12
    mean = torch.rand(150, targets, generator=generator, dtype=torch.float64)
    noise = torch.rand(150, targets, generator=generator, dtype=torch.float64)
    y = 5 + mean + 0.3 * noise if task == "regression" else (noise < mean).double()
    y[::7] = math.nan
    records = (EpochRecord(i, 1 / (i + 1), 1.1 / (i + 1), 1e-3, 2.0) for i in range(20))
    scores = (
        {"rmse": 0.489, "mae": 0.371, "r2": 0.811}
        if task == "regression"
        else {"roc_auc": 0.84, "pr_auc": 0.41, "accuracy": 0.9}
    )
    return RunFacts(
        title="CHEMBL2321810_activities & <a very long name of a file that nobody ever broke>.csv",
        summary=f"A model of {targets} targets, trained on 813 molecules.",
        item="molecules",
        task=TASKS[task],
        targets=tuple(f"NR-AhR_{i}_with_a_long_name <script>" for i in range(targets)),
        metrics={
            "test": scores,
            "val": scores,
            "baselines": {"kernel_ridge": scores, "mean": {**scores, "r2": math.nan}},
            "intervals": {"coverage": 0.9, "held": 0.914, "mean_width": 1.73},
            "targets": {f"NR-AhR_{i}_with_a_long_name": scores for i in range(targets)},
        },
        y=y,
        mean=mean + 5 if task == "regression" else mean,
        std=torch.full_like(y, 0.2) if task == "regression" else None,
        histories=[History(tuple(records), 14)],
        reliability=probability_reliability((noise < mean).double(), mean),
        parts={"train": 813, "val": 102, "test": 102},
        rows=1020,
        errors={17: f"not a molecule: {LONG!r}", 218: "an empty cell", 900: "no label"},
        settings={"epochs": 60, "smiles": LONG, "learning rate": 1e-3, "unit": None},
        versions={"torch": "2.13.0", "processor": "two cores of something with a long name"},
    )


def _run_of_nodes(folder: Path) -> Path:
    """Write the page of a run of nodes with long names."""
    import networkx

    from gattn.apps.nodes.runs.config import NodeRunSettings
    from gattn.apps.nodes.runs.train import train_run
    from gattn.apps.nodes.settings import NodeSettings

    graph = networkx.planted_partition_graph(9, 8, 0.6, 0.02, seed=0)
    for node, attributes in graph.nodes(data=True):
        attributes.clear()
        attributes["label"] = f"a class of <b>long</b> names, number {node // 8}"
    graph.graph.clear()
    path = folder / "a_network_with_a_very_long_name_that_nobody_ever_broke.gexf"
    networkx.write_gexf(graph, path)
    model = NodeSettings(epochs=2, width=8, heads=2)
    train_run(NodeRunSettings(str(path), runs=2, model=model), folder / "run")
    return folder / "run" / "report.html"


@pytest.fixture(scope="module", params=["regression", "classification", "nodes"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "nodes":
        return _run_of_nodes(tmp_path_factory.mktemp("nodes"))
    drawn = [Figure(PICTURE, f"molecule {i}", f"{i}: measured 5.2, {LONG}") for i in range(6)]
    gallery = Section("Largest errors", ("In order.",), figures=tuple(drawn), gallery=True)
    content, _ = run_report(_facts(request.param), [gallery])
    return write_report(tmp_path_factory.mktemp(request.param), content)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_report_page_fits_screens_of_400_and_1400_pixels_in_each_theme(
    page: Path, width: int, scheme: str, browser: webdriver.Chrome
) -> None:
    _open(browser, page, width, scheme)
    assert browser.get_log("browser") == []
    widths = browser.execute_script(WIDTHS)
    assert widths["window"] == width
    assert widths["used"] <= widths["room"]
    assert browser.execute_script(BEYOND) == []
    pictures = browser.execute_script(PICTURES)
    assert len(pictures) >= (4 if page.parent.name == "run" else 9)
    assert [shown for shown in pictures if not shown[0] or not shown[1] or shown[2] < 200] == []
    heights = browser.execute_script(TEXT_HEIGHTS)
    assert len(heights) > 50
    assert [text for height, text in heights if height < 11] == []
    assert axe_faults(browser) == []


def _open(browser: webdriver.Chrome, page: Path, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    _emulate(browser, "screen", scheme)
    browser.get(page.as_uri())


def _emulate(browser: webdriver.Chrome, media: str, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
