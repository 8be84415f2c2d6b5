"""Packets between server and supervisor: a word of one byte, then what it is about; their sockets keep them apart."""

from __future__ import annotations

import array
import socket

CHUNK = 64 * 1024
LONGEST = 1 + CHUNK
_MOST_DESCRIPTORS = 8


class Word:
    """What a packet says."""

    # The server's:
    ATTACH = b"a"
    """Pass on the container's output from now on, and take its input: STDIN packets, an empty one at its end.

    ENDED comes when the container has ended, or when the end of input detaches."""
    STDIN = b"0"
    RESIZE = b"z"
    """Columns and rows, two bytes each, in network order."""
    REOPEN = b"l"
    EXECUTE = b"e"
    """With descriptors: the request as JSON, then the command's streams (one terminal, or three). Closing the
    connection while the command runs kills it."""

    # The supervisor's:
    STARTED = b"s"
    """It runs. The first answer to the server that asked for a container carries pidfds: supervisor, main process."""
    REFUSED = b"!"
    """Why not."""
    DONE = b"k"
    STDOUT = b"1"
    STDERR = b"2"
    EXITED = b"c"
    """The executed command's exit code, as decimal digits."""
    ENDED = b"x"
    """The container has ended: how, as JSON (`records.Ended`), which is on record too unless that cannot be written.
    Empty to one attached: it is detached."""


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next packet, empty at the end, and the descriptors that came with it, which no exec will pass on.

    Raises OSError. (socket.recv_fds drops its flags, so that descriptors would leak into containers.)
    """
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
    packet, ancillary, _, _ = sock.recvmsg(LONGEST, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, list(descriptors)
