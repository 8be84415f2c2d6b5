"""The messages of a remote command: one that a node runs for its fleet, such as ``logs`` or ``exec``, and its streams.

The node runs its own ``syncpod``, once per command, and keeps the output until the fleet has it. Each message requests
one piece: a bounded part of the output, with a limit on the wait. Input goes the same way. Offsets count bytes from the
command's start. So a piece that is requested twice is the same piece, and no input is written twice.

The rules of :mod:`syncpod.messages.fleet` apply.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final, Literal

from syncpod.messages.fleet import WhoAsks
from syncpod.messages.identity import Message, bounded_id

RUN_REMOTE_COMMAND: Final = "run_errand"
"""Activity of a node: it takes :class:`RemoteCommand` and returns :class:`RemoteCommandPiece`."""
REMOTE_COMMAND_WORKFLOW: Final = "FleetErrand"
"""Workflow type that carries one piece: it takes :class:`RemoteCommand` and returns :class:`RemoteCommandPiece`."""

PIECE_BYTES: Final = 192 * 1024
"""The most bytes in one piece, in either direction. Even with its wrapping, a piece is too small for a server's warning
about sizes."""
WAIT_SECONDS: Final = 20.0
"""The longest that a node waits for output before it answers with an empty piece."""
IN_TIME_SECONDS: Final = 300.0
"""How much a node's clock may differ from the time of a request for a command that changes something."""
WORDS_BYTES: Final = 64 * 1024
"""The most bytes of all words of a command."""

REPEATABLE: Final[Mapping[str, bool]] = {
    "logs": True, "explain": True, "describe": True, "top": True, "exec": False,
}  # fmt: skip
"""The commands that a node runs for its fleet, and whether each may be run again if its first run is uncertain."""

Stream = Literal["stdout", "stderr"]


class RemoteCommand(WhoAsks):
    """The request for one piece of a remote command."""

    session: str = ""
    """A random id, which is different for each command."""
    begin: bool = False
    """Start running `words`. A session that is already running continues."""
    asked_at: float = 0.0
    """When the command was requested, in seconds since 1970. A command that changes something must begin soon after
    that."""
    words: tuple[str, ...] = ()
    """The command line, without ``syncpod``."""
    with_input: bool = False
    """Whether input follows. Otherwise the command's input is empty."""
    received: int = 0
    """How many bytes of output the fleet has received. The node may forget them."""
    wait: float = 0.0
    """How many seconds to wait for more, at most :data:`WAIT_SECONDS`."""
    give: bool = False
    """The message carries input, and requests no output."""
    input_at: int = 0
    """The offset of `input`."""
    input: str = ""
    """Base64 of at most :data:`PIECE_BYTES`."""
    input_ends: bool = False
    """`input` is the last input of the command."""
    end: bool = False
    """End the command: nobody waits for it any more."""


class RemoteCommandChunk(Message):
    """A part of the output, in the order of its arrival."""

    stream: Stream = "stdout"
    data: str = ""
    """The bytes, as base64."""


class RemoteCommandPiece(Message):
    """A node's answer."""

    refused: str = ""
    """Why the request was refused, in one sentence; "" = it was not."""
    silent: bool = False
    """The request was refused because the node did not take it in time: nothing was begun."""
    chunks: tuple[RemoteCommandChunk, ...] = ()
    """The output from `received` on."""
    input_taken: int = 0
    """How many bytes of input the command has taken, or will not read any more."""
    input_over: bool = False
    """The command's input is closed: it has ended, or the command does not read it any more."""
    code: int | None = None
    """The exit code, once all output is returned; 128 plus the signal's number if a signal ended it."""


def remote_command_id(node: str, session: str, part: str) -> str:
    """Return the id of the workflow that carries one piece."""
    return bounded_id("fleet-errand/", f"{node}/{session}/{part}")


def why_not(words: tuple[str, ...]) -> str:
    """Return why a node does not run this command for its fleet, in one sentence; "" if it does."""
    if not words or words[0] not in REPEATABLE:
        return f"a node runs {', '.join(sorted(REPEATABLE))} for its fleet, not {words[0][:40] if words else 'nothing'}"
    if sum(len(each.encode()) for each in words) > WORDS_BYTES:
        return f"a command for a node may have at most {WORDS_BYTES // 1024} KiB"
    if any("\0" in each for each in words):
        return "a command must not have NUL characters"
    return ""


def is_repeatable(words: tuple[str, ...]) -> bool:
    """Say whether a command only reads, so that it may be run twice."""
    return bool(words) and REPEATABLE.get(words[0], False)


def to_text(data: bytes) -> str:
    """Return bytes as base64."""
    return base64.b64encode(data).decode()


def to_bytes(text: str) -> bytes:
    """Decode base64. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
