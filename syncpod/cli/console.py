"""Output: results on standard output, remarks on standard error, colours only on a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal, TextIO

Colour = Literal["red", "green", "yellow", "cyan", "dim", "bold"]

_CODES: Final[dict[str, str]] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "dim": "2",
    "bold": "1",
}

_LAYOUT: Final = re.compile(r"([\n\t])")
_LAYOUT_AND_COLOURS: Final = re.compile(rf"([\n\t]|\033\[(?:{'|'.join(_CODES.values())}|0)m)")

_RESET: Final = "\033[0m"
SILENCE_SECONDS: Final = 3.0
"""After so long, a command says what it waits for."""
GAP: Final = "   "
"""Between two columns: three blanks, as in kubectl."""


def say(text: str = "") -> None:
    """Write lines of the result, with control characters for terminals escaped, as in kubectl's tables."""
    sys.stdout.write(f"{harmless(text, sys.stdout)}\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Write lines to standard error, harmless as in :func:`say`: a note, a warning, an error."""
    sys.stdout.flush()
    sys.stderr.write(f"{harmless(text, sys.stderr)}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def waiting(text: str) -> Iterator[None]:
    """Write the text to standard error if the block takes longer than SILENCE_SECONDS."""
    timer = threading.Timer(SILENCE_SECONDS, remark, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def printable(text: str) -> str:
    """Return a text with control characters escaped, so that a terminal neither obeys nor hides them."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def harmless(text: str, stream: TextIO) -> str:
    """Return lines with all characters escaped that a terminal obeys or hides, except tabs and our own colours.

    Names, messages and reasons come from images, containers and runtimes: only what is read by programs (JSON, YAML)
    and what a container writes itself (`logs`, `exec`, `attach`) reaches standard output by another way. A colour that
    such a text has begun ends with its line.
    """
    if not wants_colour(stream):
        return _escaped(text, _LAYOUT)
    return "\n".join(_uncoloured_at_its_end(_escaped(line, _LAYOUT_AND_COLOURS)) for line in text.split("\n"))


def _escaped(text: str, kept: re.Pattern[str]) -> str:
    return "".join(part if at % 2 else printable(part) for at, part in enumerate(kept.split(text)))


def _uncoloured_at_its_end(line: str) -> str:
    begun = line.rfind("\033[")
    return line if begun < 0 or line.startswith(_RESET, begun) else f"{line}{_RESET}"


def warn(text: str) -> None:
    """Write a warning as kubectl does."""
    remark(f"{paint('Warning:', 'yellow', sys.stderr)} {text}")


def paint(text: str, colour: Colour | None, stream: TextIO | None = None) -> str:
    """Return the text in a colour if the stream (standard output by default) is a terminal with colours."""
    if colour is None or not text or not wants_colour(stream or sys.stdout):
        return text
    return f"\033[{_CODES[colour]}m{text}{_RESET}"


def wants_colour(stream: TextIO) -> bool:
    """Return whether the stream is a terminal, and neither NO_COLOR nor TERM=dumb forbids colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return how many characters a line of standard output has room for; None if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def program() -> str:
    """Return how to call this program from the working directory: by name if PATH leads to it, else by path."""
    ours = Path(sys.argv[0]) if Path(sys.argv[0]).name == "syncpod" else Path(sys.executable).with_name("syncpod")
    found = shutil.which("syncpod")
    if not ours.exists() or (found and Path(found).samefile(ours)):
        return "syncpod"
    with contextlib.suppress(ValueError):
        return str(ours.absolute().relative_to(Path.cwd()))
    return str(ours.absolute())


class Columns:
    """A table that is printed in parts: later rows keep the column widths of earlier ones, or widen them."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def align(self, rows: Sequence[Sequence[str]]) -> list[list[str]]:
        """Pad each column but the last to its widest cell so far.

        Cells are :func:`printable`: a newline in a name or a message would pass for another row.
        """
        rows = [[printable(cell) for cell in row] for row in rows]
        widest = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        self._widths = [max(pair) for pair in zip_longest(self._widths, widest, fillvalue=0)]
        return [
            [*(cell.ljust(width) for cell, width in zip(row[:-1], self._widths, strict=False)), *row[-1:]]
            for row in rows
        ]


def align(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Pad each column but the last to its widest cell."""
    return Columns().align(rows)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the cells of all rows in columns, as kubectl prints them."""
    return [GAP.join(line).rstrip() for line in align(rows)]
