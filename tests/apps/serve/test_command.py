"""The command ``gattn serve``: its errors of one line, and a server in a process of its own."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.apps.cli.commands import runner


@pytest.fixture
def serve(monkeypatch, capsys):
    return runner(monkeypatch, capsys, "serve")


def test_serve_with_invalid_arguments_exits_with_one_line_of_error(serve, folders, tmp_path):
    code, message = serve(tmp_path, "--port", 0)
    assert code == 2
    assert "trained model: it has no model.json" in message
    code, message = serve(folders["classes"], "--token-file", tmp_path / "none.txt")
    assert code == 2
    assert "none.txt" in message
    code, message = serve(folders["classes"], "--queue", 0)
    assert (code, "queue must be a whole number, at least 1; got '0'" in message) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, message = serve(folders["classes"], "--port", port)
    assert code == 2
    assert f"127.0.0.1:{port} is used by another program: choose another --port" in message


def test_serve_without_uvicorn_gives_an_error_that_names_the_extra(serve, folders, monkeypatch):
    monkeypatch.delitem(sys.modules, "gattn.apps.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, message = serve(folders["classes"])
    assert code == 2
    assert message.strip() == 'gattn: this command needs uvicorn: pip install "gattn[serve]"'


@pytest.mark.slow
def test_serve_answers_requests_and_exits_after_a_signal(folders):
    command = [sys.executable, "-m", "gattn.apps.cli", "serve", folders["classes"], "--port", "0"]
    command += ["--workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == f"Loading {folders['classes']}\n"
        line = process.stderr.readline()
        assert line.startswith("http://127.0.0.1:"), line
        body = json.dumps({"smiles": ["CCO"]}).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{line.split()[0]}predict", body, headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert json.load(answer)["rows"][0]["error"] == ""
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert process.stderr.read() == "gattn: terminated\n"
