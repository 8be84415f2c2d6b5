"""Standard input, output and error of the program, each of which may be closed, or may refuse what is written to it.

A command that changes something completes its changes even if nobody can read what it prints, and then fails.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, Final, TextIO

from syncpod.cli.failure import BadInput

STDIN: Final = "standard input"


class _Output(io.FileIO):
    """A stream's descriptor. The first failure of a write is kept, and what is written afterwards is lost."""

    failure: OSError | None = None
    stops = False
    """Whether that first failure is raised."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == errno.EPIPE and self.fileno() == 1:  # nobody reads the output: the command ends
                raise
            if self.failure is None:
                self.failure = OSError(error.errno, error.strerror, "standard output")
                if self.stops:
                    raise self.failure from None
            return memoryview(data).nbytes


_output: _Output | None = None


def open_standard_streams() -> None:
    """Open the null device for each closed stream, and keep failures of writes; called before anything else is opened.

    Otherwise the next file or socket would get the descriptor of a closed stream, and a child would write to it.
    Python's object for a closed standard input stays None (`standard_input`).
    """
    global _output
    closed = [number for number, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None]
    for number in closed:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
    _output = _Output(1, "w", closefd=False)
    sys.stdout = _text(_output, sys.stdout, errors="strict")
    sys.stderr = _text(_Output(2, "w", closefd=False), sys.stderr, errors="backslashreplace")


def _text(output: _Output, before: TextIO | None, *, errors: str) -> TextIO:
    """Return the stream of an output, in the manner of Python's own."""
    raw = io.BufferedWriter(output)
    if not isinstance(before, io.TextIOWrapper):
        return io.TextIOWrapper(raw, encoding="utf-8", errors=errors)
    return io.TextIOWrapper(
        raw,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )


def stop_at_lost_output() -> None:
    """Let the first write to standard output that fails end the command, which would not end by itself."""
    if _output is not None:
        _output.stops = True


def lost_output() -> OSError | None:
    """Return why standard output lacks a part of what was written; None if nothing is missing."""
    return _output.failure if _output is not None else None


def standard_input() -> TextIO:
    """Return our standard input. Raises BadInput if it is closed."""
    if sys.stdin is None:
        raise BadInput(f"{STDIN} is closed")
    return sys.stdin
