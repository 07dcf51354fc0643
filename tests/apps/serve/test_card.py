"""Model cards of gattn serve: the file card.md in the folder of a run."""

import shutil
from pathlib import Path

from gattn.apps.serve.app import Server
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.serve.clients import serving


def test_a_card_is_plain_text_without_paths(folders, tmp_path):
    folder = shutil.copytree(folders["classes"], tmp_path / "own")
    (folder / "card.md").write_text(f"# Toxicity\n\nNot for {folder}; <script>\n")
    (run,) = open_runs([folder], ServeSettings())
    expected = "# Toxicity\n\nNot for own; <script>\n"
    assert run.read("card") == (expected, "text/plain; charset=utf-8")


def test_the_card_of_a_model_of_gattn_can_be_read(client):
    with serving(Server(open_runs([Path("bbb")], ServeSettings()), ServeSettings(workers=1))) as c:
        answer = c.get("/models/bbb/card")
    assert "## Unsuitable uses" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
    for name in ("x", "classes"):  # no model, and a model without a card
        missing = client.get(f"/models/{name}/card")
        assert (missing.status_code, "GET /models" in missing.json()["error"]) == (404, True)
