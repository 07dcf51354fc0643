"""gattn serve of a model of nodes that was trained on samples."""

import networkx
import pandas as pd
import pytest

from tests.apps.cli.commands import train


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folder of a run that was trained on samples of a graph of 150 nodes."""
    folder = tmp_path_factory.mktemp("sampled")
    graph = networkx.planted_partition_graph(2, 75, 0.1, 0.01, seed=0)
    rows = [{"id": f"n{i}", "size": i % 7, "group": "ab"[i >= 75]} for i in graph]
    pd.DataFrame(rows).to_csv(folder / "nodes.csv", index=False)
    pairs = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in graph.edges], columns=["from", "to"])
    pairs.to_csv(folder / "edges.csv", index=False)
    train(
        "nodes", "train", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "group",
        "--memory", "1MB", "--epochs", 2, "--width", 8, "--heads", 2, "--out", folder / "run",
    )  # fmt: skip
    return {"run": folder / "run"}


def neighbours(folder, name):
    pairs = pd.read_csv(folder / "edges.csv").to_numpy().tolist()
    return {b if a == name else a for a, b in pairs if name in (a, b)}


def test_node_of_a_sampled_model_has_attention_to_all_its_neighbours(client, folders):
    for name in ("n0", "n37", "n149"):
        answer = client.post("/node", json={"name": name}).json()
        expected = neighbours(folders["run"].parent, name)
        assert {each["name"] for each in answer["neighbours"]} - {name} == expected
        for layer in zip(*(each["weights"] for each in answer["neighbours"])):
            assert sum(layer) == pytest.approx(1, abs=1e-5)
    picture = client.get("/node/picture", params={"name": "n37"})
    assert picture.content.startswith(b"\x89PNG")
