"""The page of gattn serve in headless Chromium: its functions, widths, themes and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from gattn.apps.molecules.pretrained import folder_of
from gattn.apps.serve.served import CARD_FILE, card_page
from tests.apps.serve.clients import axe_faults

if TYPE_CHECKING:
    from selenium import webdriver

pytestmark = pytest.mark.slow

REQUESTS = "return performance.getEntriesByType('resource').map(entry => entry.name)"
WIDTHS = "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]"
CSV = "smiles,id\nCCCO,1\nbad(,2\nCCN,<b onclick=alert(1)>x</b>\nCC,4,5\n"


class Page:
    """Page in a browser, with methods for the actions of a user."""

    def __init__(self, browser: webdriver.Chrome, address: str) -> None:
        self.browser, self.address = browser, address
        self.resize(1300)
        browser.get(address)
        self.wait("body[data-ready]")

    def resize(self, width: int, *, dark: bool = False) -> None:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})

    def find(self, selector: str):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def until(self, condition, seconds: float = 60):
        return WebDriverWait(self.browser, seconds, 0.05).until(lambda _: condition())

    def wait(self, selector: str, count: int = 1) -> None:
        self.until(lambda: len(self.all(selector)) >= count)

    def text_of(self, selector: str) -> str:
        return self.find(selector).text

    def predict(self, smiles: str) -> None:
        field = self.find("#smiles")
        field.clear()
        field.send_keys(smiles, Keys.ENTER)

    def requests(self) -> list[str]:
        return self.browser.execute_script(REQUESTS)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.browser.get_log("browser")]


@contextmanager
def open_page(browser: webdriver.Chrome, address: str) -> Iterator[Page]:
    """Open the page of a server for a block, which must neither cause an error in the log nor a
    request to another host.
    """
    page = Page(browser, address)
    yield page
    assert page.errors() == []
    allowed = (page.address, "data:", "blob:")
    assert [name for name in page.requests() if not name.startswith(allowed)] == []


@pytest.fixture
def page(browser, address):
    """Page of the server of all runs; see :func:`open_page`."""
    with open_page(browser, address) as page:
        yield page


def test_page_shows_predictions_of_two_models_side_by_side(page, client):
    page.predict("CCCCCO")
    page.wait("#predictions .card figure img", 2)
    cards = page.all("#predictions .card")
    assert [card.find_element(By.TAG_NAME, "h3").text for card in cards] == [
        "numbers: y", "classes: kind",
    ]  # fmt: skip
    assert abs(cards[0].rect["y"] - cards[1].rect["y"]) < 1
    expected = client.post("/predict", json={"smiles": ["CCCCCO"]}).json()["rows"][0]
    shown = float(cards[0].find_element(By.CSS_SELECTOR, ".value").text)
    assert shown == pytest.approx(expected["prediction"], rel=5e-3)
    assert "numbers predicts y" in page.text_of("#molecule-status")
    assert len(cards[0].find_elements(By.CSS_SELECTOR, ".nearest li")) == 6
    assert "applicability domain" in cards[0].text
    rank = f"at least as high as for {expected['percentile']:g} % of 500 drug-like molecules"
    assert rank in cards[0].text
    loaded = "return [...document.querySelectorAll('.weights img')].every(i => i.naturalWidth > 50)"
    page.until(lambda: page.browser.execute_script(loaded))
    page.find("[data-model=classes]").click()
    page.until(lambda: len(page.all("#predictions .card")) == 1)


def test_page_predicts_a_molecule_drawn_in_the_editor(page):
    page.find("#drawing summary").click()
    page.until(lambda: page.find("#editor-place").get_property("childElementCount"))
    ActionChains(page.browser).move_to_element(page.find("#editor-place")).click().perform()
    page.wait("#predictions .card figure img", 2)
    assert page.find("#smiles").get_attribute("value") == "CC"


def test_address_of_the_page_restores_its_prediction(page, browser):
    page.predict("CCCCCO")
    page.wait("#predictions .card figure img", 2)
    page.find("[data-model=classes]").click()
    page.until(lambda: len(page.all("#predictions .card")) == 1)
    shared, shown = browser.current_url, page.text_of("#predictions .value")
    browser.get("about:blank")
    browser.get(shared)
    page.wait("#predictions .card figure img")
    assert page.find("#smiles").get_attribute("value") == "CCCCCO"
    assert [card.text for card in page.all("#predictions .card .value")] == [shown]


def test_page_predicts_several_smiles_as_a_table_with_three_digits(page, client):
    lines = ["CCCCCO", "CCN", "bad("]
    browser = page.browser
    browser.execute_script(
        "arguments[0].value = arguments[1]", page.find("#smiles"), "\n".join(lines)
    )
    page.find("#molecule-form button[type=submit]").click()
    page.wait("#predictions tbody tr", 3)
    head = [cell.text for cell in page.all("#predictions thead th")]
    expected = client.post("/predict", json={"smiles": lines, "model": "classes"}).json()["rows"]
    for row, each in zip(page.all("#predictions tbody tr"), expected):
        cells = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        prediction = cells[head.index("numbers: prediction")]
        assert len(prediction.strip("−0.").replace(".", "")) <= 3
        is_open = "|" in (each.get("set") or "")
        shown = "undecided" if is_open else each.get("prediction") or ""
        assert cells[head.index("classes: prediction")] == shown
    assert page.text_of("#molecule-status").count("1 of them with an error") == 1


def test_page_asks_for_the_smiles_column_if_the_file_has_no_column_smiles(page, tmp_path):
    path = tmp_path / "named.csv"
    path.write_text('id,"my, molecule"\n1,CCO\n2,CCN\n')
    page.find("#file").send_keys(str(path))
    page.until(lambda: "choose the column" in page.text_of("#file-status"))
    page.find("#column-1").send_keys("my, molecule")
    page.wait("#table-place tbody tr", 2)
    assert "0 of them with an error" in page.text_of("#file-status")


def test_page_shows_an_error_once_if_all_models_return_the_error(page):
    page.predict("bad(")
    page.until(lambda: "cannot be read" in page.text_of("main"))
    assert page.text_of("main").count("cannot be read") == 1
    assert all("422" in line for line in page.errors())


def test_page_predicts_sorts_and_downloads_a_file_with_invalid_rows(page, tmp_path):
    path = tmp_path / "molecules.csv"
    path.write_text(CSV)
    page.find("#file").send_keys(str(path))
    page.wait("#table-place tbody tr", 4)
    assert page.text_of("#file-status") == "molecules.csv: 4 rows, 2 of them with an error."
    head = [cell.text for cell in page.all("#table-place thead th")]
    assert head[:3] == ["structure", "smiles", "id"]
    assert {"numbers: prediction", "classes: prediction", "error"} <= set(head)
    assert "<b onclick=alert(1)>x</b>" in page.text_of("#table-place")
    assert not page.all("#table-place b")
    column = head.index("numbers: prediction")

    def values():
        rows = page.all("#table-place tbody tr")
        return [row.find_elements(By.TAG_NAME, "td")[column].text for row in rows]

    page.all("#table-place thead button")[column - 1].click()
    up = values()
    assert page.all("#table-place thead th")[column].get_attribute("aria-sort") == "ascending"
    page.all("#table-place thead button")[column - 1].click()
    down = values()
    assert up[:2] == down[1::-1] == sorted(up[:2], key=float)
    assert up[2:] == down[2:] == ["", ""]
    page.browser.execute_script(
        "window.saved = new Promise(done => { const make = URL.createObjectURL;"
        "URL.createObjectURL = blob => { blob.text().then(done); return make(blob); }; })"
    )
    page.browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.find(".download").click()
    saved = page.browser.execute_async_script("saved.then(arguments[0])")
    assert saved.splitlines()[0].startswith("smiles,id,numbers: prediction,")
    assert len(saved.splitlines()) == 5


def test_cells_of_a_downloaded_table_are_no_spreadsheet_formulas(page):
    cells = ["=1+1", "+cmd|' /C calc'!A0", "@x", "-2+3", "-2.5", "+1e-3", "-inf", "ok", '=A1,"b"']
    table = {"columns": ["=HYPERLINK(1)"], "rows": [[cell] for cell in cells]}
    saved = page.browser.execute_async_script(
        """
        const done = arguments[1], make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { blob.text().then(done); return make(blob); };
        import("/static/table.js").then((module) =>
          module.save(arguments[0], arguments[0].rows.map((_, i) => i)));
        """,
        table,
    )
    assert saved.splitlines() == [
        "'=HYPERLINK(1)", "'=1+1", "'+cmd|' /C calc'!A0", "'@x", "'-2+3", "-2.5", "+1e-3", "-inf",
        "ok", '"\'=A1,""b"""',
    ]  # fmt: skip


def test_page_shows_undecided_if_the_label_set_contains_both_classes(page, client):
    seen = set()
    for smiles in ("CCCCCO", "CCN", "c1ccccc1", "CC(=O)NC", "CCOCN"):
        answer = client.post("/explain", json={"smiles": smiles, "model": "classes"}).json()
        predicted, members = answer["values"]["prediction"], answer["values"]["set"] or ""
        is_open = "|" in members
        page.predict(smiles)
        page.until(lambda text=predicted: f" = {text})" in page.text_of("main"))
        page.until(lambda: "Predicting" not in page.text_of("#molecule-status"))
        card = page.all("#predictions .card")[1]
        shown = card.find_element(By.CSS_SELECTOR, ".value").text
        assert shown == ("undecided" if is_open else predicted), (smiles, members)
        assert (f"Most probable class: {predicted}" in card.text) == is_open
        seen.add(is_open)
    assert True in seen


def test_page_shows_the_prediction_of_a_node_by_its_name(page):
    page.find("#node").send_keys("n3", Keys.ENTER)
    page.wait("#nodes .card img")
    assert "graph predicts" in page.text_of("#node-status")
    assert "The node attends to 3 nodes" in page.text_of("#nodes .card")
    page.until(lambda: page.all("#names option"))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_page_is_accessible_in_each_width_and_theme(page, width, dark, tmp_path):
    path = tmp_path / "molecules.csv"
    path.write_text(CSV)
    page.resize(width, dark=dark)
    page.predict("CCCCCO")
    page.wait("#predictions .card figure img", 2)
    page.find("#file").send_keys(str(path))
    page.wait("#table-place tbody tr", 4)
    page.find("#node").send_keys("n3", Keys.ENTER)
    page.wait("#nodes .card img")
    used, room = page.browser.execute_script(WIDTHS)
    assert used <= room
    assert axe_faults(page.browser) == []


def test_card_of_a_model_fits_a_screen_of_390_pixels(page, tmp_path):
    path = tmp_path / "card.html"
    text = (folder_of("bbb") / CARD_FILE).read_text("utf-8")
    path.write_text(card_page("bbb", text), "utf-8")
    page.resize(390)
    page.browser.get(path.as_uri())
    used, room = page.browser.execute_script(WIDTHS)
    assert used <= room
    assert axe_faults(page.browser) == []


def test_tab_key_reaches_fields_and_buttons_of_the_page(page):
    reached = []
    for _ in range(18):
        ActionChains(page.browser).send_keys(Keys.TAB).perform()
        name = "const e = document.activeElement; return e.id || e.textContent.trim()"
        reached.append(page.browser.execute_script(name))
    assert reached[0] == "Skip to the content"
    assert {"smiles", "Predict", "Aspirin", "file"} <= set(reached)
