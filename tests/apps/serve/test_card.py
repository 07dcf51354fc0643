"""Model cards of gattn serve: readable pages without parameters and raw numbers."""

import json
import re
import shutil
from pathlib import Path

import pytest

from gattn.apps.serve.app import Server
from gattn.apps.serve.card import card_page, model_card
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.serve.clients import serving
from tests.sealing import seal


def test_a_card_has_the_data_the_errors_and_the_coverage_of_a_run(client, folders):
    answer = client.get("/models/numbers/card")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    stored = json.loads((folders["numbers"] / "model.json").read_text())
    lines = answer.text.splitlines()
    assert lines[0] == "# The model `numbers`"
    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", answer.text, re.MULTILINE))
    assert rows["task"] == "regression"
    assert rows["targets"] == "`y`"
    assert rows["data"] == "`data.csv`"
    assert rows["molecules of each part"] == "64 training, 8 validation, 8 test, 0 left out"
    assert rows["split"] == stored["split"]
    assert f"torch {stored['versions']['torch']}" in rows["versions"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", rows["date of the model file"])
    assert "| metric | model | kernel ridge | mean |" in lines
    baseline = stored["metrics"]["baselines"]["kernel_ridge"]["rmse"]
    assert f"{baseline:.3g}" in rows["RMSE"]
    assert "Intervals with a requested coverage of 90% contain 100.0% of the values" in answer.text
    assert "outside the applicability domain" in answer.text
    assert "The run contains no statement about unsuitable uses." in lines
    assert len(answer.text) < 3000
    assert not {"scores", "learning_rate", "sha256"} & set(re.findall(r"\w+", answer.text))


def test_a_card_of_nodes_names_their_classes(client):
    text = client.get("/models/graph/card").text
    assert "| classes | `a`, `b` |" in text
    assert "| nodes of each part | 24 training, 8 validation, 8 test |" in text
    assert "label propagation" in text


def test_a_browser_gets_a_page(client):
    headers = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answer = client.get("/models/classes/card", headers=headers)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "<h1>The model <code>classes</code></h1>" in answer.text
    assert "<td><code>active</code>, <code>idle</code></td>" in answer.text
    missing = client.get("/models/x/card")
    assert (missing.status_code, "GET /models lists them" in missing.json()["error"]) == (404, True)


def test_html_and_bars_in_a_name_are_shown_as_text(runs, monkeypatch):
    (run,) = (run for run in runs if run.name == "numbers")
    monkeypatch.setattr(run.model, "targets_", ["<script>a|`b`</script>"])
    page = card_page("<b>", model_card(run))
    assert "<td><code>&lt;script&gt;a|'b'&lt;/script&gt;</code></td>" in page
    assert "<script" not in page
    assert "<title>&lt;b&gt;</title>" in page


def test_a_card_in_the_folder_replaces_the_created_one(folders, tmp_path):
    folder = shutil.copytree(folders["classes"], tmp_path / "own")
    link = "[data](https://example.org/a) and [more](more.md#part)"
    (folder / "card.md").write_text(f"# Toxicity\n\nNot for {folder}; {link}\n")
    (run,) = open_runs([folder], ServeSettings())
    text = model_card(run)
    assert text == "# Toxicity\n\nNot for own; [data](https://example.org/a) and more\n"


def test_the_card_of_a_model_of_gattn_is_its_own():
    with serving(Server(open_runs([Path("bbb")], ServeSettings()), ServeSettings(workers=1))) as c:
        text = c.get("/models/bbb/card").text
    assert "## Unsuitable uses" in text
    assert "for decisions about people" in text
    assert not re.findall(r"\]\((?!https://)", text)


@pytest.mark.parametrize("metrics", [None, {"test": {"rmse": None}, "undefined": {
    "test": {"rmse": "undefined: no row"}}}])  # fmt: skip
def test_missing_metrics_are_named(folders, tmp_path, metrics):
    folder = shutil.copytree(folders["numbers"], tmp_path / "copy")
    (run,) = open_runs([folder], ServeSettings())
    seal(folder, metrics=metrics)
    text = model_card(run)
    if metrics is None:
        assert "The errors of this model were not measured in its training." in text
    else:
        assert "| RMSE | – |" in text
        assert "RMSE: undefined: no row." in text
