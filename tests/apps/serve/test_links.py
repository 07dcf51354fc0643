"""Tests of ``gattn serve`` with a run of ``gattn links train``: scores of pairs, and proposed links
of a node.
"""

import csv

import networkx
import pytest

from tests.apps.cli.commands import run_command, train
from tests.apps.serve.test_page import open_page


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folder of a run on the characters of a novel."""
    folder = tmp_path_factory.mktemp("links")
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], *networkx.les_miserables_graph().edges])
    options = ["--undirected", "--epochs", 3, "--width", 16, "--heads", 2]
    train("links", "train", folder / "edges.csv", *options, "--out", folder / "novel")
    return {"novel": folder / "novel"}


def test_models_endpoint_lists_kind_and_size_of_a_link_predictor(client):
    (model,) = client.get("/models").json()
    assert (model["kind"], model["size"]) == ("links", 254)
    assert model["warnings"] == []
    assert client.get("/nodes", params={"text": "val"}).json()[0] == "Valjean"


def test_links_endpoint_returns_the_same_proposals_as_command_predict(
    client, folders, tmp_path, monkeypatch
):
    folder, out = folders["novel"], tmp_path / "out.csv"
    command = ["links", "predict", folder, folder.parent / "edges.csv", "--out", out]
    assert run_command(monkeypatch, *command, "--per-node", "--top", 20) == 0
    with out.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "Marius"]
    answer = client.post("/links", json={"name": "Marius"}).json()
    # Further nodes have equal scores, whose order depends on rounding.
    assert [each["name"] for each in answer["links"][:10]] == [row["target"] for row in rows[:10]]
    for each, row in zip(answer["links"], rows, strict=True):
        assert each["score"] == pytest.approx(float(row["score"]), rel=1e-4)
        assert each["probability"] == pytest.approx(float(row["probability"]), rel=1e-4)
    best = answer["links"][0]
    body = {"source": "Marius", "target": best["name"]}
    pair = client.post("/link", json=body).json()
    assert pair["score"] == pytest.approx(best["score"], rel=1e-4)
    assert not pair["linked"]
    assert client.post("/link", json={"source": "Marius", "target": "Cosette"}).json()["linked"]


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/links", {"name": "Nobody"}, 404, "novel has no node 'Nobody'"),
        ("/link", {"source": "Marius", "target": "x"}, 404, "novel has no node 'x'"),
        ("/link", {"source": "Marius", "target": "Marius"}, 422,
         "source and target must be different nodes"),
        ("/link", {"source": "Marius"}, 422, "target is missing"),
        ("/link", {"source": "a", "target": "b", "model": "x"}, 404,
         "there is no model of links 'x'; there are: 'novel'"),
        ("/node", {"name": "Marius"}, 404, "no model of nodes is served; start the server with a "
         "run of gattn nodes train"),
        ("/predict", {"smiles": ["C"]}, 404, "no model of molecules is served; start the server "
         "with a run of gattn molecules train"),
    ],
)  # fmt: skip
def test_invalid_request_to_a_server_of_links_gets_an_error_status(
    client, path, body, status, sentence
):
    answer = client.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]) == (status, sentence)


@pytest.mark.slow
def test_page_shows_proposals_and_the_score_of_a_link(browser, address):
    with open_page(browser, address) as page:
        page.find("#source").send_keys("Marius")
        page.find("#link-form button").click()
        page.wait("#links tbody tr", 10)
        page.find("#target").send_keys("Cosette")
        page.find("#link-form button").click()
        page.until(lambda: "The graph has this link" in page.text_of("#links"))
