"""Sentences on invalid requests. They say what a field must be, and what the request contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["invalid_field"]

KINDS = {
    "string_type": "a text",
    "string_unicode": "a text without lone surrogates",
    "string_sub_type": "a text",
    "list_type": "a list",
    "dict_type": "an object of values by name",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
}
"""For each type of pydantic's errors, the type that the value must have."""
UNIONS = {"str": "a text", "list[str]": "a list of texts", "float": "a number", "none": "null"}
"""Words for the types in a union, by the names that pydantic gives to them."""
LONGEST = 80
"""Maximum number of characters of a value in a sentence."""


def invalid_field(errors: Sequence[Mapping[str, Any]], options: Sequence[str] = ()) -> str:
    """Return a sentence on the first invalid field of a request.

    Args:
        errors: the errors of pydantic. Their places begin with a field.
        options: the names of the fields or options that a request can have. The sentence about an
            unknown one lists them.

    >>> invalid_field([{"type": "string_type", "loc": ("name",), "input": 3}])
    'name must be a text; got 3'
    """
    first = errors[0]
    kind, context = first["type"], first.get("ctx", {})
    parts = list(first["loc"])
    names = [part for part in parts if part not in UNIONS]
    field = ".".join(map(str, names))[:200] or "the body"
    if kind == "json_invalid":
        return f"the body must be JSON: {context.get('error', 'it cannot be parsed')}"
    if kind == "missing":
        return f"{field} is missing" if names else "the body is missing"
    if kind == "extra_forbidden":
        field = ".".join(map(str, parts))[:200]
        listed = f"; there are {', '.join(options)}" if options else ""
        return f"there is no field or option {field!r}{listed}"
    if kind == "too_short":
        return f"{field} must have at least {context['min_length']} entry; got none"
    if kind == "too_long":
        return f"{field} must have at most {context['max_length']} entries"
    bounds = {"greater_than": "above", "less_than": "below"}
    if kind in bounds:
        bound = context.get("gt", context.get("lt"))
        expected = f"{bounds[kind]} {bound:g}"
    elif len(parts) > len(names):
        members = [part for error in errors for part in error["loc"] if part in UNIONS]
        expected = " or ".join(UNIONS[part] for part in dict.fromkeys(members))
    elif kind in KINDS:
        expected = KINDS[kind]
    else:
        expected = f"valid ({first['msg']})"
    return f"{field} must be {expected}; got {_shown(first.get('input'))}"


def _shown(value: Any) -> str:
    """Return a value as text for a sentence: a short value itself, or the type of a long one."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
