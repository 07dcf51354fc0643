"""Sentences on invalid requests. They say what a field must be, and what the request contains."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["invalid_field"]

UNIONS = ("str", "list[str]", "float", "none")
"""Types in a union, by the names that pydantic adds to the place of a field."""
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
    names = [str(part) for part in first["loc"] if part not in UNIONS]
    field = ".".join(names)[:200] or "the body"
    if first["type"] == "json_invalid":
        return f"the body must be JSON: {first['ctx']['error']}"
    if first["type"] == "missing":
        return f"{field} is missing"
    if first["type"] == "extra_forbidden":
        field = ".".join(map(str, first["loc"]))[:200]
        return f"there is no field or option {field!r}; GET /openapi.json describes them"
    # A value of a union has one error for each of its types.
    messages = dict.fromkeys(each["msg"][:1].lower() + each["msg"][1:] for each in errors)
    expected = " or ".join(messages) if len(names) < len(first["loc"]) else next(iter(messages))
    return f"{field}: {expected}; got {json.dumps(first.get('input'), default=str)[:LONGEST]}"
