"""Routes of the server: the API and the web page."""

from __future__ import annotations

import asyncio
import json
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from email.message import Message
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, ValidationError

from gattn import __version__
from gattn.apps.report.report import rendered
from gattn.apps.run.model_io import coverage_of
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.gate import REPORT_POLICY
from gattn.apps.serve.links import ServedLinks
from gattn.apps.serve.molecules import ServedMolecules, draw_plain, read_csv_body
from gattn.apps.serve.nodes import ServedNetwork, ServedNodes
from gattn.apps.serve.schemas import (
    ErrorMessage,
    ExplainAnswer,
    ExplainRequest,
    Health,
    LinkAnswer,
    LinkRequest,
    LinksAnswer,
    ModelDescription,
    NodeAnswer,
    NodeRequest,
    PredictAnswer,
    PredictRequest,
    TableAnswer,
)
from gattn.apps.tables.csv_table import visible

if TYPE_CHECKING:
    from gattn.apps.serve.app import Server

STATIC = Path(__file__).parent / "static"
NO_FILE = "there is no such file of a model; GET /models lists them"

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorMessage, "description": description}
    for status, description in {
        400: "The body cannot be parsed.",
        401: "The token is missing or wrong.",
        403: "The request comes from another site.",
        404: "There is no such model or node.",
        408: "The request took too long.",
        413: "The body, its rows or a text is larger than the limit.",
        415: "The body is of another type.",
        422: "A field is missing or wrong.",
        429: "The queue is full.",
        503: "A process of the server was killed, or the server stops.",
    }.items()
}


class _Options(BaseModel):
    """Base class of the options in a request's URL; an unknown option is an error."""

    model_config = ConfigDict(extra="forbid")


class TableQuery(_Options):
    """Options of a request with a CSV body."""

    model: str | None = None
    coverage: Annotated[float | None, Query(gt=0, lt=1)] = None
    smiles: Annotated[
        list[str], Query(description="Columns of SMILES, one for each molecule of a row.")
    ] = []
    encoding: str | None = None


class NodesQuery(_Options):
    """Options of a search for nodes."""

    text: str = ""
    model: str | None = None


class PictureQuery(_Options):
    """Options of the picture of a molecule."""

    smiles: str
    dark: bool = False


class NodePictureQuery(_Options):
    """Options of the picture of a node."""

    name: str
    model: str | None = None
    dark: bool = False


def add_api(app: FastAPI, server: Server) -> None:
    """Add the routes of the API to an application."""

    @app.get("/health", responses={s: ERRORS[s] for s in (401, 403)})
    async def health() -> Health:
        """Return the state of the server."""
        return Health(
            status="ok", version=__version__, models=len(server.runs),
            open_requests=server.queue.open,
        )  # fmt: skip

    @app.get("/models", responses={s: ERRORS[s] for s in (401, 403)})
    async def models() -> list[ModelDescription]:
        """Return the loaded models."""
        return [run.describe() for run in server.runs.values()]

    @app.post(
        "/predict",
        responses={
            **ERRORS,
            200: {
                "model": PredictAnswer | TableAnswer,
                "content": {"text/csv": {"schema": {"type": "string"}}},
                "description": "Predictions: of a JSON body as PredictAnswer; of a CSV body as the "
                "CSV file of gattn molecules predict, or as TableAnswer if the request accepts "
                "application/json.",
            },
        },
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/json": {"schema": PredictRequest.model_json_schema()},
                    "text/csv": {"schema": {"type": "string"}},
                },
            }
        },
    )
    async def predict(request: Request, query: Annotated[TableQuery, Query()]) -> Response:
        """Predict molecules, from JSON or from a CSV file with a header.

        The options in the query are those of a CSV file; a JSON body has its own. The status is 415
        for another content type, and 422 for a table that cannot be read.
        """
        header = Message()
        header["content-type"] = request.headers.get("content-type", "")
        media = header["content-type"].partition(";")[0].strip().lower()
        if media == "application/json":
            if query.model_fields_set:
                raise RequestError(
                    422, "the options of a JSON body are fields of the body; the address has "
                    f"{', '.join(sorted(query.model_fields_set))}"
                )  # fmt: skip
            body = parsed_body(await request.body())
            return JSONResponse((await server.predict_smiles(body)).model_dump())
        if media != "text/csv":
            raise RequestError(
                415, "the content type must be application/json or text/csv; "
                f"got {media[:100]!r}",
            )  # fmt: skip
        run = server.run(ServedMolecules, query.model)
        charset = header.get_content_charset("utf-8")
        # A byte order mark names the encoding, too, so that of UTF-8 is left to the reader.
        encoding = query.encoding or (None if charset == "utf-8" else charset)
        table = await asyncio.to_thread(
            read_csv_body, await request.body(), run, query.smiles, encoding,
            server.settings.max_rows,
        )  # fmt: skip
        coverage = coverage_of(run.opened.card, query.coverage)
        predicted = await server.predict(run, table.input_rows, coverage)
        if "application/json" in request.headers.get("accept", ""):
            answer = TableAnswer(
                model=run.name, smiles_columns=table.positions,
                columns=[visible(name) for name in table.columns(run.columns)],
                rows=[[visible(cell) for cell in row] for row in table.cells(predicted)],
            )  # fmt: skip
            return JSONResponse(answer.model_dump())
        content = await asyncio.to_thread(table.write, run.columns, predicted)
        return Response(
            content, media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="predictions.csv"'},
        )  # fmt: skip

    @app.post("/explain", responses=ERRORS)
    async def explain(request: ExplainRequest) -> ExplainAnswer:
        """Predict a row, compute the weights of its atoms, and find the nearest training rows."""
        return await server.explain(request)

    @app.post("/node", responses=ERRORS)
    async def node(request: NodeRequest) -> NodeAnswer:
        """Return the prediction for a node, and the nodes that it attends to."""
        run = server.run(ServedNodes, request.model)
        return await server.look_up(run.predict, request.name)

    @app.get("/nodes", responses=ERRORS)
    async def nodes(query: Annotated[NodesQuery, Query()]) -> list[str]:
        """Return at most 20 names of nodes that contain a text, for a model of nodes or links."""
        run = server.run(ServedNetwork, query.model)
        return run.names.search(server.check_text(query.text, "the text"))

    @app.post("/link", responses=ERRORS)
    async def link(request: LinkRequest) -> LinkAnswer:
        """Return the score of a pair of nodes."""
        run = server.run(ServedLinks, request.model)
        return await server.look_up(run.pair, request.source, request.target)

    @app.post("/links", responses=ERRORS)
    async def links(request: NodeRequest) -> LinksAnswer:
        """Return at most 20 links of a node that are not in the graph, those with the highest
        scores.
        """
        run = server.run(ServedLinks, request.model)
        return await server.look_up(run.propose, request.name)


def add_page(app: FastAPI, server: Server) -> None:
    """Add the routes of the web page, its pictures and the files of the runs to an application."""
    svg, png = {"image/svg+xml": {}}, {"image/png": {}}

    @app.get("/picture", responses={**ERRORS, 200: {"content": svg}}, response_class=Response)
    async def picture(query: Annotated[PictureQuery, Query()]) -> Response:
        """Return the picture of a molecule."""
        draw = partial(draw_plain, dark=query.dark)
        content = await server.look_up(draw, query.smiles, what="the SMILES")
        headers = {"cache-control": "private, max-age=3600"}
        return Response(content, media_type="image/svg+xml", headers=headers)

    @app.get("/node/picture", responses={**ERRORS, 200: {"content": png}}, response_class=Response)
    async def node_picture(query: Annotated[NodePictureQuery, Query()]) -> Response:
        """Return the picture of a node and the nodes that it attends to."""
        run = server.run(ServedNodes, query.model)
        content = await server.look_up(partial(run.draw, dark=query.dark), query.name)
        return Response(content, media_type="image/png")

    @app.get("/models/{name}/{file}", responses=ERRORS, response_class=Response)
    async def run_file(name: str, file: str) -> Response:
        """Return the report (``report``), the model card (``card``) or the picture of the network
        (``network``) of a run. The status is 404 if there is no such file.
        """
        run = server.runs.get(name)
        if run is None or file not in run.files:
            raise RequestError(404, NO_FILE)
        content, media = await asyncio.to_thread(run.read, file)
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(content, media_type=media, headers=headers)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/static/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response(rendered("style.css"), media_type="text/css")

    app.mount("/static", StaticFiles(directory=STATIC))


def parsed_body(body: bytes) -> PredictRequest:
    """Parse a JSON body.

    Raises:
        RequestError: it is not JSON (400), or a field is missing or wrong (422).
    """
    try:
        return PredictRequest.model_validate_json(body.removeprefix(BOM_UTF8))
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False)) from error


def invalid_request(errors: Sequence[Any]) -> RequestError:
    """Return the error for a request whose body is not JSON (400), or has a wrong field (422),
    given the errors of pydantic.
    """
    status = 400 if errors[0]["type"] == "json_invalid" else 422
    return RequestError(status, invalid_field(errors))


LONGEST = 80
"""Maximum number of characters of a value in a sentence."""


def invalid_field(errors: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the first invalid field of a request.

    Args:
        errors: the errors of pydantic. Their places begin with a field.

    >>> invalid_field([{"msg": "Input should be a text", "type": "", "loc": ("a", 1), "input": 3}])
    'a.1: input should be a text; got 3'
    """
    first = errors[0]
    field = ".".join(map(str, first["loc"]))[:200] or "the body"
    if first["type"] == "json_invalid":
        return f"the body must be JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "extra_forbidden":
        return f"there is no field or option {field!r}; GET /openapi.json describes them"
    expected = first["msg"][:1].lower() + first["msg"][1:]
    return f"{field}: {expected}; got {json.dumps(first.get('input'), default=str)[:LONGEST]}"
