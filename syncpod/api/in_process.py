"""The API without a socket: the same handlers, called by a command in its own process."""

from __future__ import annotations

import json
from collections.abc import Sequence

from syncpod.api.client import Reply
from syncpod.api.messages import JSON, Request, warnings_in
from syncpod.api.routes import answer
from syncpod.api.source import PodSource


async def answered(source: PodSource, path: str, query: Sequence[tuple[str, str]] = (), accept: str = JSON) -> Reply:
    """Return the answer to a GET. Raises what the source raises."""
    parameters: dict[str, list[str]] = {}
    for name, value in query:
        parameters.setdefault(name, []).append(value)
    given = await answer(source, Request("GET", path, parameters, accept))
    body = b"".join([part async for part in given.parts])
    return Reply(given.code, json.loads(body), warnings_in(given.headers.get("Warning", "")))
