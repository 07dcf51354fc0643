"""ASGI application of the server: the API for the loaded runs, and the files of the web page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException

from gattn import __version__
from gattn.molecules.network import MoleculeNetwork
from gattn.molecules.row_format import BETWEEN
from gattn.molecules.runs.columns import SIMILARITY
from gattn.molecules.runs.predict import OUTSIDE
from gattn.serve.errors import RequestError
from gattn.serve.gate import EDITOR_POLICY, REPORT_POLICY, Gate, error_response
from gattn.serve.links import ServedLinks
from gattn.serve.molecules import (
    METHODS,
    ExplainedMolecule,
    PredictedRow,
    Question,
    ServedMolecules,
    as_values,
    draw_plain,
    explain_molecule,
    first_explanation,
    predict_rows,
    similarity_of,
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
    LinkAnswer,
    LinkRequest,
    LinksAnswer,
    ModelDescription,
    Neighbour,
    NodeAnswer,
    NodeNeighbour,
    NodeRequest,
    Pictures,
    PredictAnswer,
    PredictRequest,
    ProposedLink,
    TableAnswer,
)
from gattn.serve.sentences import invalid_field
from gattn.serve.settings import ServeSettings
from gattn.serve.tables import read_csv_body
from gattn.serve.values import json_value
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
AnyRun = ServedMolecules | ServedNodes | ServedLinks
Run = TypeVar("Run", bound=AnyRun)
KINDS: dict[type[AnyRun], str] = {
    ServedMolecules: "molecules", ServedNodes: "nodes", ServedLinks: "links",
}  # fmt: skip
"""Objects that each type of run predicts, as words for messages."""


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
        self.queue: BatchQueue[tuple[str, float], Question, PredictedRow] = BatchQueue(
            self._predict_batch, workers=self.pool.workers, capacity=settings.queue
        )

    async def _predict_batch(
        self, key: tuple[str, float], rows: list[Question]
    ) -> list[PredictedRow]:
        name, coverage = key
        return await self.pool.call(predict_rows, self._position[name], rows, coverage)

    def run(self, kind: type[Run], name: str | None) -> Run:
        """Return the run with a name; if the name is None, return the first run of this kind.

        Raises:
            RequestError: there is no such run (404).
        """
        runs = [run for run in self.runs.values() if isinstance(run, kind)]
        chosen = next((run for run in runs if name in (None, run.name)), None)
        if chosen is None:
            what = KINDS[kind]
            names = ", ".join(repr(run.name) for run in runs) or "none"
            shown = "" if name is None else f" {name[:200]!r}"
            raise RequestError(404, f"there is no model of {what}{shown}; there are: {names}")
        return chosen

    def network(self, name: str | None) -> ServedNodes | ServedLinks:
        """Return the run of nodes or links with a name; if the name is None, return the first one.

        Raises:
            RequestError: there is no such run (404).
        """
        if name is None:
            networks = [run for run in self.runs.values() if not isinstance(run, ServedMolecules)]
            if networks:
                return networks[0]
        named = self.runs.get(name or "")
        return self.run(ServedLinks if isinstance(named, ServedLinks) else ServedNodes, name)

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
        self, run: ServedMolecules, rows: Sequence[Question], coverage: float
    ) -> list[PredictedRow]:
        """Compute the predictions for the rows of a request.

        Raises:
            RequestError: there are too many rows, a SMILES is too long (413), or the queue is full
                (429).
        """
        if len(rows) > self.settings.max_rows:
            raise RequestError(
                413, f"a request must have at most {self.settings.max_rows:,} rows; "
                f"it has {len(rows):,}",
            )  # fmt: skip
        for number, row in enumerate(rows, 1):
            self.check_smiles(run, row.text, f"the SMILES of row {number:,}")
        return await self.queue.compute((run.name, coverage), rows)

    def check_smiles(self, run: ServedMolecules, text: str, what: str) -> None:
        """Raise an error if a SMILES in the text of a row is longer than the limit.

        Raises:
            RequestError: a SMILES is longer (413).
        """
        for part in text.split(BETWEEN) if run.model.molecules_per_row > 1 else [text]:
            self.check_text(part, what)

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Compute the explanation of the molecule in a request."""
        run = self.run(ServedMolecules, request.model)
        columns = {name: [value] for name, value in request.columns.items()}
        (question,) = run.questions([request.smiles], columns)
        self.check_smiles(run, question.text, "the SMILES")
        try:
            target = run.model.place_of(request.target)
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        with self.queue.admitted():
            explained = await self.pool.call(
                explain_molecule, self._position[run.name], question, request.method or "",
                target, request.coverage,
            )  # fmt: skip
        return _explain_answer(run, question.text.strip(), explained, target)

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
            description="Predictions of trained models of molecules, nodes and links.",
        )  # fmt: skip
        _add_api(app, self)
        _add_page(app, self)
        app.add_exception_handler(RequestError, _on_request_error)
        app.add_exception_handler(RequestValidationError, _on_invalid)
        app.add_exception_handler(HTTPException, _on_http_error)
        return Gate(app, self.settings)


class _Options(BaseModel):
    """Base class of the options in a request's URL; an unknown option is an error."""

    model_config = ConfigDict(extra="forbid")


class TableQuery(_Options):
    """Options of a request with a CSV body."""

    model: str | None = None
    coverage: Annotated[float, Query(gt=0, lt=1)] = 0.9
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
            if query.model_fields_set:
                raise RequestError(
                    422, "the options of a JSON body are fields of the body; the address has "
                    f"{', '.join(sorted(query.model_fields_set))}"
                )  # fmt: skip
            body = _parsed(PredictRequest, await request.body())
            run = server.run(ServedMolecules, body.model)
            questions = run.questions(body.smiles, body.columns)
            rows = await server.predict(run, questions, body.coverage)
            answer = [as_values(run.model, row.cells) | {"error": row.error} for row in rows]
            return JSONResponse(PredictAnswer(model=run.name, rows=answer).model_dump())
        if media != "text/csv":
            raise RequestError(
                415, "the content type must be application/json or text/csv; "
                f"got {media[:100]!r}",
            )  # fmt: skip
        run = server.run(ServedMolecules, query.model)
        table = await anyio.to_thread.run_sync(
            read_csv_body, await request.body(), run, query.smiles, query.encoding,
            server.settings.max_rows,
        )  # fmt: skip
        predicted = await server.predict(run, table.questions, query.coverage)
        if "application/json" in request.headers.get("accept", ""):
            answer = TableAnswer(
                model=run.name, smiles_columns=table.positions,
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
        """Predict a row, compute the weights of its atoms, and find the nearest training rows."""
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
    async def nodes(query: Annotated[NodesQuery, Query()]) -> list[str]:
        """Return at most 20 names of nodes that contain a text, for a model of nodes or links."""
        run = server.network(query.model)
        return run.names.search(server.check_text(query.text, "the text"))

    @app.post("/link", responses=ERRORS)
    async def link(request: LinkRequest) -> LinkAnswer:
        """Return the score of a pair of nodes."""
        run = server.run(ServedLinks, request.model)
        source = server.check_text(request.source, "a name")
        target = server.check_text(request.target, "a name")
        with server.queue.admitted():
            answer = await anyio.to_thread.run_sync(run.pair, source, target)
        return LinkAnswer(
            model=run.name, source=request.source, target=request.target, **answer
        )  # fmt: skip

    @app.post("/links", responses=ERRORS)
    async def links(request: NodeRequest) -> LinksAnswer:
        """Return the links of a node with the highest scores, among those that are not in the
        graph.
        """
        run = server.run(ServedLinks, request.model)
        name = server.check_text(request.name, "the name")
        with server.queue.admitted():
            proposals = await anyio.to_thread.run_sync(run.propose, name)
        return LinksAnswer(
            model=run.name, name=name, links=[ProposedLink(**vars(each)) for each in proposals]
        )


def _add_page(app: FastAPI, server: Server) -> None:
    svg, png = {"image/svg+xml": {}}, {"image/png": {}}

    @app.get("/picture", responses={**ERRORS, 200: {"content": svg}}, response_class=Response)
    async def picture(query: Annotated[PictureQuery, Query()]) -> Response:
        """Return the picture of a molecule, or of the molecules of a row or of a reaction."""
        server.check_text(query.smiles, "the SMILES")
        with server.queue.admitted():
            content = await anyio.to_thread.run_sync(draw_plain, query.smiles, query.dark)
        headers = {"cache-control": "private, max-age=3600"}
        return Response(content, media_type="image/svg+xml", headers=headers)

    @app.get("/node/picture", responses={**ERRORS, 200: {"content": png}}, response_class=Response)
    async def node_picture(query: Annotated[NodePictureQuery, Query()]) -> Response:
        """Return the picture of a node and the nodes that it attends to."""
        run = server.run(ServedNodes, query.model)
        with server.queue.admitted():
            content = await anyio.to_thread.run_sync(run.draw, query.name, query.dark)
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
        raise _invalid(error.errors(include_url=False), kind) from error


def _invalid(errors: Sequence[Any], kind: type[BaseModel] | None) -> RequestError:
    """Return the error for a request whose body is not JSON (400), or has a wrong field (422).

    Args:
        errors: the errors of pydantic.
        kind: the type of the body or of the options; None if it is not known.
    """
    status = 400 if errors[0]["type"] == "json_invalid" else 422
    return RequestError(status, invalid_field(errors, list(kind.model_fields) if kind else ()))


def _on_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error)


def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    route = request.scope.get("route")
    fields = []
    if isinstance(route, APIRoute):
        is_body = errors[0]["loc"][:1] == ("body",)
        fields = [route.body_field] if is_body else route.dependant.query_params
    kinds = [field.field_info.annotation for field in fields if field is not None]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return error_response(_invalid(errors, models[0] if models else None))


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
        "name": run.name, "files": _files(run), "columns": list(run.columns),
        "notes": list(run.notes),
        "test": {name: json_value(value) for name, value in metrics.items()},
    }  # fmt: skip
    if isinstance(run, ServedNodes):
        label = str(run.estimator.label or "label")
        return ModelDescription(
            kind="nodes", task=run.estimator.task, targets=[label], units=[""],
            smiles_columns=[], reaction=False, descriptors=[], methods=[], size=len(run.graph),
            domain_threshold=None, **common,
        )  # fmt: skip
    if isinstance(run, ServedLinks):
        return ModelDescription(
            kind="links", task="classification", targets=["link"], units=[""], smiles_columns=[],
            reaction=False, descriptors=[], methods=[], size=len(run.links), domain_threshold=None,
            **common,
        )  # fmt: skip
    networks = run.model.predictor_.networks
    attends = any(isinstance(network, MoleculeNetwork) for network in networks)
    units = run.card.get("units", {})
    return ModelDescription(
        kind="molecules", task=run.model.task, targets=run.model.targets_,
        units=[str(units.get(target, "")) for target in run.model.targets_],
        smiles_columns=list(run.smiles_columns), reaction=run.model.reaction,
        descriptors=run.model.descriptors_columns_,
        methods=[] if run.model.reaction else [
            method for method in METHODS if attends or method != "attention"
        ],
        size=len(run.training.smiles) if run.training else 0,
        domain_threshold=run.applicability.threshold if run.applicability else None, **common,
    )  # fmt: skip


def _explain_answer(
    run: ServedMolecules, text: str, explained: ExplainedMolecule, target: int
) -> ExplainAnswer:
    explanation, answer = explained.explanation, as_values(run.model, explained.cells)
    values = list(answer.values())
    by_name = {name: values[i] for name, i in run.target_columns(target).items()}
    if run.model.descriptors_columns_:
        by_name[OUTSIDE] = answer[OUTSIDE]
    similarity = similarity_of(run.model, explained.cells)
    domain = percentile = None
    if run.applicability is not None:
        domain = Domain(
            similarity=similarity, threshold=run.applicability.threshold,
            inside=run.applicability.is_inside(similarity),
        )  # fmt: skip
    predicted = by_name["prediction"]
    if run.training is not None and isinstance(predicted, float):
        percentile = run.training.percentile(target, predicted)
    name = run.model.targets_[target]
    atoms: list[Atom] = []
    faithfulness, contributions = None, {}
    if explanation is not None:
        rows = zip(
            explanation.molecules or (0,) * len(explanation.atoms), explanation.atoms,
            explanation.symbols, explanation.weights.tolist(), explanation.spread.tolist(),
        )  # fmt: skip
        atoms = [
            Atom(molecule=m, atom=a, symbol=s, weight=w, spread=json_value(d))
            for m, a, s, w, d in rows
        ]
        drops = explanation.faithfulness
        faithfulness = Faithfulness(top=drops.top, random=drops.random, random_std=drops.random_std)
        names = run.model.descriptors_columns_
        contributions = dict(zip(names, explanation.descriptors.tolist()))
    return ExplainAnswer(
        model=run.name, target=name, unit=str(run.card.get("units", {}).get(name, "")),
        smiles=text, method="" if explanation is None else explanation.method,
        values={**by_name, SIMILARITY: similarity}, percentile=percentile, domain=domain,
        nearest=[Neighbour(**each) for each in run.neighbours(explained.nearest, target)],
        atoms=atoms, contributions=contributions, faithfulness=faithfulness,
        pictures=Pictures(light=explained.light, dark=explained.dark) if explained.light else None,
    )  # fmt: skip
