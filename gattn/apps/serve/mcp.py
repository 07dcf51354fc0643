"""Endpoint of the server for agents, which speak the Model Context Protocol (MCP)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, cast

from fastapi import FastAPI
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route

from gattn import __version__
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.schemas import (
    Coverage,
    ModelDescription,
    ModelName,
    PredictAnswer,
    PredictRequest,
    SmilesList,
)

if TYPE_CHECKING:
    from gattn.apps.serve.app import Server


def add_mcp(app: FastAPI, server: Server) -> AbstractAsyncContextManager[None]:
    """Add the route ``/mcp`` to an application, with the tools ``models`` and ``predict``.

    Returns:
        A context in which the route answers requests.
    """
    # Without a level, the server prints a line for each start and each request.
    tools = MCPServer("gattn", version=__version__, log_level="WARNING")

    @tools.tool()
    async def models() -> list[ModelDescription]:
        """Return the models, their targets, columns and test errors."""
        return [run.describe() for run in server.runs.values()]

    @tools.tool()
    async def predict(
        smiles: SmilesList, model: ModelName = None, coverage: Coverage = None
    ) -> PredictAnswer:
        """Predict molecules, given as SMILES, with intervals or sets of classes. A call with
        invalid arguments gets an error that contains the reason.
        """
        request = PredictRequest(smiles=smiles, model=model, coverage=coverage)
        try:
            return await server.predict_smiles(request)
        except RequestError as error:
            raise ToolError(error.message) from error

    # The gate has already checked the host, the origin and the size of a request.
    inner = tools.streamable_http_app(
        stateless_http=True, json_response=True, max_request_body_size=server.settings.max_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )  # fmt: skip
    # A GET request would open a stream, which a server without sessions never uses.
    app.add_route("/mcp", cast(Route, inner.routes[0]).endpoint, methods=["POST"])
    return tools.session_manager.run()
