"""Sentences of gattn serve about invalid requests and addresses."""

import json
import socket

import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.serve import server as module
from gattn.apps.serve.server import addresses, serve
from gattn.apps.serve.settings import ServeSettings

CSV = {"content": b"smiles\nCCO\n", "headers": {"content-type": "text/csv"}}
BODIES = {
    '{"smiles": ["C"], "bogus": 1}':
        "there is no field or option 'bogus'; there are smiles, columns, model, coverage",
    '{"smiles": ["C"], "body": 1}':
        "there is no field or option 'body'; there are smiles, columns, model, coverage",
    '{"smiles": ["C"], "str": 1}':
        "there is no field or option 'str'; there are smiles, columns, model, coverage",
    "{}": "smiles is missing",
    "[1]": "the body must be an object; got a list",
    '{"smiles": []}': "smiles must have at least 1 entry; got none",
    '{"smiles": {"C": 1}}': "smiles must be a list; got an object",
    '{"smiles": ["C", null]}': "smiles.1 must be a text or a list of texts; got null",
    '{"smiles": ["C"], "model": 3}': "model must be a text; got 3",
    '{"smiles": ["C"], "coverage": "0.9"}': "coverage must be a number; got '0.9'",
    '{"smiles": ["C"], "coverage": 0}': "coverage must be above 0; got 0",
    '{"smiles": ["C"], "coverage": 1}': "coverage must be below 1; got 1",
    '{"smiles": ["C"], "columns": [1]}': "columns must be an object of values by name; got a list",
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_a_wrong_body_is_answered_by_a_plain_sentence(client, body):
    answer = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (422, BODIES[body])


def test_other_requests_are_answered_by_plain_sentences(client):
    answer = client.post("/node", json={"name": 3, "model": "graph"})
    assert answer.json()["error"] == "name must be a text; got 3"
    answer = client.post("/node", json={"name": "n1", "bogus": 3})
    assert answer.json()["error"] == "there is no field or option 'bogus'; there are name, model"
    answer = client.post("/explain", json={"smiles": 3})
    assert answer.json()["error"] == "smiles must be a text or a list of texts; got 3"
    answer = client.get("/picture", params={"smiles": "C", "dark": "perhaps"})
    assert answer.json()["error"] == "dark must be true or false; got 'perhaps'"
    answer = client.post("/predict", content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("the body must be JSON: ")


def test_an_unknown_option_of_the_address_is_refused(client):
    options = "model, coverage, smiles, encoding"
    for answer in (
        client.post("/predict?bogus=1", **CSV),
        client.post("/predict?bogus=1", json={"smiles": ["C"]}),
    ):
        sentence = f"there is no field or option 'bogus'; there are {options}"
        assert (answer.status_code, answer.json()["error"]) == (422, sentence)
    answer = client.post("/predict?coverage=2", **CSV)
    assert answer.json()["error"] == "coverage must be below 1; got '2'"
    answer = client.get("/nodes?bogus=1")
    assert "there are text, model" in answer.json()["error"]
    answer = client.post("/predict?coverage=0.5", json={"smiles": ["C"]})
    assert answer.status_code == 422
    assert "the options of a JSON body are fields of the body" in answer.json()["error"]


def test_a_long_value_is_shortened(client):
    answer = client.post("/predict", content=json.dumps({"smiles": "C" * 10_000}),
                         headers={"content-type": "application/json"})  # fmt: skip
    assert len(answer.json()["error"]) < 150


def test_addresses_that_cannot_be_used(folders, tmp_path):
    with pytest.raises(SettingsError, match=r"IP address of this machine.*got 'not\.a\.host'"):
        ServeSettings(host="not.a.host")
    with pytest.raises(SettingsError, match=r"got '127\.0\.0\.1:80'"):
        ServeSettings(host="127.0.0.1:80")
    with pytest.raises(OSError, match=r"^192\.0\.2\.1 is not an address of this machine"):
        serve([folders["classes"]], ServeSettings(host="192.0.2.1"))
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        with pytest.raises(OSError, match="is used by another program: choose another --port"):
            serve([folders["classes"]], ServeSettings(port=port))


@pytest.mark.parametrize(
    ("host", "here", "others"),
    [
        ("localhost", "http://localhost:80/", "http://localhost:80/"),
        ("::1", "http://[::1]:80/", "http://[::1]:80/"),
        ("192.0.2.1", "http://192.0.2.1:80/", "http://192.0.2.1:80/"),
        ("0.0.0.0", "http://127.0.0.1:80/", "http://lab7:80/"),
        ("::", "http://[::1]:80/", "http://lab7:80/"),
    ],
)
def test_other_machines_get_an_address_that_they_can_open(monkeypatch, host, here, others):
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7")
    assert addresses(ServeSettings(host=host), 80) == (here, [others])


@pytest.mark.parametrize("way", ["host", "proxy", "file"])
def test_the_command_prints_its_own_token_once_and_none_of_a_file(
    folders, monkeypatch, tmp_path, way
):
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7")
    monkeypatch.setattr(module.uvicorn.Server, "run", lambda self, sockets: None)
    (tmp_path / "token.txt").write_text("secret-of-the-test")
    options, page = {
        "host": ({"host": "0.0.0.0"}, "http://lab7:"),
        "proxy": ({"allowed_host": ("models.example.org",)}, "https://models.example.org/"),
        "file": ({"token_file": str(tmp_path / "token.txt")}, "http://127.0.0.1:"),
    }[way]
    settings, lines = ServeSettings(port=0, workers=1, **options), []
    serve([folders["classes"]], settings, lines.append)
    loading, first, second = lines
    assert loading == f"Loading {folders['classes']}"
    assert " serves classes; Ctrl-C stops it" in first
    assert second.startswith(f"Open {page}")
    shown = "TOKEN" if way == "file" else settings.token
    assert f"/?token={shown}" in second
    assert second.endswith(f"Authorization: Bearer {shown}")
    assert (settings.token in "".join(lines)) == (way != "file")
