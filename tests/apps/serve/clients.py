"""A client of an application in the test process, and a server on the loopback address."""

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal

from gattn.apps.serve.app import Server

ADDRESS = "http://127.0.0.1"
AXE = Path(__file__).parent / "assets" / "axe.min.js"


class Client:
    """Client of an application in this process, whose event loop runs in another thread."""

    def __init__(self, portal: BlockingPortal, client: httpx.AsyncClient, settings) -> None:
        self.portal, self.client, self.settings = portal, client, settings

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
        yield Client(portal, client, server.settings)


@contextmanager
def listening(server: Server):
    """Start a server that listens on the loopback address, and yield its address."""
    config = uvicorn.Config(server.application(), port=0, log_level="error", ws="none")
    listener = uvicorn.Server(config)
    thread = threading.Thread(target=listener.run)
    thread.start()
    while not listener.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = listener.servers[0].sockets[0].getsockname()[1]
    yield f"{ADDRESS}:{port}"
    listener.should_exit = True
    thread.join()


def axe_faults(browser) -> list[tuple[str, str]]:
    """Return the faults that axe finds on the page in a browser: rule and first element."""
    browser.execute_script(AXE.read_text("utf-8"))
    result = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document).then(done, error => done(String(error)))"
    )
    assert isinstance(result, dict), result
    return [(each["id"], each["nodes"][0]["html"][:200]) for each in result["violations"]]
