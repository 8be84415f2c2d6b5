"""One module describes errors in values that a model refuses, whatever their source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from syncpod.pod.model_errors import first_problem

ROOT = Path(__file__).parents[2]


class Part(BaseModel):
    """A nested model of the input."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1)
    kind: Literal["a", "b"] = "a"
    number: int = Field(default=0, ge=0)
    on: bool = False


class Given(BaseModel):
    """A model of some input."""

    parts: list[Part]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "parts: required"),
        ({"parts": 5}, "parts: must be a list"),
        ({"parts": [5]}, "parts[0]: must be an object"),
        ({"parts": [{"name": "x"}, {}]}, "parts[1].name: required"),
        ({"parts": [{"name": ""}]}, "parts[0].name: must not be empty"),
        ({"parts": [{"name": 5}]}, "parts[0].name: must be a string; put it in quotes"),
        ({"parts": [{"name": "x", "nmae": 5}]}, "parts[0].nmae: unknown field"),
        ({"parts": [{"name": "x", "kind": "c"}]}, "parts[0].kind: must be a or b"),
        ({"parts": [{"name": "x", "number": "1"}]}, "parts[0].number: must be an integer, not a string"),
        ({"parts": [{"name": "x", "number": -1}]}, "parts[0].number: must be at least 0"),
        ({"parts": [{"name": "x", "on": 1}]}, "parts[0].on: must be true or false"),
    ],
)
def test_a_problem_has_its_path_as_kubernetes_writes_it_and_needs_no_python(given: Any, says: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        Given.model_validate(given)
    assert str(first_problem(wrong.value)) == says
    assert str(first_problem(wrong.value, "adopt")) == f"adopt.{says}"


def test_nothing_else_translates_the_errors_of_models() -> None:
    """`parse` adds suggestions to the same sentences; `command_table` reads only the kind."""
    trees = (path for tree in ("syncpod", "workflows", "activities") for path in (ROOT / tree).rglob("*.py"))
    readers = {str(path.relative_to(ROOT)) for path in trees if ".errors(" in path.read_text()}
    assert readers == {"syncpod/pod/model_errors.py", "syncpod/pod/parse.py", "syncpod/messages/command_table.py"}
