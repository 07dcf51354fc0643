"""Types of settings: the fields of a declaration, and the values that a field accepts, in words."""

from __future__ import annotations

import dataclasses
import functools
import typing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

NOUNS = {"IntType": "whole number", "FloatType": "number", "StrType": "string"}
LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


@functools.cache
def field_types(kind: type) -> dict[str, Any]:
    """Return the annotations of the fields of a dataclass by name."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def without_meta(hint: Any) -> tuple[Any, Meta | None]:
    """Return the type in an annotation, and its ``Meta`` if it has one."""
    if typing.get_origin(hint) is Annotated:
        return hint.__origin__, next(m for m in hint.__metadata__ if isinstance(m, Meta))
    return hint, None


def default_text(default: object) -> str:
    """Return a default value as text for tables and help texts."""
    if isinstance(default, bool):
        return "on" if default else "off"
    return "none" if default in (None, "", ()) else str(default)


def expected_values(hint: Any) -> str:
    """Describe the values that a type accepts, for an error message."""
    plain = without_meta(hint)[0]
    if choices := _choices(plain):
        return f"one of {', '.join(map(repr, choices))}"
    described = msgspec.inspect.type_info(hint)
    while isinstance(described, msgspec.inspect.Metadata):
        described = described.type
    if isinstance(described, msgspec.inspect.UnionType):
        kinds = (t for t in described.types if not isinstance(t, msgspec.inspect.NoneType))
        return " or ".join(map(_scalar_values, kinds))
    return _scalar_values(described)


def _choices(hint: Any) -> tuple[Any, ...]:
    """Return the values of a Literal type, or of a union of a Literal and None; an empty tuple
    for other types.
    """
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    return next(filter(None, map(_choices, typing.get_args(hint))), ())


def _scalar_values(described: Any) -> str:
    kind = type(described).__name__
    if kind == "BoolType":
        return "true or false"
    if kind in ("VarTupleType", "ListType"):
        return f"a list of {NOUNS[type(described.item_type).__name__]}s"
    if kind == "TupleType":
        count, noun = len(described.item_types), NOUNS[type(described.item_types[0]).__name__]
        return f"a list of {count} {noun}s"
    limits = [
        f"{word} {getattr(described, key):g}"
        if abs(getattr(described, key)) < 1e6
        else f"{word} {getattr(described, key)}"
        for key, word in LIMITS.items()
        if getattr(described, key, None) is not None
    ]
    comma = ", " if kind == "IntType" else " "
    return f"a {NOUNS[kind]}" + (comma + " and ".join(limits) if limits else "")
