"""``gattn serve``: answers of the API, compared with the commands, and its errors."""

import asyncio
import csv
import gzip
import io
import json
import multiprocessing
import re
import threading
import time
from functools import partial

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.explain import explain_model
from gattn.apps.serve import app as application
from gattn.apps.serve.app import Server
from gattn.apps.serve.gate import Gate
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import run_command, train
from tests.apps.cli.molecule_table import GP, ROWS
from tests.apps.serve.clients import serving

SMILES = ["CCCCO", "CCN", "c1ccccc1O", "CC(C)CO"]
CSV = b"smiles,prediction\nCCO,1\nbad(,2\n\nCCCN,3,4\nC\xff,5\n'=1+1',6\n"


def test_models_endpoint_lists_kind_coverage_and_columns_of_each_model(client):
    assert client.get("/health").json()["models"] == 3
    models = {model["name"]: model for model in client.get("/models").json()}
    assert models["numbers"]["columns"] == [
        *("prediction", "std", "lower", "upper", "percentile", "similarity")
    ]
    assert models["numbers"]["size"] == 64
    assert models["graph"]["kind"] == "nodes"
    coverages = {name: model["coverage"] for name, model in models.items()}
    assert coverages == {"numbers": 0.9, "classes": 0.8, "graph": 0.6}
    assert models["numbers"]["notes"] == models["classes"]["notes"] == []


@pytest.mark.parametrize("name", ["numbers", "classes"])
def test_csv_request_returns_the_same_bytes_as_command_predict(
    client, folders, name, tmp_path, monkeypatch
):
    (tmp_path / "in.csv").write_bytes(CSV)
    out = tmp_path / "out.csv"
    command = ["molecules", "predict", folders[name], tmp_path / "in.csv", "--out", out]
    assert run_command(monkeypatch, *command) == 0
    headers = {"content-type": "text/csv"}
    answer = client.post(f"/predict?model={name}", content=CSV, headers=headers)
    assert answer.status_code == 200
    assert answer.content == out.read_bytes()
    headers["accept"] = "application/json"
    table = client.post(f"/predict?model={name}", content=CSV, headers=headers).json()
    rows = list(csv.reader(io.StringIO(out.read_bytes().decode(errors="replace"))))
    assert [table["columns"], *table["rows"]][:4] == rows[:4]


def test_json_request_returns_the_same_predictions_and_errors_as_a_csv_request(client):
    body = {"smiles": ["CCO", "bad("], "coverage": 0.5}
    answer = client.post("/predict", json=body).json()
    headers = {"content-type": "text/csv"}
    content = b"smiles\nCCO\nbad(\n"
    table = client.post("/predict?coverage=0.5", content=content, headers=headers).text
    good, bad = csv.DictReader(io.StringIO(table))
    assert answer["model"] == "numbers"
    for column, cell in good.items():
        if column not in ("smiles", "error"):
            assert answer["rows"][0][column] == float(cell)
    assert answer["rows"][1]["error"] == bad["error"] != ""
    assert answer["rows"][1]["prediction"] is None
    row = client.post("/predict", json={"smiles": ["CCO"], "coverage": 0.99}).json()["rows"][0]
    assert (row["lower"], row["upper"]) == (None, None)  # JSON has no infinity.


def test_simultaneous_requests_are_batched_and_get_the_same_predictions_as_separate_requests(
    client_of, monkeypatch
):
    batches = []

    def predict_slowly(model, smiles, coverage, predict=application.predict_rows):
        batches.append(len(smiles))
        time.sleep(0.05)
        return predict(model, smiles, coverage)

    monkeypatch.setattr(application, "predict_rows", predict_slowly)
    bodies = [{"smiles": SMILES[i % 4 :][:2]} for i in range(12)]
    with client_of() as client:
        together = [answer.json()["rows"] for answer in client.post_together("/predict", bodies)]
        assert len(batches) < 12
        assert sum(batches) == sum(len(body["smiles"]) for body in bodies)
        alone = [client.post("/predict", json=body).json()["rows"] for body in bodies]
    for some, others in zip(together, alone, strict=True):
        for row, other in zip(some, others, strict=True):
            assert row["prediction"] == pytest.approx(other["prediction"], rel=1e-5)
            assert row["similarity"] == other["similarity"]


@pytest.mark.slow
def test_server_with_two_processes_gives_the_same_predictions_as_with_one_and_recovers_if_killed(
    client_of, client
):
    with client_of(workers=2, timeout=600) as processes:
        body = {"smiles": SMILES}
        for name in ("numbers", "classes"):
            alone = client.post("/predict", json={**body, "model": name}).json()
            rows = processes.post("/predict", json={**body, "model": name}).json()["rows"]
            for row, other in zip(rows, alone["rows"], strict=True):
                assert row["error"] == other["error"] == ""
                assert row["std"] == pytest.approx(other["std"], rel=1e-4)
        bad = processes.post("/explain", json={"smiles": "bad("})
        assert (bad.status_code, "cannot be read" in bad.json()["error"]) == (422, True)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        killed = processes.post("/predict", json=body)
        assert (killed.status_code, "was killed" in killed.json()["error"]) == (503, True)
        assert processes.post("/predict", json=body).status_code == 200


def test_values_of_explain_equal_those_of_predict(client):
    answer = client.post("/explain", json={"smiles": "CCCCCCO"}).json()
    predicted = client.post("/predict", json={"smiles": ["CCCCCCO"]}).json()["rows"][0]
    assert answer["values"]["prediction"] == predicted["prediction"]
    assert [atom["symbol"] for atom in answer["atoms"]] == list("CCCCCCO")
    assert answer["values"]["percentile"] == predicted["percentile"]
    assert answer["domain"]["similarity"] == predicted["similarity"]
    assert answer["pictures"]["light"].startswith("<?xml")
    assert answer["pictures"]["light"] != answer["pictures"]["dark"]


def test_explain_returns_the_same_values_as_predict_for_each_of_two_targets(tmp_path):
    data, both = tmp_path / "data.csv", tmp_path / "both"
    data.write_text("smiles,y,z\n" + "".join(f"{text},{y},{-y}\n" for text, y, _ in ROWS))
    train("molecules", "train", data, "--target", "y", "--target", "z", *GP, "--out", both)
    with serving(Server(open_runs([both], ServeSettings()), ServeSettings(workers=1))) as client:
        body = {"smiles": "CCCCCCO", "coverage": 0.5}
        assert "target must be one of y, z" in client.post("/explain", json=body).json()["error"]
        row = client.post("/predict", json={**body, "smiles": [body["smiles"]]}).json()["rows"][0]
        for target, sign in (("y", 1), ("z", -1)):
            answer = client.post("/explain", json={**body, "target": target}).json()
            for name in ("prediction", "std", "lower", "upper"):
                assert answer["values"][name] == row[f"{target}_{name}"]
            assert all(sign * each["value"] > 0 for each in answer["nearest"])


def test_node_endpoint_returns_prediction_and_attention_of_the_node(client, runs):
    graph = runs[2]
    answer = client.post("/node", json={"name": "n3"}).json()
    with (graph.folder / "predictions.csv").open(newline="") as file:
        (row,) = (row for row in csv.DictReader(file) if row["node"] == "n3")
    assert answer["values"]["prediction"] == row["prediction"]
    edges, weights = graph.estimator.attention(graph.graph)[0]
    into = edges[1] == 3
    assert answer["degree"] == len(set(edges[0][into].tolist()))
    expected = dict(zip(edges[0][into].tolist(), weights[into].mean(1).tolist(), strict=True))
    for each in answer["neighbours"]:
        place = graph.names.index[each["name"]]
        assert each["prediction"] == graph.rows[place][0]
        assert each["weights"][0] == pytest.approx(expected[place], rel=1e-5)
    assert client.get("/nodes", params={"text": "N1"}).json()[:3] == ["n1", "n10", "n11"]
    picture = client.get("/node/picture", params={"name": "n3", "dark": True})
    assert picture.content[1:4] == b"PNG"


def test_server_returns_report_and_picture_of_a_run_but_no_other_files(client):
    report = client.get("/models/numbers/report")
    assert report.status_code == 200
    assert "sandbox" in report.headers["content-security-policy"]
    network = client.get("/models/graph/network")
    assert (network.status_code, network.headers["content-type"]) == (200, "image/png")
    others = ["/models/numbers/weights", "/models/../../etc/passwd", "/models/x/report"]
    others += ["/static/../app.py", "/static/%2e%2e/app.py", "/models/numbers/..%2fmodel.json"]
    for path in others:
        answer = client.get(path)
        assert (path, answer.status_code) == (path, 404)
        assert answer.json()["error"]


HOSTILE = {
    "no JSON": b"{",
    "no object": b"[1]",
    "deep": b"[" * 100_000,
    "deep object": b'{"smiles":' * 50_000,
    "not UTF-8": b'{"smiles": ["\xff"]}',
    "UTF-16": '{"smiles": ["C"]}'.encode("utf-16"),
    "lone surrogate": b'{"smiles": ["\\ud800"]}',
    "no rows": b'{"smiles": []}',
    "nested": b'{"smiles": [["C"]]}',
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
    "coverage NaN": b'{"smiles": ["C"], "coverage": NaN}',
    "coverage large": b'{"smiles": ["C"], "coverage": 1e999}',
    "unknown model": b'{"smiles": ["C"], "model": "<script>alert(1)</script>"}',
    "path as model": b'{"smiles": ["C"], "model": "../../etc/passwd"}',
    "model of nodes": b'{"smiles": ["C"], "model": "graph"}',
    "many rows": json.dumps({"smiles": ["C"] * 10_001}).encode(),
    "large": b'{"smiles": ["' + b"C" * 9_000_000 + b'"]}',
}
HOSTILE_CSV = {
    "empty": b"",
    "open quote": b'smiles\n"C\n',
    "long cell": b"smiles\n" + b"C" * 10**6 + b"\n",
    "zip": b"PK\x03\x04" + bytes(100),
    "NUL": b"smi\x00les\nC\n",
    "many rows": b"smiles\n" + b"C\n" * 10_001,
    "unknown separator": b"sep=x\nsmilesxid\n",
}


def test_explain_describes_the_predicted_class_in_text_and_picture(client, runs):
    model = next(run for run in runs if run.name == "classes").model
    first, second = map(str, model.classes_)
    predicted = set()
    for smiles in ("CCCCCCO", "CCN", "CCCCCN", "CO"):
        answer = client.post("/explain", json={"smiles": smiles, "model": "classes"}).json()
        label = answer["values"]["prediction"]
        predicted.add(label)
        assert re.fullmatch(rf"P\(\w+ = {label}\)", answer["explained"])
        assert answer["explained"] in answer["pictures"]["light"]
        explanation = explain_model(model, model.featurise([smiles]).inputs)[0]
        weights = [atom["weight"] for atom in answer["atoms"]]
        assert weights == pytest.approx(explanation.weights.tolist(), abs=1e-9)
        assert answer["faithfulness"]["top"] == pytest.approx(explanation.faithfulness.top)
        assert 0 <= answer["values"]["percentile"] <= 100
        assert {each["value"] for each in answer["nearest"]} <= {first, second}
    assert predicted == {first, second}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_body_gets_an_error_status(client, name):
    headers = {"content-type": "application/json"}
    for path in ("/predict", "/explain"):
        _is_refused(client.post(path, content=HOSTILE[name], headers=headers))


@pytest.mark.parametrize("name", HOSTILE_CSV)
def test_hostile_csv_body_gets_an_error_status_without_paths(client, name):
    headers = {"content-type": "text/csv"}
    answer = client.post("/predict", content=HOSTILE_CSV[name], headers=headers)
    _is_refused(answer)
    assert "/tmp" not in answer.text


def test_csv_body_is_read_with_the_charset_of_its_content_type(client):
    table = "smiles,name\nC,M\u00e9thane\n"
    for charset in ("latin-1", "utf-16", "UTF-8", "utf-8-sig"):
        answer = client.post(
            "/predict?model=numbers", content=table.encode(charset),
            headers={"content-type": f"text/csv; charset={charset}"},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        assert answer.text.splitlines()[1].startswith("C,M\u00e9thane,")
    headers = {"content-type": "text/csv; charset=klingon"}
    _is_refused(client.post("/predict?model=numbers", content=b"smiles\nC\n", headers=headers))


def test_json_body_may_have_a_byte_order_mark_but_no_compression(client):
    body, headers = b'{"smiles": ["C"], "model": "numbers"}', {"content-type": "application/json"}
    marked = client.post("/predict", content=b"\xef\xbb\xbf" + body, headers=headers)
    assert marked.json() == client.post("/predict", content=body, headers=headers).json()
    headers["content-encoding"] = "gzip"
    answer = client.post("/predict", content=gzip.compress(body), headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"] == "the body must not be compressed; got 'gzip'"


def _is_refused(answer):
    assert 400 <= answer.status_code < 500
    sentence = answer.json()["error"]
    assert 5 < len(sentence) < 500


def test_invalid_request_gets_an_error_status_with_a_sentence(client):
    assert client.post("/predict", content=b"C", headers={"content-type": "x/y"}).status_code == 415
    query = {"content": b"smiles\nC\n", "headers": {"content-type": "text/csv"}}
    for path in ("?encoding=none", "?coverage=2", "?smiles=no", "?model=none"):
        _is_refused(client.post(f"/predict{path}", **query))
    faults = {"x": "x"}, {"target": "x"}
    for body in ({"smiles": "C" * 251}, {"smiles": ""}, *({"smiles": "C"} | one for one in faults)):
        _is_refused(client.post("/explain", json=body))
    for body in ({"name": "x"}, {"name": ""}, {"name": "n1", "model": "numbers"}):
        _is_refused(client.post("/node", json=body))
    for smiles in ("bad(", "", "C" * 5000, "C" * 900):
        _is_refused(client.get("/picture", params={"smiles": smiles}))
    assert client.get("/predict").status_code == 405
    assert client.get("/nothing").json()["error"].startswith("there is no such path; GET /openapi")
    assert client.get("/explain").json() == {"error": "GET is not answered here; use POST"}
    # curl -d declares this type.
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post("/explain", content=b'{"smiles": "C"}', headers=form)
    assert answer.status_code == 415
    assert f"must be application/json; got '{form['content-type']}'" in answer.json()["error"]


def test_request_with_a_repeated_key_or_option_gets_status_422(client):
    headers = {"content-type": "application/json"}
    bodies = {
        "/predict": b'{"smiles": ["C"], "smiles": ["N"]}',
        "/explain": b'{"smiles": "C", "model": "numbers", "model": "classes"}',
        "/node": b'{"name": "n1", "name": "n2"}',
    }
    for path, body in bodies.items():
        answer = client.post(path, content=body, headers=headers)
        assert answer.status_code == 422
        assert re.search("has the key '(smiles|model|name)' twice", answer.json()["error"])
    answer = client.get("/picture?smiles=C&smiles=N")
    assert answer.status_code == 422
    assert "option 'smiles' twice" in answer.json()["error"]


def test_head_request_returns_the_same_status_and_headers_as_a_get_request(client, address):
    for path in ("/", "/health", "/models", "/static/style.css", "/picture?smiles=C", "/nothing"):
        get, head = httpx.get(address + path), httpx.head(address + path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        names = {"content-length", "content-type"}
        assert {n: head.headers[n] for n in names} == {n: get.headers[n] for n in names}
    assert client.request("HEAD", "/predict").status_code == 405


def test_request_to_a_full_queue_gets_status_429(client_of, monkeypatch):
    begin, end = threading.Event(), threading.Event()

    def wait(model, smiles, coverage, predict=application.predict_rows):
        begin.set()
        assert end.wait(20)
        return predict(model, smiles, coverage)

    monkeypatch.setattr(application, "predict_rows", wait)
    with client_of(queue=2) as client:
        send = partial(client.client.post, "/predict", json={"smiles": ["C"]})
        pair = [client.portal.start_task_soon(send) for _ in range(2)]
        assert begin.wait(20)
        while client.get("/health").json()["open_requests"] < 2:
            time.sleep(0.01)
        refused = client.post("/predict", json={"smiles": ["C"]})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert client.post("/explain", json={"smiles": "C"}).status_code == 429
        end.set()
        assert [each.result().status_code for each in pair] == [200, 200]
        assert client.post("/predict", json={"smiles": ["C"]}).status_code == 200


def test_request_that_exceeds_the_timeout_gets_status_408(client_of, monkeypatch):
    monkeypatch.setattr(application, "predict_rows", lambda *arguments: time.sleep(0.5))
    with client_of(timeout=0.1) as client:
        answer = client.post("/predict", json={"smiles": ["C"]})
    assert answer.status_code == 408
    assert "more than 0.1 seconds" in answer.json()["error"]


def test_open_request_gets_status_503_if_the_server_stops():
    messages = []

    async def wait_forever(scope, receive, send):
        await asyncio.to_thread(time.sleep, 0.5)
        await asyncio.Event().wait()

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        messages.append(message)

    async def stop():
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"",
                 "headers": [(b"host", b"localhost")]}  # fmt: skip
        request = asyncio.create_task(Gate(wait_forever, ServeSettings())(scope, receive, send))
        await asyncio.sleep(0.05)
        begin = time.monotonic()
        request.cancel()  # This is how uvicorn ends requests when it stops.
        await request
        return time.monotonic() - begin

    assert asyncio.run(stop()) < 0.4  # The answer does not wait for the thread.
    assert messages[0]["status"] == 503
    assert b"the server stops" in messages[1]["body"]


def test_request_of_another_host_or_origin_gets_status_403(client):
    assert client.get("/health", headers={"host": "localhost:8000"}).status_code == 200
    assert client.get("/health", headers={"host": "[::1]:8000"}).status_code == 200
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "10.0.0.1"):
        assert client.get("/health", headers={"host": host}).status_code == 403
    for origin, status in (("http://127.0.0.1", 200), ("http://evil.example", 403), ("null", 403)):
        assert client.get("/health", headers={"origin": origin}).status_code == status


def test_server_on_a_public_address_requires_its_token(client_of, tmp_path):
    file, token = tmp_path / "token.txt", "correct horse battery"
    for content, fault in {"short": "at least 16 characters; got 5", " ": "is empty"}.items():
        file.write_text(content)
        with pytest.raises(SettingsError, match=fault):
            ServeSettings(token_file=str(file))
    file.write_text(f"{token}\n")
    assert (ServeSettings(host="::1").is_local, ServeSettings(host="::1").token) == (True, "")
    assert not ServeSettings(host="::").is_local
    tokens = {ServeSettings(host="0.0.0.0").token for _ in range(2)}
    assert (len(tokens), min(map(len, tokens)) >= 32) == (2, True)
    with client_of(host="0.0.0.0", token_file=str(file)) as client:
        refused = client.get("/models")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get("/?token=wrong").status_code == 401
        assert client.get("/models", headers={"authorization": "Bearer x"}).status_code == 401
        assert client.get("/models", headers={b"cookie": b"gattn_token=\xe9"}).status_code == 401
        bearer = {"authorization": f"Bearer {token}", "host": "server.example"}
        assert client.get("/models", headers=bearer).status_code == 200
        assert client.get("/static/style.css").status_code == 200
        page = client.get("/", params={"token": token})
        assert (page.status_code, page.headers["location"]) == (303, "/")
        cookie = page.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/models").status_code == 200  # The client stores the cookie.


def test_request_through_a_proxy_requires_an_allowed_host_and_a_token(client_of):
    proxy = {"host": "models.example.org", "origin": "https://models.example.org"}
    body = {"json": {"smiles": ["C"]}}
    with client_of() as client:
        assert client.post("/predict", headers=proxy, **body).status_code == 403
    settings = {"allowed_host": ("Models.example.org",)}
    token = ServeSettings(**settings)
    assert token.token
    with client_of(**settings) as client:
        secret = client.settings.token
        proxy["authorization"] = f"Bearer {secret}"
        local = {**proxy, "host": "127.0.0.1:8000"}  # A proxy can also send its own Host.
        for headers in (proxy, local):
            assert client.post("/predict", headers=headers, **body).status_code == 200
        hosts = {"origin": "https://evil.example"}, {"host": "evil.example"}, {"origin": "null"}
        for change in ({"authorization": ""}, *hosts):
            refused = client.post("/predict", headers={**proxy, **change}, **body)
            assert refused.status_code == (401 if "authorization" in change else 403), change
    for name in ("https://models.example.org", "models.example.org:443", ""):
        with pytest.raises(SettingsError, match="host name without a scheme"):
            ServeSettings(allowed_host=(name,))


def test_picture_embedded_in_another_site_gets_status_403(client):
    embedded = ("cross-site", "image", 403), ("same-site", "iframe", 403)
    direct = ("cross-site", "document", 200), ("none", "document", 200)
    for site, mode, status in (*embedded, *direct, ("same-origin", "image", 200)):
        headers = {"sec-fetch-site": site, "sec-fetch-dest": mode}
        answer = client.get("/node/picture?name=n1", headers=headers)
        assert answer.status_code == status, (site, mode)


def test_molecule_above_the_size_limit_gets_an_error_in_its_row(client, client_of):
    rows = client.post("/predict", json={"smiles": ["C" * 251, "C"]}).json()["rows"]
    assert "more than max_atoms=250" in rows[0]["error"]
    assert rows[1]["error"] == ""
    with client_of(max_characters=10) as client:
        rows = client.post("/predict", json={"smiles": ["CCO", "C" * 11, "CCN"]}).json()["rows"]
        assert [bool(row["error"]) for row in rows] == [False, True, False]
        assert rows[1]["error"] == "the SMILES must have at most 10 characters; it has 11"
        assert rows[1]["prediction"] is None
        assert client.post("/explain", json={"smiles": "C" * 11}).status_code == 413


def test_every_response_has_the_security_headers(client):
    for path in ("/", "/models", "/nothing", "/static/app.js"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


TEXTS = st.text(max_size=30) | st.sampled_from(["C", "CCO", "numbers", "classes", "graph", "n1"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
LISTS = SCALARS | st.lists(SCALARS, max_size=3)
VALUES = LISTS | st.dictionaries(TEXTS, LISTS, max_size=3)
FIELDS = st.sampled_from(["smiles", "model", "coverage", "target", "name", "text"])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_random_request_gets_a_server_error_status(client, data):
    paths = client.get("/openapi.json").json()["paths"]
    path = data.draw(st.sampled_from(sorted(paths)))
    method = data.draw(st.sampled_from(sorted(paths[path])))
    query = data.draw(st.dictionaries(FIELDS, TEXTS, max_size=3))
    content = json.dumps(data.draw(st.dictionaries(FIELDS, VALUES, max_size=3) | VALUES))
    media = data.draw(st.sampled_from(["application/json", "text/csv"]))
    answer = client.request(
        method.upper(), path, params=query, content=content, headers={"content-type": media}
    )
    assert answer.status_code < 500
    assert answer.status_code < 400 or answer.json()["error"]
