"""Small runs, and servers of them, for the tests of gattn serve."""

from pathlib import Path

import networkx
import pandas as pd
import pytest

from gattn.apps.serve.app import Server
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import train
from tests.apps.cli.molecule_table import GP, NETWORK, TABLE
from tests.apps.serve.clients import listening, serving
from tests.zoo import build_once


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of the runs of a module: numbers by a network, classes by a kernel, and a graph of
    nodes, unless the module defines another fixture of this name.
    """
    folder = build_once(tmp_path_factory, "served", _train)
    return {name: folder / name for name in ("numbers", "classes", "graph")}


def _train(folder: Path) -> None:
    data = folder / "data.csv"
    data.write_text(TABLE)
    graph = networkx.planted_partition_graph(2, 20, 0.3, 0.02, seed=0)
    rows = [{"id": f"n{i}", "size": i % 7 + 9 * (i >= 20), "group": "ab"[i >= 20]} for i in graph]
    pd.DataFrame(rows).to_csv(folder / "nodes.csv", index=False)
    pairs = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in graph.edges], columns=["from", "to"])
    pairs["weight"] = [1 + i % 3 for i in range(len(pairs))]
    pairs.to_csv(folder / "edges.csv", index=False)
    commands = {
        "numbers": ["molecules", data, "--target", "y", *NETWORK],
        "classes": ["molecules", data, "--target", "kind", "--coverage", 0.8, *GP],
        "graph": [
            "nodes", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "group",
            "--edge-weight", "weight", "--coverage", 0.6, "--epochs", 5, "--width", 8, "--heads", 2,
        ],
    }  # fmt: skip
    for name, (product, *arguments) in commands.items():
        train(product, "train", *arguments, "--out", folder / name)


@pytest.fixture(scope="module")
def runs(folders):
    """List of the loaded runs."""
    return open_runs(list(folders.values()), ServeSettings())


@pytest.fixture(scope="module")
def client_of(runs):
    """Return a context manager that starts a server of the runs and yields its client."""

    def start(**settings):
        return serving(Server(runs, ServeSettings(**{"workers": 1, **settings})))

    return start


@pytest.fixture(scope="module")
def client(client_of):
    """Client of a server with default settings."""
    with client_of() as client:
        yield client


@pytest.fixture(scope="module")
def address(runs):
    """Address of a server of all runs that listens on the loopback address."""
    with listening(Server(runs, ServeSettings(workers=1))) as address:
        yield address
