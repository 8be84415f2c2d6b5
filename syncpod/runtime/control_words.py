"""The first byte of each packet between server and supervisor; their sockets keep packets apart."""

from __future__ import annotations


class Word:
    """What a packet says."""

    # The server's:
    ATTACH = b"a"
    """Pass on the container's output from now on, and take its input: STDIN packets, an empty one at its end."""
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
    """The container has ended, and that is on record."""
