"""gattn serve of a model whose labels have a unit: the API, and the page at both widths."""

import re
from pathlib import Path

import pytest

from gattn.apps.serve.app import Server
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import train
from tests.apps.cli.molecule_table import GP, ROWS
from tests.apps.serve.clients import serving
from tests.apps.serve.test_page import open_page

SMI = "CCCO first\nbad( second name\n\nCCN\n"
DROP = """
const dataTransfer = new DataTransfer();
dataTransfer.items.add(new File([arguments[1]], arguments[0]));
document.getElementById("drop").dispatchEvent(new DragEvent("drop", {dataTransfer}));
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folder of a run that predicts concentrations, whose unit is uM."""
    folder = tmp_path_factory.mktemp("units")
    data, config = folder / "data.csv", folder / "in.toml"
    data.write_text("smiles,IC50\n" + "".join(f"{smiles},{1 + y}\n" for smiles, y, _ in ROWS))
    config.write_text('unit = "uM"\n')
    options = ["--target-transform", "log10", "--config", config, *GP, "--out", folder / "run"]
    train("molecules", "train", data, "--target", "IC50", *options)
    return {"run": folder / "run"}


def test_explain_returns_the_unit_and_the_explained_quantity(client):
    answer = client.post("/explain", json={"smiles": "CCCO"}).json()
    assert answer["unit"] == "uM"
    assert answer["explained"] == "log10(IC50)"


def test_report_contains_the_unit_of_the_target(folders):
    report = (folders["run"] / "report.html").read_text("utf-8")
    assert "Predicted against measured values of IC50 (uM)" in report
    assert len(re.findall(r"→ [\d.]+ ± [\d.]+ uM", report)) > 3


@pytest.fixture
def page(browser, address):
    """Page of the server; see :func:`open_page`."""
    with open_page(browser, address) as page:
        yield page


@pytest.mark.slow
def test_page_shows_the_unit_and_the_explained_quantity(page):
    page.resize(390, dark=True)
    page.predict("CCCO")
    page.wait(".nearest img")
    assert page.text_of(".value").endswith("uM")
    assert "uM" in page.text_of(".nearest")
    assert "log10(IC50)" in page.text_of("figcaption")
    used, room = page.browser.execute_script(
        "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]"
    )
    assert used <= room


@pytest.mark.slow
def test_page_predicts_a_smiles_file_and_rejects_a_parquet_file(page):
    page.browser.execute_script(DROP, "some.smi", SMI)
    page.wait("#table-place tbody tr", 3)
    assert page.text_of("#file-status") == "some.smi: 3 rows, 1 of them with an error."
    head = [cell.text for cell in page.all("#table-place thead th")]
    assert head[1:3] == ["smiles", "name"]
    assert "second name" in page.text_of("#table-place")
    page.browser.execute_script(DROP, "some.parquet", "PAR1")
    page.until(lambda: "is not a CSV or SMILES file" in page.text_of("#file-status"))


def test_bundled_model_is_served_by_its_name():
    (run,) = open_runs([Path("bbb")], ServeSettings())
    assert run.name == "bbb"
    with serving(Server([run], ServeSettings(workers=1))) as client:
        answer = client.post("/explain", json={"smiles": "CCO"}).json()
        (model,) = client.get("/models").json()
    assert model["size"] == 6126
    assert model["test"]["roc_auc"] == pytest.approx(0.8224, abs=1e-4)
    assert answer["explained"] == f"P(class = {answer['values']['prediction']})"
    assert answer["nearest"] == []
    # The threshold is that of the 766 test molecules of the training.
    assert answer["domain"]["threshold"] == pytest.approx(0.225, abs=1e-6)
    assert answer["domain"]["inside"] == (answer["domain"]["similarity"] >= 0.225)
    assert run.notes == (
        "bbb is distributed without its training molecules, so the nearest measured molecules are "
        "not available.",
    )
