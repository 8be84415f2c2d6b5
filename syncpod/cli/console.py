"""Output: results on standard output, remarks on standard error, colours only on a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TextIO

from syncpod.api.views.text import printable

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
"""Seconds after which a command prints what it waits for."""


def say(text: str = "") -> None:
    """Write lines of the result, with control characters for terminals escaped, as in kubectl's tables."""
    sys.stdout.write(f"{harmless(text, sys.stdout)}\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Write lines to standard error, escaped as in :func:`say`: a note, a warning, an error.

    Nothing is raised if nobody reads them, or standard output: the next line for standard output fails instead.
    """
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.write(f"{harmless(text, sys.stderr)}\n")
    sys.stderr.flush()


def first_few(names: Sequence[str], shown: int = 3) -> str:
    """Return the first `shown` names and the number of the others, for a sentence: ``a, b, c and 2 more``."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


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


def harmless(text: str, stream: TextIO) -> str:
    """Escape all characters that a terminal obeys or hides, except newlines, tabs and our own colours.

    Names, messages and reasons come from images, containers and runtimes, so all texts are escaped. Two kinds of output
    are not: JSON and YAML for programs, and a container's own output (`logs`, `exec`, `attach`). A colour never lasts
    longer than its line.
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
    """Return the word that starts this program from the working directory: its name if it is on PATH, else its path."""
    ours = Path(sys.argv[0]) if Path(sys.argv[0]).name == "syncpod" else Path(sys.executable).with_name("syncpod")
    found = shutil.which("syncpod")
    if not ours.exists() or (found and Path(found).samefile(ours)):
        return "syncpod"
    near = from_here(ours)
    return near if "/" in near else f"./{near}"  # a shell looks up a bare name on PATH alone


def from_here(path: Path) -> str:
    """Return a path as it can be typed: relative if it is below the working directory, which may have been removed."""
    with contextlib.suppress(ValueError, FileNotFoundError):
        return str(path.absolute().relative_to(Path.cwd()))
    return str(path.absolute())
