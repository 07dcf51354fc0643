"""Sentences of gattn serve about invalid requests and addresses."""

import json
import socket

import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.serve import server as module
from gattn.apps.serve.server import addresses, serve
from gattn.apps.serve.settings import ServeSettings

JSON = {"content-type": "application/json"}
CSV = {"content-type": "text/csv"}
WRONG = [
    ("/predict", JSON, '{"smiles": ["C"], "bogus": 1}', "no field or option 'bogus'"),
    ("/predict", JSON, "{}", "smiles is missing"),
    ("/predict", JSON, '{"smiles": []}', "smiles: list should have at least 1 item"),
    ("/predict", JSON, '{"smiles": ["C", null]}',
     "smiles.1: input should be a valid string; got null"),
    ("/predict", JSON, '{"smiles": ["C"], "coverage": "0.9"}', 'a valid number; got "0.9"'),
    ("/predict?bogus=1", JSON, '{"smiles": ["C"]}', "no field or option 'bogus'"),
    ("/predict?coverage=0.5", JSON, '{"smiles": ["C"]}', "of a JSON body are fields of the body"),
    ("/predict?coverage=2", CSV, "smiles\nCCO\n", 'coverage: input should be less than 1; got "2"'),
]  # fmt: skip
"""Addresses, headers and bodies of requests, and a part of the answer."""


def test_error_about_an_invalid_field_states_the_expected_value(client):
    for path, headers, body, sentence in WRONG:
        answer = client.post(path, content=body, headers=headers)
        assert (answer.status_code, sentence in answer.json()["error"]) == (422, True), answer.text


def test_error_about_an_invalid_field_shortens_a_long_value(client):
    answer = client.post("/predict", content=json.dumps({"smiles": "C" * 10_000}),
                         headers=JSON)  # fmt: skip
    assert len(answer.json()["error"]) < 200


def test_invalid_host_or_used_port_of_the_server_raises_error(folders, tmp_path):
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
def test_address_for_other_machines_contains_the_host_name_only_if_the_server_is_public(
    monkeypatch, host, here, others
):
    monkeypatch.setattr(socket, "gethostname", lambda: "lab7")
    assert addresses(ServeSettings(host=host), 80) == (here, [others])


@pytest.mark.parametrize("way", ["host", "proxy", "file"])
def test_serve_prints_a_generated_token_once_and_no_token_of_a_file(
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
