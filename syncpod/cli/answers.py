"""Records in the answers of pods' workflows, which may come from a worker of another version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import ValidationError

from syncpod.cli.failure import Failure

_Record = TypeVar("_Record")


def read_records(read: Callable[[Iterable[Any]], list[_Record]], answer: Iterable[Any], what: str) -> list[_Record]:
    """Return the records of an answer to a query; `what` names them. Raises Failure for one that is none."""
    try:
        return read(answer)
    except ValidationError as wrong:
        error = wrong.errors()[0]
        field = ".".join(map(str, error["loc"])) or "a record"
        raise Failure(
            f"the pod's {what} cannot be read: {field}: {error['msg']}; perhaps its worker is of another version than "
            "this command"
        ) from None
