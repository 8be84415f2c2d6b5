"""The format of files of variables that one container writes for later ones (fileKeyRef)."""

from __future__ import annotations

from collections.abc import Iterator

_BLANKS = b" \t"
_LONGEST_LINE = 64 * 1024


class EnvFileInvalid(ValueError):
    """A file of variables has an invalid line. The text names the line, and does not show it."""


class EnvFileReader:
    """Reads variables from a file of lines ``NAME='value'``: each line once, for any number of variables.

    A value is literal text in single quotes right after the equals sign. It may span several lines, and a comment may
    follow it. Blank lines, and lines that begin with ``#``, are ignored. A value that begins with a blank is empty, as
    in a shell. The first line with the wanted name counts, and later lines are not checked (util/env/env_util.go,
    v1.36, ParseEnv; difference: the kubelet reads the file anew for each variable).
    """

    def __init__(self, content: bytes) -> None:
        self._rest = _variables(_Lines(content))
        self._known: dict[bytes, bytes] = {}
        """The variables of the lines that have been read."""
        self._invalid: EnvFileInvalid | None = None
        """The problem of the next line, if that line is invalid; no line after it is read."""

    def value(self, key: str) -> bytes:
        """Return the value of `key`; empty if the file does not have it. Raises :class:`EnvFileInvalid`."""
        wanted = key.encode()
        if wanted in self._known:
            return self._known[wanted]
        if self._invalid is not None:
            raise self._invalid
        try:
            for name, value in self._rest:
                self._known.setdefault(name, value)
                if name == wanted:
                    return value
        except EnvFileInvalid as invalid:
            self._invalid = invalid
            raise
        return b""


def _variables(lines: _Lines) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the value of each line with a variable. Raises EnvFileInvalid at the first invalid line."""
    while (line := lines.next()) is not None:
        line = line.lstrip(_BLANKS)
        if not line or line.startswith(b"#"):
            continue
        name, equals, written = line.partition(b"=")
        if not equals:
            raise lines.invalid("must have an equals sign")
        if not name or name != name.rstrip(_BLANKS):
            raise lines.invalid("must begin with the name of a variable and, right after it, the equals sign")
        if written.lstrip(_BLANKS) != written:
            value = b""
        elif written.startswith(b"'"):
            value = _quoted(lines, written[1:])
        else:
            raise lines.invalid("must have its value in single quotes")
        yield name, value


class _Lines:
    """The lines of a file as Go's bufio.Scanner reads them: without LF or CRLF, and of limited length."""

    def __init__(self, content: bytes) -> None:
        self._lines = iter(content.removesuffix(b"\n").split(b"\n") if content else ())
        self._number = 0

    def next(self) -> bytes | None:
        line = next(self._lines, None)
        if line is None:
            return None
        self._number += 1
        if len(line) >= _LONGEST_LINE:
            raise self.invalid(f"must have fewer than {_LONGEST_LINE} bytes")
        return line.removesuffix(b"\r")

    def invalid(self, why: str) -> EnvFileInvalid:
        return EnvFileInvalid(f"line {self._number} {why}")


def _quoted(lines: _Lines, rest: bytes) -> bytes:
    """Return the text up to the closing quote, on this line or a later one."""
    taken: list[bytes] = []
    while True:
        before, quote, after = rest.partition(b"'")
        taken.append(before)
        if quote:
            behind = after.lstrip(_BLANKS)
            if behind and not behind.startswith(b"#"):
                raise lines.invalid("must have nothing but a comment after the closing quote")
            return b"\n".join(taken)
        line = lines.next()
        if line is None:
            raise lines.invalid("must be followed by the closing quote of its value")
        rest = line
