"""Packets between server and supervisor: a word of one byte, then its data. The sockets preserve packet boundaries."""

from __future__ import annotations

import array
import socket

CHUNK = 64 * 1024
LONGEST = 1 + CHUNK
_MOST_DESCRIPTORS = 8


class Word:
    """The type of a packet."""

    # Sent by the server:
    ATTACH = b"a"
    """Attach: send the container's output from now on, and accept STDIN packets, of which the last one is empty.

    ENDED follows when the container has ended, or when the end of the input detaches the client."""
    STDIN = b"0"
    RESIZE = b"z"
    """Columns and rows, two bytes each, in network byte order."""
    REOPEN = b"l"
    EXECUTE = b"e"
    """With descriptors: a file with the JSON request, then the command's streams (one terminal, or three). Closing the
    connection while the command runs kills it."""

    # Sent by the supervisor:
    STARTED = b"s"
    """The container or command runs. The first answer to the server that started the container carries two pidfds: the
    supervisor's and the main process's."""
    REFUSED = b"!"
    """The reason why the container or command does not run, or the error number of REOPEN."""
    DONE = b"k"
    STDOUT = b"1"
    STDERR = b"2"
    EXITED = b"c"
    """The executed command's exit code, as decimal digits."""
    ENDED = b"x"
    """The container has ended. The data is `records.Ended` as JSON, which is recorded too, unless that fails. Without
    data, the attached client is detached instead."""


def receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next packet, empty at the end, and its descriptors, which are close-on-exec.

    Raises OSError. (This does not use socket.recv_fds, which ignores its flags, so that descriptors would leak into
    containers.)
    """
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
    packet, ancillary, _, _ = sock.recvmsg(LONGEST, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return packet, list(descriptors)
