"""ASGI application of the server: the API for the loaded runs, and the files of the web page."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from gattn import __version__
from gattn.molecules.network import MoleculeNetwork
from gattn.serve.errors import RequestError
from gattn.serve.gate import EDITOR_POLICY, REPORT_POLICY, Gate, error_response
from gattn.serve.molecules import (
    METHODS,
    ExplainedMolecule,
    PredictedRow,
    ServedMolecules,
    as_values,
    draw_plain,
    explain_molecule,
    first_explanation,
    predict_rows,
)
from gattn.serve.nodes import ServedNodes
from gattn.serve.pool import ModelPool
from gattn.serve.queue import BatchQueue
from gattn.serve.schemas import (
    Atom,
    Domain,
    ErrorMessage,
    ExplainAnswer,
    ExplainRequest,
    Faithfulness,
    Health,
    ModelDescription,
    Neighbour,
    NodeAnswer,
    NodeNeighbour,
    NodeRequest,
    Pictures,
    PredictAnswer,
    PredictRequest,
    TableAnswer,
)
from gattn.serve.settings import ServeSettings
from gattn.serve.tables import read_csv_body
from gattn.training.model_io import read_json

__all__ = ["AnyRun", "Server"]

STATIC = Path(__file__).parent / "static"
FILES = {
    "report": ("report.html", "text/html; charset=utf-8"),
    "card": ("model.json", "application/json"),
    "network": ("plots/network.png", "image/png"),
}
"""Files of a run that the server sends, with their name in the URL, their path in the folder,
and their media type.
"""
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
        503: "A process of the server was killed.",
    }.items()
}
Body = TypeVar("Body", bound=BaseModel)
AnyRun = ServedMolecules | ServedNodes
Run = TypeVar("Run", ServedMolecules, ServedNodes)


class Server:
    """Loaded runs, the queue of requests, and the ASGI application that answers them.

    Args:
        runs: the runs, with different names.
        settings: settings of the server.
    """

    def __init__(self, runs: Sequence[AnyRun], settings: ServeSettings) -> None:
        self.settings = settings
        self.runs: dict[str, AnyRun] = {run.name: run for run in runs}
        molecules = [run for run in runs if isinstance(run, ServedMolecules)]
        self._position = {run.name: i for i, run in enumerate(molecules)}
        self.pool = ModelPool(
            [run.model for run in molecules], [run.folder for run in molecules], settings.workers,
            first_explanation,
        )  # fmt: skip
        self.queue: BatchQueue[tuple[str, float], PredictedRow] = BatchQueue(
            self._predict_batch, workers=self.pool.workers, capacity=settings.queue
        )

    async def _predict_batch(self, key: tuple[str, float], smiles: list[str]) -> list[PredictedRow]:
        name, coverage = key
        return await self.pool.call(predict_rows, self._position[name], smiles, coverage)

    def run(self, kind: type[Run], name: str | None) -> Run:
        """Return the run with a name; if the name is None, return the first run of this kind.

        Raises:
            RequestError: there is no such run (404).
        """
        runs = [run for run in self.runs.values() if isinstance(run, kind)]
        chosen = next((run for run in runs if name in (None, run.name)), None)
        if chosen is None:
            what = "molecules" if kind is ServedMolecules else "nodes"
            names = ", ".join(repr(run.name) for run in runs) or "none"
            shown = "" if name is None else f" {name[:200]!r}"
            raise RequestError(404, f"there is no model of {what}{shown}; there are: {names}")
        return chosen

    def check_text(self, text: str, what: str) -> str:
        """Return the text; raise an error if it is longer than the limit.

        Raises:
            RequestError: the text is longer (413).
        """
        most = self.settings.max_characters
        if len(text) > most:
            raise RequestError(
                413, f"{what} must have at most {most:,} characters; it has {len(text):,}"
            )
        return text

    async def predict(
        self, run: ServedMolecules, smiles: Sequence[str], coverage: float
    ) -> list[PredictedRow]:
        """Compute the predictions for the rows of a request.

        Raises:
            RequestError: there are too many rows, a SMILES is too long (413), or the queue is full
                (429).
        """
        if len(smiles) > self.settings.max_rows:
            raise RequestError(
                413, f"a request must have at most {self.settings.max_rows:,} rows; "
                f"it has {len(smiles):,}",
            )  # fmt: skip
        for row, text in enumerate(smiles, 1):
            self.check_text(text, f"the SMILES of row {row:,}")
        return await self.queue.compute((run.name, coverage), smiles)

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Compute the explanation of the molecule in a request."""
        run = self.run(ServedMolecules, request.model)
        self.check_text(request.smiles, "the SMILES")
        try:
            target = run.model.place_of(request.target)
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        with self.queue.admitted():
            explained = await self.pool.call(
                explain_molecule, self._position[run.name], request.smiles, request.method or "",
                target, request.coverage,
            )  # fmt: skip
        return _explain_answer(run, explained, target)

    def application(self) -> Gate:
        """Return the ASGI application. It checks every request before the API reads it."""

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            self.queue.start()
            try:
                yield
            finally:
                await self.queue.stop()
                self.pool.close()

        app = FastAPI(
            title="gattn", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
            description="Predictions of trained models of molecules and nodes.",
        )  # fmt: skip
        _add_api(app, self)
        _add_page(app, self)
        app.add_exception_handler(RequestError, _on_request_error)
        app.add_exception_handler(RequestValidationError, _on_invalid)
        app.add_exception_handler(HTTPException, _on_http_error)
        return Gate(app, self.settings)


class TableQuery(BaseModel):
    """Options of a request with a CSV body; they are in the query string of the URL."""

    model: str | None = None
    coverage: Annotated[float, Query(gt=0, lt=1)] = 0.9
    smiles: str | None = None
    encoding: str | None = None


def _add_api(app: FastAPI, server: Server) -> None:
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
        return [_description(run) for run in server.runs.values()]

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

        The options in the query are those of a CSV file; a JSON body has its own.
        """
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media == "application/json":
            body = _parsed(PredictRequest, await request.body())
            run = server.run(ServedMolecules, body.model)
            rows = await server.predict(run, body.smiles, body.coverage)
            answer = [as_values(run.model, row.cells) | {"error": row.error} for row in rows]
            return JSONResponse(PredictAnswer(model=run.name, rows=answer).model_dump())
        if media != "text/csv":
            raise RequestError(
                415, "the content type must be application/json or text/csv; "
                f"got {media[:100]!r}",
            )  # fmt: skip
        run = server.run(ServedMolecules, query.model)
        column = query.smiles or str(run.card.get("smiles", "smiles"))
        table = await anyio.to_thread.run_sync(
            read_csv_body, await request.body(), column, query.encoding, run.columns,
            server.settings.max_rows,
        )  # fmt: skip
        predicted = await server.predict(run, table.smiles, query.coverage)
        if "application/json" in request.headers.get("accept", ""):
            answer = TableAnswer(
                model=run.name, smiles_column=table.column,
                columns=[_visible(name) for name in table.columns(run.columns)],
                rows=[[_visible(cell) for cell in row] for row in table.cells(predicted)],
            )  # fmt: skip
            return JSONResponse(answer.model_dump())
        content = await anyio.to_thread.run_sync(table.write, run.columns, predicted)
        return Response(
            content, media_type="text/csv; charset=utf-8",
            headers={"content-disposition": 'attachment; filename="predictions.csv"'},
        )  # fmt: skip

    @app.post("/explain", responses=ERRORS)
    async def explain(request: ExplainRequest) -> ExplainAnswer:
        """Predict a molecule, compute the weights of its atoms, and find the nearest training
        molecules.
        """
        return await server.explain(request)

    @app.post("/node", responses=ERRORS)
    async def node(request: NodeRequest) -> NodeAnswer:
        """Return the prediction for a node, and the nodes that it attends to."""
        run = server.run(ServedNodes, request.model)
        prediction = run.predict(server.check_text(request.name, "the name"))
        return NodeAnswer(
            model=run.name, name=request.name, values=prediction.values, degree=prediction.degree,
            neighbours=[NodeNeighbour(**each) for each in prediction.neighbours],
        )  # fmt: skip

    @app.get("/nodes", responses=ERRORS)
    async def nodes(text: str = "", model: str | None = None) -> list[str]:
        """Return the names of at most 20 nodes whose name contains a text."""
        return server.run(ServedNodes, model).search(server.check_text(text, "the text"))


def _add_page(app: FastAPI, server: Server) -> None:
    svg, png = {"image/svg+xml": {}}, {"image/png": {}}

    @app.get("/picture", responses={**ERRORS, 200: {"content": svg}}, response_class=Response)
    async def picture(smiles: str, dark: bool = False) -> Response:
        """Return the picture of a molecule."""
        server.check_text(smiles, "the SMILES")
        with server.queue.admitted():
            content = await anyio.to_thread.run_sync(draw_plain, smiles, dark)
        headers = {"cache-control": "private, max-age=3600"}
        return Response(content, media_type="image/svg+xml", headers=headers)

    @app.get("/node/picture", responses={**ERRORS, 200: {"content": png}}, response_class=Response)
    async def node_picture(name: str, model: str | None = None, dark: bool = False) -> Response:
        """Return the picture of a node and the nodes that it attends to."""
        run = server.run(ServedNodes, model)
        with server.queue.admitted():
            content = await anyio.to_thread.run_sync(run.draw, name, dark)
        return Response(content, media_type="image/png")

    @app.get("/models/{name}/{file}", responses=ERRORS, response_class=FileResponse)
    async def run_file(name: str, file: str) -> FileResponse:
        """Return the report (``report``), the model card (``card``) or the picture of the
        network (``network``) of a run.
        """
        run = server.runs.get(name)
        if run is None or file not in _files(run):
            raise RequestError(404, "there is no such file of a model; GET /models lists them")
        path, media = FILES[file]
        headers = {"content-security-policy": REPORT_POLICY} if file == "report" else {}
        return FileResponse(run.folder / path, media_type=media, headers=headers)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/editor", include_in_schema=False)
    async def editor() -> FileResponse:
        return FileResponse(
            STATIC / "editor.html", headers={"content-security-policy": EDITOR_POLICY}
        )

    app.mount("/static", StaticFiles(directory=STATIC))


def _parsed(kind: type[Body], body: bytes) -> Body:
    """Parse a JSON body.

    Raises:
        RequestError: it is not JSON (400), or a field is missing or wrong (422).
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        status = 400 if first["type"] == "json_invalid" else 422
        raise RequestError(status, _sentence(first)) from error


def _sentence(error: Mapping[str, Any]) -> str:
    """Return a sentence about the first invalid field of a request."""
    place = [str(part) for part in error["loc"] if part not in ("body", "query", "path")]
    where = f"{'.'.join(place)[:200]}: " if place else ""
    return f"{where}{error['msg']}"


def _on_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    status = 400 if first["type"] == "json_invalid" else 422
    return error_response(RequestError(status, _sentence(first)))


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(RequestError(error.status_code, str(error.detail), error.headers))


def _visible(cell: str) -> str:
    """Replace bytes that are invalid in the file's encoding, because JSON cannot contain them."""
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _files(run: AnyRun) -> list[str]:
    return [name for name, (path, _) in FILES.items() if (run.folder / path).is_file()]


def _description(run: AnyRun) -> ModelDescription:
    """Return the entry for a run in the answer to GET /models."""
    metrics: dict[str, Any] = {}
    if (run.folder / "metrics.json").is_file():
        metrics = read_json(run.folder / "metrics.json", remedy="train the model again")["test"]
    common = {
        "name": run.name, "files": _files(run), "columns": run.columns, "notes": list(run.notes),
        "test": {name: _finite(value) for name, value in metrics.items()},
    }  # fmt: skip
    if isinstance(run, ServedNodes):
        label = str(run.estimator.label or "label")
        return ModelDescription(
            kind="nodes", task=run.estimator.task, targets=[label], units=[""],
            smiles_column=None, methods=[], size=len(run.graph), domain_threshold=None, **common,
        )  # fmt: skip
    networks = run.model.predictor_.networks
    attends = any(isinstance(network, MoleculeNetwork) for network in networks)
    units = run.card.get("units", {})
    return ModelDescription(
        kind="molecules", task=run.model.task, targets=run.model.targets_,
        units=[str(units.get(target, "")) for target in run.model.targets_],
        smiles_column=str(run.card.get("smiles", "smiles")),
        methods=[method for method in METHODS if attends or method != "attention"],
        size=len(run.training.smiles) if run.training else 0,
        domain_threshold=run.applicability.threshold if run.applicability else None, **common,
    )  # fmt: skip


def _explain_answer(
    run: ServedMolecules, explained: ExplainedMolecule, target: int
) -> ExplainAnswer:
    explanation, faithfulness = explained.explanation, explained.explanation.faithfulness
    values = list(as_values(run.model, explained.cells).values())
    by_name = {name: values[i] for name, i in run.target_columns(target).items()}
    similarity = float(explained.cells[-1])
    domain = percentile = None
    if run.applicability is not None:
        domain = Domain(
            similarity=similarity, threshold=run.applicability.threshold,
            inside=run.applicability.is_inside(similarity),
        )  # fmt: skip
    if run.training is not None:
        percentile = run.training.percentile(target, explanation.prediction)
    name = run.model.targets_[target]
    rows = zip(
        explanation.atoms, explanation.symbols, explanation.weights.tolist(),
        explanation.spread.tolist(),
    )  # fmt: skip
    return ExplainAnswer(
        model=run.name, target=name, unit=str(run.card.get("units", {}).get(name, "")),
        smiles=explanation.smiles, method=explanation.method,
        values={**by_name, "similarity": similarity}, percentile=percentile, domain=domain,
        nearest=[Neighbour(**each) for each in run.neighbours(explained.nearest, target)],
        atoms=[Atom(atom=a, symbol=s, weight=w, spread=_finite(d)) for a, s, w, d in rows],
        faithfulness=Faithfulness(
            top=faithfulness.top, random=faithfulness.random, random_std=faithfulness.random_std
        ),
        pictures=Pictures(light=explained.light, dark=explained.dark) if explained.light else None,
    )  # fmt: skip


def _finite(value: Any) -> Any:
    """Return the number; return None if it is infinite or NaN, because JSON cannot represent
    such numbers.
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value
