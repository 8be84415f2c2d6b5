"""Lists of the API: rendered in threads, a few objects at a time, and sent as they are rendered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

_One = TypeVar("_One")

_AT_ONCE: Final = 50
"""How many objects are rendered in one call of a thread."""


def as_json(document: Any) -> bytes:
    """Return a document's JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


async def whole(document: Mapping[str, Any]) -> AsyncIterator[bytes]:
    """Yield a document in one part."""
    yield as_json(document)


async def rendered(
    head: Mapping[str, Any], key: str, things: Sequence[_One], render: Callable[[_One], Iterable[Any]]
) -> AsyncIterator[bytes]:
    """Yield the JSON of a document in parts: `head`, and under `key` the list of all that `render` yields for `things`.

    `render` runs in a thread. Its exceptions are raised unchanged; the parts before them are not valid JSON.
    """

    def joined(some: Sequence[_One]) -> bytes:
        return b",".join(as_json(each) for one in some for each in render(one))

    yield as_json(head)[:-1] + b',"' + key.encode() + b'":['
    is_first = True
    for at in range(0, len(things), _AT_ONCE):
        part = await asyncio.to_thread(joined, things[at : at + _AT_ONCE])
        if part:
            yield part if is_first else b"," + part
            is_first = False
    yield b"]}"


async def rendered_alone(make: Callable[[], Mapping[str, Any]]) -> AsyncIterator[bytes]:
    """Yield the JSON of one document, which `make` returns in a thread. Raises its exceptions unchanged."""
    yield await asyncio.to_thread(lambda: as_json(make()))
