"""Clients of gattn serve see the names of files, but not the paths of the server."""

import json
import shutil

import pytest

from gattn.apps.serve.app import Server
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.serve.clients import serving
from tests.sealing import seal

MISSING = "The nearest measured molecules are not available, because"


@pytest.fixture
def copy(folders, tmp_path):
    """Copy of a run of molecules, which a test can damage."""
    return shutil.copytree(folders["classes"], tmp_path / "copy")


def notes_of(folder):
    """Return the notes that a client sees, and check that they contain no path."""
    (run,) = open_runs([folder], ServeSettings())
    with serving(Server([run], ServeSettings(workers=1))) as client:
        (model,) = client.get("/models").json()
        assert client.post("/predict", json={"smiles": ["CCO"]}).json()["rows"][0]["error"] == ""
    assert list(run.notes) == model["notes"]
    assert not any("/" in note for note in model["notes"])
    return model["notes"]


def test_note_on_a_missing_table_contains_its_name_but_no_path(copy, folders):
    settings = copy / "config.toml"
    old = str(folders["classes"].parent / "data.csv")
    text = settings.read_text()
    assert old in text
    settings.write_text(text.replace(old, str(copy.parent / "secret" / "data.csv")))
    seal(copy)
    assert notes_of(copy) == [f"{MISSING} the file data.csv does not exist."]


def test_notes_on_changed_files_contain_no_path(copy, folders):
    table = copy.parent / "data.csv"
    table.write_text((folders["classes"].parent / "data.csv").read_text() + "CCCl,1,idle,3\n")
    settings = copy / "config.toml"
    good = settings.read_text().replace(str(folders["classes"].parent / "data.csv"), str(table))
    settings.write_text(good)
    seal(copy)
    assert notes_of(copy) == [f"{MISSING} data.csv has changed since the model was trained."]
    (copy / "splits.json").write_text("{")
    (copy / "predictions.csv").unlink()
    damaged, domain = notes_of(copy)
    assert "splits.json was changed" in damaged
    assert domain == (
        "The applicability domain is not available, because the file predictions.csv does not "
        "exist."
    )
    settings.write_text("data = ")
    assert "config.toml was changed" in notes_of(copy)[0]
    settings.unlink()
    assert notes_of(copy)[0] == f"{MISSING} the file config.toml does not exist."


def test_responses_about_a_model_contain_no_path_of_the_server(client, folders):
    place = str(folders["classes"].parent)
    assert place in (folders["classes"] / "report.html").read_text("utf-8")
    answers = [client.get("/models").text]
    names = [model["name"] for model in json.loads(answers[0])]
    answers += [client.get(f"/models/{name}/report").text for name in names]
    assert all("data.csv" in text or "edges.csv" in text for text in answers[1:])
    assert not [text for text in answers if place in text]
