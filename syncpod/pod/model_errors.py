"""Why a model refuses a value: the field's path and a sentence, for people who need not know Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import ValidationError

from syncpod.pod.problems import Problem

OBJECTS: Final = frozenset({"dict_type", "model_type", "model_attributes_type"})
"""pydantic's error types for a value that should be an object and is not."""
UNKNOWN: Final = "extra_forbidden"
"""pydantic's error type for an unknown field."""
_LONGEST_STEP: Final = 80


def field_path(location: tuple[int | str, ...], maps: Collection[str] = ()) -> str:
    """Write a location as Kubernetes does: `spec.containers[0].image`, `metadata.labels[app]`.

    `maps` are the fields with keys that the user chooses.
    """
    path = ""
    chosen_key = False
    for whole in location:
        if whole == "[key]":
            continue
        step = whole[:_LONGEST_STEP] if isinstance(whole, str) else whole
        if isinstance(step, int) or chosen_key:
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
        chosen_key = step in maps and not chosen_key
    return path


def message(detail: Mapping[str, Any]) -> str:
    """Return the sentence about one of the errors of a ValidationError."""
    given = detail.get("input")
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return "required"
        case "extra_forbidden":
            return "unknown field"
        case "string_type":
            return "must be a string" + ("; put it in quotes" if isinstance(given, bool | int | float) else "")
        case "string_too_short" if context["min_length"] == 1:
            return "must not be empty"
        case "int_type" | "int_from_float" | "int_parsing":
            return "must be an integer" + (", not a string" if isinstance(given, str) else "")
        case "bool_type":
            return "must be true or false"
        case "tuple_type" | "list_type":
            return "must be a list"
        case kind if kind in OBJECTS:
            return "must be an object"
        case "literal_error" | "enum":
            return f"must be {context['expected'].replace(chr(39), '')}"
        case "greater_than_equal" | "less_than" | "int_parsing_size":
            return "must fit into 32 bits" if abs(context.get("lt", context.get("ge", 0))) == 2**31 else _bound(detail)
        case "value_error":
            return str(context["error"])
        case _:
            return str(detail["msg"])


def _bound(detail: Mapping[str, Any]) -> str:
    context = detail.get("ctx", {})
    return f"must be at least {context['ge']}" if "ge" in context else "too large"


def first_problem(wrong: ValidationError, within: str = "") -> Problem:
    """Return the first problem of a refused value; `within` is the field that has this value, "" = none."""
    detail = wrong.errors(include_url=False)[0]
    return Problem(field_path((within, *detail["loc"]) if within else detail["loc"]), message(detail))
