"""Small runs, and servers of them, for the tests of gattn serve."""

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import networkx
import pandas as pd
import pytest
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal

from gattn.serve.app import Server
from gattn.serve.server import open_runs
from gattn.serve.settings import ServeSettings
from tests.cli.commands import run_command
from tests.cli.molecule_table import GP, NETWORK, TABLE
from tests.pictures import leave_blank

ADDRESS = "http://127.0.0.1"


class Client:
    """A client of an application in this process, whose event loop runs in another thread."""

    def __init__(self, portal: BlockingPortal, client: httpx.AsyncClient) -> None:
        self.portal, self.client = portal, client

    def request(self, method: str, path: str, **options) -> httpx.Response:
        return self.portal.call(partial(self.client.request, method, path, **options))

    def get(self, path: str, **options) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options) -> httpx.Response:
        return self.request("POST", path, **options)

    def post_together(self, path: str, bodies: list) -> list[httpx.Response]:
        """Send JSON bodies at the same time."""

        async def send():
            return await asyncio.gather(*(self.client.post(path, json=body) for body in bodies))

        return self.portal.call(send)


@contextmanager
def serving(server: Server):
    """Start an application in this process and yield a client."""
    gate = server.application()
    app, transport = gate.app, httpx.ASGITransport(gate)
    client = httpx.AsyncClient(transport=transport, base_url=ADDRESS, timeout=600)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(app.router.lifespan_context(app)),
        portal.wrap_async_context_manager(client),
    ):
        yield Client(portal, client)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of three runs: numbers by a network, classes by a kernel, and a graph of nodes."""
    folder = tmp_path_factory.mktemp("served")
    data = folder / "data.csv"
    data.write_text(TABLE)
    graph = networkx.planted_partition_graph(2, 20, 0.3, 0.02, seed=0)
    rows = [{"id": f"n{i}", "size": i % 7 + 9 * (i >= 20), "group": "ab"[i >= 20]} for i in graph]
    pd.DataFrame(rows).to_csv(folder / "nodes.csv", index=False)
    pairs = pd.DataFrame([(f"n{a}", f"n{b}") for a, b in graph.edges], columns=["from", "to"])
    pairs.to_csv(folder / "edges.csv", index=False)
    commands = {
        "numbers": ["molecules", data, "--target", "y", *NETWORK],
        "classes": ["molecules", data, "--target", "kind", *GP],
        "graph": [
            "nodes", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--label", "group",
            "--epochs", 5, "--width", 8, "--heads", 2,
        ],
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        for name, (product, *arguments) in commands.items():
            assert run_command(patch, product, "train", *arguments, "--out", folder / name) == 0
    return {name: folder / name for name in commands}


@pytest.fixture(scope="session")
def runs(folders):
    """The loaded runs."""
    return open_runs(list(folders.values()), ServeSettings())


@pytest.fixture(scope="session")
def client_of(runs):
    """Return a context manager that starts a server of the runs and yields its client."""

    def start(**settings):
        return serving(Server(runs, ServeSettings(**{"workers": 1, **settings})))

    return start


@pytest.fixture(scope="session")
def client(client_of):
    """A client of a server with default settings."""
    with client_of() as client:
        yield client


@pytest.fixture(scope="session")
def address(runs):
    """Address of a server of all runs that listens on the loopback address."""
    application = Server(runs, ServeSettings(workers=1)).application()
    config = uvicorn.Config(application, port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"{ADDRESS}:{port}"
    server.should_exit = True
    thread.join()
