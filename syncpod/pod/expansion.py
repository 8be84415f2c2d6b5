"""References in a container's command, arguments and environment: ``$(NAME)``, with ``$$`` for a dollar sign.

A short text with references can have a long result: a manifest of one kilobyte has room for 26 variables that each
name the previous one twice, and so double the text. So every result has a limit, which is checked before it is built.
"""

import re
from collections.abc import Mapping
from typing import Final

LONGEST_STRING: Final = 128 * 1024 - 1
"""The longest argument, or variable as ``NAME=value``, in bytes. Linux starts no program with a longer one
(MAX_ARG_STRLEN: 32 pages of 4 KiB, with the NUL at its end)."""

LONGEST_PROGRAM: Final = 2 * 1024 * 1024
"""The most bytes of all arguments and variables of one program. Linux takes a quarter of the stack's limit, 8 MiB
unless somebody has raised it for the runtime (ARG_MAX, execve(2)). A request to a runtime may have 16 MiB."""

LONGEST_PATH: Final = 4095
"""The longest path in bytes (PATH_MAX, less the NUL at its end)."""

_DOLLAR = re.compile(r"\$(?:\(([^)]*)\)|(.))", re.DOTALL)


class TooLong(ValueError):
    """A text is longer than Linux takes. The message has the rule and the sizes, and no part of the text."""


class ProgramSize:
    """Adds up the sizes of one program's strings."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, size: int) -> None:
        """Add a string of this many bytes. Raises TooLong if the string is too long, or all strings together are."""
        if size > LONGEST_STRING:
            raise TooLong(
                f"must be no more than {LONGEST_STRING} bytes with its references replaced, "
                f"which is as much as Linux gives a program in one string; it is {size}"
            )
        self._total += size + 1  # the NUL at its end
        if self._total > LONGEST_PROGRAM:
            raise TooLong(
                "is too much: command, arguments and environment must be no more than "
                f"{LONGEST_PROGRAM} bytes together with their references replaced, "
                "which is as much as Linux gives a program"
            )


def expand(text: str, values: Mapping[str, str], *, most: int = LONGEST_STRING) -> str:
    """Replace each ``$(NAME)`` that has a value and leave the others; replace ``$$`` by ``$``.

    Values are not expanded again. A dollar sign before anything else, or at the end, stays
    (third_party/forked/golang/expansion, v1.36, Expand). Differences: a non-ASCII character after a dollar sign stays
    whole, where Expand splits off its first byte; and a result of more than `most` bytes raises TooLong, where Expand
    has no limit. Its size is computed before it is made.
    """
    named = references(text)
    size = expanded_size(text, {name: size_of(values[name]) for name in named if name in values})
    if size > most:
        raise TooLong(f"must be no more than {most} bytes with its references replaced; it is {size}")

    def one(match: re.Match[str]) -> str:
        name, following = match.groups()
        if name is not None:
            return values.get(name, match.group())
        return "$" if following == "$" else match.group()

    return _DOLLAR.sub(one, text)


def expanded_size(text: str, sizes: Mapping[str, int]) -> int:
    """Return how many bytes `text` has with its references replaced by values of these `sizes`, by name."""
    total = size_of(text)
    for match in _DOLLAR.finditer(text):
        name, following = match.groups()
        if name is not None and name in sizes:
            total += sizes[name] - size_of(match.group())
        elif following == "$":
            total -= 1
    return total


def size_of(text: str) -> int:
    """Return the bytes that a text has in UTF-8. A surrogate escape (an invalid byte) counts as one."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def references(text: str) -> frozenset[str]:
    """Return the names that `text` refers to."""
    return frozenset(match[1] for match in _DOLLAR.finditer(text) if match[1] is not None)
