"""ASGI application of the server: the API for the loaded runs, and the files of the web page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gattn import __version__
from gattn.apps.molecules.runs.predict import InputRow, PredictedRow, predict_rows
from gattn.apps.run.model_io import coverage_of
from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.gate import Gate, error_response
from gattn.apps.serve.molecules import ServedMolecules, as_values, explain_molecule
from gattn.apps.serve.pool import ModelPool
from gattn.apps.serve.queue import BatchQueue
from gattn.apps.serve.routes import add_api, add_page, invalid_request
from gattn.apps.serve.schemas import ExplainAnswer, ExplainRequest, PredictAnswer, PredictRequest
from gattn.apps.serve.served import ServedRun
from gattn.apps.serve.settings import ServeSettings

Run = TypeVar("Run", bound=ServedRun)
Answer = TypeVar("Answer")


class Server:
    """Loaded runs, the queue of requests, and the ASGI application that answers them. The end of
    the application ends the processes of the pool.

    Args:
        runs: the runs, with different names.
        settings: settings of the server.
    """

    def __init__(self, runs: Sequence[ServedRun], settings: ServeSettings) -> None:
        self.settings = settings
        self.runs: dict[str, ServedRun] = {run.name: run for run in runs}
        molecules = [run for run in runs if isinstance(run, ServedMolecules)]
        self._position = {run.name: i for i, run in enumerate(molecules)}
        self.pool = ModelPool(
            [run.model for run in molecules], [run.folder for run in molecules], settings.workers
        )
        self.queue: BatchQueue[tuple[str, float], InputRow, PredictedRow] = BatchQueue(
            self._predict_batch, workers=self.pool.workers, capacity=settings.queue
        )

    async def _predict_batch(
        self, key: tuple[str, float], rows: list[InputRow]
    ) -> list[PredictedRow]:
        """Predict the rows of several requests with the model and the coverage of the key. Raises
        RequestError (503) if a process was killed.
        """
        name, coverage = key
        return await self.pool.call(predict_rows, self._position[name], rows, coverage)

    def run(self, kind: type[Run], name: str | None) -> Run:
        """Return the run with a name; if the name is None, return the first run of this kind.

        Raises:
            RequestError: there is no such run (404).
        """
        runs = [run for run in self.runs.values() if isinstance(run, kind)]
        if not runs:
            raise RequestError(
                404, f"no model of {kind.kind} is served; start the server with a run of gattn "
                f"{kind.kind} train",
            )  # fmt: skip
        chosen = next((run for run in runs if name in (None, run.name)), None)
        if chosen is None:
            names = ", ".join(repr(run.name) for run in runs)
            raise RequestError(
                404, f"there is no model of {kind.kind} {(name or '')[:200]!r}; there are: {names}"
            )
        return chosen

    def check_text(self, text: str, what: str) -> str:
        """Return the text; raise RequestError, which calls it ``what``, if it is longer than the
        limit.

        Raises:
            RequestError: the text is longer (413).
        """
        most = self.settings.max_characters
        if len(text) > most:
            raise RequestError(
                413, f"{what} must have at most {most:,} characters; it has {len(text):,}"
            )
        return text

    async def look_up(
        self, answer: Callable[..., Answer], *texts: str, what: str = "a name"
    ) -> Answer:
        """Compute the answer to a request for names or a SMILES, in a thread.

        Raises:
            RequestError: a text is too long (413), the queue is full (429), or ``answer`` raises
                it, for example for an unknown name (404).
        """
        for text in texts:
            self.check_text(text, what)
        with self.queue.admitted():
            return await asyncio.to_thread(answer, *texts)

    async def predict(
        self, run: ServedMolecules, rows: Sequence[InputRow], coverage: float
    ) -> list[PredictedRow]:
        """Compute the predictions for the rows of a request, in the order of the rows. A row with a
        SMILES that is longer than the limit has an error instead of a prediction.

        Raises:
            RequestError: there are too many rows (413), the queue is full (429), or a process was
                killed (503).
        """
        if len(rows) > self.settings.max_rows:
            raise RequestError(
                413, f"a request must have at most {self.settings.max_rows:,} rows; "
                f"it has {len(rows):,}",
            )  # fmt: skip
        faults = [self._length_fault(row.text) for row in rows]
        short = [row for row, fault in zip(rows, faults) if not fault]
        predicted = iter(await self.queue.compute((run.name, coverage), short))
        empty = [""] * len(run.columns)
        return [PredictedRow(empty, fault) if fault else next(predicted) for fault in faults]

    async def predict_smiles(self, request: PredictRequest) -> PredictAnswer:
        """Compute the predictions for the SMILES of a request. Raises RequestError if there is no
        such model, if the model reads tables only, and as :meth:`predict`.
        """
        run = self.run(ServedMolecules, request.model)
        input_rows = list(map(run.input_row, request.smiles))
        rows = await self.predict(run, input_rows, coverage_of(run.opened.card, request.coverage))
        answer = [as_values(run.model, row.cells) | {"error": row.error} for row in rows]
        return PredictAnswer(model=run.name, rows=answer)

    def _length_fault(self, text: str) -> str:
        """Return the reason why a SMILES in the text of a row is too long, or "" if it is not."""
        try:
            self.check_text(text, "the SMILES")
        except RequestError as error:
            return error.message
        return ""

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Compute the explanation of the molecule in a request. Raises RequestError if there is no
        such model, for a text or a target that it cannot explain, if the queue is full, and if a
        process was killed.
        """
        run = self.run(ServedMolecules, request.model)
        input_row = run.input_row(self.check_text(request.smiles, "the SMILES"))
        try:
            target = run.model.place_of(request.target)
        except ValueError as error:
            raise RequestError(422, str(error)) from error
        with self.queue.admitted():
            explained = await self.pool.call(
                explain_molecule, self._position[run.name], input_row, target,
                coverage_of(run.opened.card, request.coverage),
            )  # fmt: skip
        return run.answer(input_row.text.strip(), explained, target)

    def application(self) -> Gate:
        """Return the ASGI application. It checks every request before the API reads it, and has the
        route /mcp if the package ``mcp`` is installed.
        """

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            """Run the server of the tools while the application runs, then end the processes."""
            try:
                async with agents:
                    yield
            finally:
                self.pool.close()

        app = FastAPI(
            title="gattn", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
            description="Predictions of trained models of molecules, nodes and links.",
        )  # fmt: skip
        add_api(app, self)
        agents = nullcontext()
        if find_spec("mcp"):
            from gattn.apps.serve.mcp import add_mcp

            agents = add_mcp(app, self)
        add_page(app, self)
        app.add_exception_handler(RequestError, _on_request_error)
        app.add_exception_handler(RequestValidationError, _on_invalid)
        app.add_exception_handler(HTTPException, _on_http_error)
        return Gate(app, self.settings)


def _on_request_error(request: Request, error: Any) -> Response:
    return error_response(error)


def _on_invalid(request: Request, error: Any) -> Response:
    """Return the error for a body that is not declared as JSON (415) or cannot be parsed (400), or
    an error that names the first invalid field (422).
    """
    errors = error.errors()
    if isinstance(errors[0].get("input"), bytes):
        # FastAPI passes on the bytes of a body that is not declared as JSON.
        media = request.headers.get("content-type", "")[:100]
        return error_response(
            RequestError(415, f"the content type must be application/json; got {media!r}")
        )
    # FastAPI puts the source of a field, such as "body", before its name.
    return error_response(invalid_request([{**each, "loc": each["loc"][1:]} for each in errors]))


def _on_http_error(request: Request, error: Any) -> Response:
    """Return the answer to a request with an unknown path or method."""
    messages = {
        404: "there is no such path; GET /openapi.json describes the paths",
        405: f"{request.method} is not answered here; use {(error.headers or {}).get('Allow')}",
    }
    message = messages.get(error.status_code, str(error.detail))
    return error_response(RequestError(error.status_code, message, error.headers))
