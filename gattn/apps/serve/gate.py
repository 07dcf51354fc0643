"""Checks of every request before the application reads it: its origin, token, size and time."""

from __future__ import annotations

import asyncio
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gattn.apps.serve.errors import RequestError
from gattn.apps.serve.settings import ServeSettings
from gattn.files import RepeatedKeyError, parse_json

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content security policy of the page and the API, which forbids inline scripts and other
origins.
"""
REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)
"""Content security policy of a run's report. It allows embedded pictures and styles, but no
script.
"""
COOKIE = "gattn_token"
PUBLIC = "/static/"
"""Prefix of the paths that can be read without a token, because they contain no data of a run."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def error_response(error: RequestError) -> Response:
    """Return the answer to a request that failed: a status and the body ``{"error": sentence}``."""
    return JSONResponse({"error": error.message}, error.status, headers=error.headers)


class Gate:
    """ASGI middleware that rejects invalid requests before the application reads them.

    A request is refused if

    - its ``Host`` is neither a name of this machine nor an allowed host (403): another site could
      use a host name that resolves to the loopback address. A server that listens beyond this
      machine accepts any ``Host``;
    - it comes from a page of another site (403), by ``Origin`` or ``Sec-Fetch-Site``; a link to a
      page of the server is allowed;
    - it does not present the token (401), as ``Authorization: Bearer TOKEN``, or as the cookie that
      ``/?token=TOKEN`` sets;
    - its body is compressed (415) or larger than the limit (413), or the body and the answer take
      too long (408);
    - an object of its JSON body has a key twice, or its address has an option twice (422);
    - the server stops before the answer is ready (503).

    The middleware also adds the security headers to every answer.

    Args:
        app: the application.
        settings: settings of the server.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self.app, self.settings = app, settings
        self.allowed = {name.lower() for name in settings.allowed_host}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it to the application together with its complete body. A
        refused request gets an answer with its status and reason, unless the application has
        already started an answer. Messages about the start and the end of the server are passed on
        unchecked. Raises RuntimeError for another protocol than HTTP.
        """
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the server answers HTTP requests only; got {scope['type']}")
        started = False

        async def send_with_headers(message: Message) -> None:
            """Send a message of the answer; the headers of every answer are added to its start."""
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("content-security-policy", PAGE_POLICY)
            await send(message)

        async def answer() -> None:
            """Check the request, read its body, and pass it to the application, or send the
            redirect of the page. Raises RequestError for a request that is refused.
            """
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_origin(headers)
            if redirect := self._check_token(scope, headers):
                await redirect(scope, receive, send_with_headers)
                return
            body = await self._body(headers, receive)
            _check_keys(scope, headers, body)
            # A HEAD request is answered as GET; the server sends the headers of the answer alone.
            method = {"HEAD": "GET"}.get(scope["method"], scope["method"])
            await self.app({**scope, "method": method}, _replay(body, receive), send_with_headers)

        try:
            await asyncio.wait_for(answer(), self.settings.timeout)
            return
        except RequestError as error:
            refusal = error
        except (TimeoutError, asyncio.TimeoutError):
            refusal = RequestError(
                408,
                f"the request took more than {self.settings.timeout:g} seconds: send fewer rows, "
                "or repeat it later",
            )
        except asyncio.CancelledError:
            refusal = RequestError(503, "the server stops: repeat the request when it runs again")
        if not started:
            refusal.headers.setdefault("connection", "close")
            await error_response(refusal)(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        """Raise a RequestError if a local server is called by a host name that is not allowed."""
        host = headers.get("host", "")
        local = {"localhost", "127.0.0.1", "::1", self.settings.host}
        if self.settings.is_local and _name_of(f"//{host}") not in local | self.allowed:
            raise RequestError(
                403, "the Host header must name this machine, or a host of --allowed-host; got "
                f"{host[:200]!r}"
            )  # fmt: skip

    def _check_origin(self, headers: Headers) -> None:
        """Raise a RequestError if a page of another site sent the request or shows its result."""
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        same = {"", f"http://{host}", f"https://{host}"}
        if origin not in same and _name_of(origin) not in self.allowed:
            raise RequestError(
                403, f"requests from another site are rejected; got {origin[:200]!r}"
            )
        # Browsers send no Origin for images and frames, but say whether another site shows them.
        is_link = headers.get("sec-fetch-dest") == "document"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_link:
            raise RequestError(403, "a page of another site cannot show content of this server")

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Check the token. If the token is in the URL of the page, return a redirect that stores it
        in a cookie. Returns None if the request may continue. Raises RequestError (401) if neither
        the URL, the header nor the cookie contains the token.
        """
        token, path = self.settings.token, scope["path"]
        if not token or path.startswith(PUBLIC):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if path == "/" and "token" in query and _same(query["token"][0], token):
            redirect = RedirectResponse("/", 303)
            redirect.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return redirect
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(credentials.strip(), token):
            return None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and _same(cookie.value, token):
            return None
        raise RequestError(
            401,
            "this server needs its token: open /?token=TOKEN, or send the header Authorization: "
            "Bearer TOKEN",
            {"www-authenticate": "Bearer"},
        )

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the body of a request, or the part that arrived before the client disconnected.
        Raises RequestError if the body is compressed (415), or larger than the limit (413).
        """
        coding = headers.get("content-encoding", "identity")
        if coding.lower() != "identity":
            raise RequestError(415, f"the body must not be compressed; got {coding[:100]!r}")
        most = self.settings.max_bytes
        too_large = RequestError(
            413, f"the body must have at most {self.settings.max_megabytes:g} MB"
        )
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length) > most:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return bytes(body)
            body += message.get("body", b"")
            if len(body) > most:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)


def _check_keys(scope: Scope, headers: Headers, body: bytes) -> None:
    """Raise RequestError (422) for an option of the URL or a key of the JSON body that occurs
    twice, because one of the two would have no effect. The option ``smiles`` of /predict may be
    repeated.

    The application reports a body that is not JSON.
    """
    options = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    for name, values in options.items():
        if len(values) > 1 and (scope["path"], name) != ("/predict", "smiles"):
            raise RequestError(422, f"the address has the option {name[:80]!r} twice")
    if "json" in headers.get("content-type", ""):
        try:
            parse_json(body)
        except RepeatedKeyError as error:
            raise RequestError(422, f"the body cannot be read: {error}") from None
        except (ValueError, RecursionError):
            return


def _name_of(address: str) -> str | None:
    """Return the host name in an address; None if there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _same(candidate: str, token: str) -> bool:
    return hmac.compare_digest(candidate.encode(), token.encode())


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function for ASGI that yields the body once, and then the messages of the
    connection.
    """
    is_read = False

    async def receive_body() -> Message:
        """Return the whole body at the first call, and then the further messages of the client."""
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body
