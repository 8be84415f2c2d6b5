"""What is wrong with a payload, in one sentence."""

from __future__ import annotations

from pydantic import ValidationError


def payload_problem(wrong: ValidationError) -> str:
    """Return the first problem, after the path of its field if it is about one: ``contaner: unknown field``."""
    problem = wrong.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    what = "unknown field" if problem["type"] == "extra_forbidden" else str(problem["msg"])
    return f"{where}: {what}" if where else what
