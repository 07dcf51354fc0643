"""Model cards of gattn serve: a page of the file card.md in the folder of a run."""

import shutil
from pathlib import Path

from gattn.apps.serve.app import Server
from gattn.apps.serve.served import card_page
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.serve.clients import serving


def test_card_page_escapes_html_of_the_card():
    page = card_page("<b>", "| a |\n|---|\n| <script> |")
    assert "<td>&lt;script&gt;</td>" in page
    assert "<script" not in page
    assert "<title>&lt;b&gt;</title>" in page


def test_served_card_contains_no_paths_or_links_to_other_files(folders, tmp_path):
    folder = shutil.copytree(folders["classes"], tmp_path / "own")
    link = "[data](https://example.org/a) and [more](more.md#part)"
    (folder / "card.md").write_text(f"# Toxicity\n\nNot for {folder}; {link}\n")
    (run,) = open_runs([folder], ServeSettings())
    text, media = run.read("card")
    assert media == "text/html; charset=utf-8"
    assert '<p>Not for own; <a href="https://example.org/a">data</a> and more</p>' in text


def test_card_endpoint_returns_the_card_of_a_bundled_model_as_a_page(client):
    with serving(Server(open_runs([Path("bbb")], ServeSettings()), ServeSettings(workers=1))) as c:
        answer = c.get("/models/bbb/card")
    assert "<h2>Unsuitable uses</h2>" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    for name in ("x", "classes"):  # no model, and a model without a card
        missing = client.get(f"/models/{name}/card")
        assert (missing.status_code, "GET /models" in missing.json()["error"]) == (404, True)
