"""The messages of an errand: a command that a node runs for its fleet, such as ``logs`` or ``exec``, and its streams.

The node runs its own ``syncpod``, once per errand, and keeps what it says until the fleet has it. Each message asks for
one piece: a bounded part of the output, waited for at most so long. Input goes the same way. Offsets count bytes from
the errand's begin, so that a piece that was asked for twice is the same piece, and no input is written twice.

The same rules as in :mod:`syncpod.messages.fleet`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final, Literal

from syncpod.messages.fleet import WhoAsks
from syncpod.messages.identity import Message, bounded_id

RUN_ERRAND: Final = "run_errand"
"""Activity of a node: it takes :class:`Errand` and returns :class:`ErrandPiece`."""
FLEET_ERRAND_WORKFLOW: Final = "FleetErrand"
"""Workflow type that carries one piece: it takes :class:`Errand` and returns :class:`ErrandPiece`."""

PIECE_BYTES: Final = 192 * 1024
"""The most that one piece carries, in either direction: with its wrapping it stays below what a server warns of."""
WAIT_SECONDS: Final = 20.0
"""The longest that a node waits for output before it answers with an empty piece."""
WORDS_BYTES: Final = 64 * 1024
"""The most that the words of a command may have together."""

REPEATABLE: Final[Mapping[str, bool]] = {
    "logs": True, "explain": True, "describe": True, "top": True, "exec": False,
}  # fmt: skip
"""What a node runs for its fleet, and whether it may be run twice, when nobody knows whether it was run once."""

Stream = Literal["stdout", "stderr"]


class Errand(WhoAsks):
    """One piece of an errand, as it is asked for."""

    session: str = ""
    """Random: no two errands have the same."""
    begin: bool = False
    """Begin to run `words`. A session that runs already goes on."""
    words: tuple[str, ...] = ()
    """The command line, without ``syncpod``."""
    with_input: bool = False
    """Whether input follows; without, the command has none."""
    received: int = 0
    """Bytes of output that the fleet has: the node may forget them."""
    wait: float = 0.0
    """Seconds to wait for more, :data:`WAIT_SECONDS` at most."""
    give: bool = False
    """This carries input, and no output is asked for."""
    input_at: int = 0
    """Where `input` begins."""
    input: str = ""
    """base64, of :data:`PIECE_BYTES` at most."""
    input_ends: bool = False
    """Nothing follows `input`."""
    end: bool = False
    """End the command, whatever it does: nobody waits for it any more."""


class ErrandChunk(Message):
    """Output, in the order in which it came."""

    stream: Stream = "stdout"
    data: str = ""
    """base64."""


class ErrandPiece(Message):
    """A node's answer."""

    refused: str = ""
    """Why nothing was done, in one sentence; "" = it was."""
    chunks: tuple[ErrandChunk, ...] = ()
    """The output from `received` on."""
    input_taken: int = 0
    """Bytes of input that the command has, or wants no more."""
    input_over: bool = False
    """The command's input is closed: by its end, or because the command wants no more."""
    code: int | None = None
    """The exit code, once all output is told; 128 and the signal's number if a signal ended it."""


def errand_id(node: str, session: str, part: str) -> str:
    """Return the id of the workflow that carries one piece."""
    return bounded_id("fleet-errand/", f"{node}/{session}/{part}")


def why_not(words: tuple[str, ...]) -> str:
    """Return why a node does not run this command for its fleet, in one sentence; "" if it does."""
    if not words or words[0] not in REPEATABLE:
        return f"a node runs {', '.join(sorted(REPEATABLE))} for its fleet, not {words[0][:40] if words else 'nothing'}"
    if sum(len(each.encode()) for each in words) > WORDS_BYTES:
        return f"a command for a node has at most {WORDS_BYTES // 1024} KiB"
    if any("\0" in each for each in words):
        return "a command has no NUL characters"
    return ""


def is_repeatable(words: tuple[str, ...]) -> bool:
    """Say whether a command only reads, so that it may be run twice."""
    return bool(words) and REPEATABLE.get(words[0], False)


def to_text(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """Return what base64 stands for. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
