"""Requests to the API and its answers, without an HTTP library: the same over a socket and within a process."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from syncpod.api.statuses import ApiError

JSON: Final = "application/json"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""The Accept header of a client that requests rows instead of objects."""


@dataclass(frozen=True)
class Request:
    """A request."""

    method: str
    path: str
    """The decoded path, without the query."""
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    accept: str = JSON
    body: bytes = b""

    def one(self, name: str) -> str:
        """Return the value of a parameter of the query; "" = it is not given."""
        return next(iter(self.query.get(name, ())), "")

    def flag(self, name: str) -> bool:
        """Return whether a parameter is true. Raises ApiError for a value that is neither true nor false."""
        value = self.one(name)
        if value not in ("", "true", "false", "1", "0"):
            raise ApiError(400, f"{name}: must be true or false, not {value!r}")
        return value in ("true", "1")

    @property
    def at_once(self) -> bool:
        """Whether the answer may come from the cache, as in Kubernetes' API."""
        return self.one("resourceVersion") == "0"

    @property
    def wants_table(self) -> bool:
        """Whether the first kind of answer that the client accepts is a Table."""
        first = self.accept.partition(",")[0].replace(" ", "")
        return "as=Table" in first.split(";") and "v=v1" in first.split(";")


@dataclass(frozen=True)
class Answer:
    """An answer whose body comes in parts: a list of thousands of pods is never in memory as a whole."""

    parts: AsyncIterator[bytes]
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def in_one_part(body: bytes, kind: str, code: int = 200, **headers: str) -> Answer:
    """Return an answer with this body and content type. `headers` have `_` for `-`, as in `WWW_Authenticate`."""

    async def parts() -> AsyncIterator[bytes]:
        yield body

    return Answer(parts(), code, {"Content-Type": kind, **{name.replace("_", "-"): headers[name] for name in headers}})


def warning_headers(sentences: Sequence[str]) -> dict[str, str]:
    """Return the Warning header of Kubernetes' API, whose sentences kubectl prints; {} if there are none."""
    quoted = (sentence.replace("\\", "\\\\").replace('"', '\\"') for sentence in sentences)
    said = ", ".join(f'299 - "{each}"' for each in quoted)
    return {"Warning": said} if said else {}


def warnings_in(header: str) -> tuple[str, ...]:
    """Return the sentences of a Warning header."""
    return tuple(re.sub(r"\\(.)", r"\1", each) for each in re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', header))
