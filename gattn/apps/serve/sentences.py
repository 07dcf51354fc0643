"""Sentences on invalid requests. They say what a field must be, and what the request contains."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
