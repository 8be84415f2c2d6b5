"""Messages on a node's own endpoint, beside the streams: the node's greeting, the request, and the result.

The node sends :class:`Hello` to a client that it accepts. The client sends :class:`Begin`, and the node's last message
is :class:`Ended`. Each is JSON, in a message of :mod:`syncpod.streaming.multiplex`.
"""

from __future__ import annotations

from typing import Final

from syncpod.messages.identity import Message
from syncpod.messages.remote_command import REPEATABLE, why_not

INPUT: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
"""The standard streams, as Kubernetes numbers the channels of a remote command."""

_DIRECT: Final = frozenset({*REPEATABLE, "attach"})
"""The commands that a node runs over its endpoint."""


class Hello(Message):
    """The node's first message to a client that it accepts. The client then sends its request."""

    node: str = ""


class Forward(Message):
    """A connection to a port of a pod of the node."""

    namespace: str = ""
    pod: str = ""
    port: int = 0


class Begin(Message):
    """The request: a command, or a connection."""

    words: tuple[str, ...] = ()
    """The command line, without ``syncpod``."""
    with_input: bool = False
    terminal: tuple[int, int] | None = None
    """Columns and rows of the terminal that the command gets; None = it gets none."""
    term: str = ""
    """Kind of the terminal, as ``TERM`` has it."""
    forward: Forward | None = None
    """The connection that is wanted; None = the command is run."""


class Resized(Message):
    """The terminal has another size."""

    columns: int = 0
    rows: int = 0


class Ended(Message):
    """The node's last message."""

    code: int = 1
    refused: str = ""
    """Why nothing was run, or why a connection failed, in one sentence."""
    is_pod_gone: bool = False
    """Nothing can be forwarded to the pod any more."""


def why_not_direct(words: tuple[str, ...]) -> str:
    """Return why a node does not run this command over its endpoint, in one sentence; "" if it does."""
    if words and words[0] not in _DIRECT:
        return f"a node runs {', '.join(sorted(_DIRECT))} over its endpoint, not {words[0][:40]}"
    return why_not(("exec", *words[1:]) if words else ())
