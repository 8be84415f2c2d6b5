"""The size of a text as JSON, which is how it is kept and sent.

A control character takes six bytes there, and one beyond the basic plane, such as a picture, twelve.
"""

import json
from bisect import bisect_right

_LARGEST = 12
"""Bytes of the largest character."""


def json_size(text: str) -> int:
    """Return how many bytes a text takes as JSON, without its quotes."""
    return len(json.dumps(text)) - 2


def shortened(text: str, limit: int) -> str:
    """Return a text, or its beginning and an ellipsis, of no more than `limit` bytes as JSON (at least 6)."""
    if len(text) * _LARGEST <= limit or json_size(text) <= limit:
        return text
    room = limit - json_size("…")
    return text[: bisect_right(range(min(len(text), limit)), room, key=lambda end: json_size(text[:end])) - 1] + "…"
