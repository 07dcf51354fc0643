"""Errors to which the server answers with a status and one sentence."""

from __future__ import annotations

from collections.abc import Mapping


class RequestError(Exception):
    """Raised for a request that cannot be answered.

    Attributes:
        status: the HTTP status.
        message: a sentence that names the problem and the expected value.
        headers: further headers of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        # All arguments are passed to the base class, so that the error can be sent to another
        # process.
        super().__init__(status, message, headers)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def __str__(self) -> str:
        return self.message
