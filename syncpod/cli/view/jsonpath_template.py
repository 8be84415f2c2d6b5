r"""The templates of ``-o jsonpath=``: text with paths in braces, ``{.metadata.name}{"\n"}``.

Mirrors client-go's util/jsonpath and cli-runtime's JSONPathPrinter, v1.36: the values of a path are separated by
blanks, objects and lists are JSON, a path without a value prints nothing, and only the template itself ends lines.
Between ``{range PATH}`` and ``{end}``, the template is repeated for each value of the path, and its paths begin there.
Differences: an index beyond the end of a list has no value; a template without any path, and syntax that `.jsonpath`
does not support, are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from syncpod.cli.view.jsonpath import Path, parse_path, text_of

_PART: Final = re.compile(r"""[^{}]+|\{(?:[^{}'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\}""")
_TEXT: Final = re.compile(r"""\{\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')\s*\}""")
_WHOLE: Final = re.compile(r"\{\s*[$@]\s*\}")
_RANGE: Final = re.compile(r"\{\s*(?:range\b\s*(.*?)|end)\s*\}", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Range:
    """A part of a template that is repeated for each value of a path."""

    path: Path
    parts: Parts

    def render(self, document: Any) -> str:
        """Return the repetitions, one after the other."""
        return "".join(_rendered(self.parts, each) for each in self.path.find(document))


Parts = tuple[str | Path | Range, ...]
"""Text, paths and repetitions, in order."""


@dataclass(frozen=True)
class Template:
    """A parsed template."""

    parts: Parts

    def render(self, document: Any) -> str:
        """Return the text with each path replaced by its values."""
        return _rendered(self.parts, document)


def _rendered(parts: Parts, document: Any) -> str:
    return "".join(
        part
        if isinstance(part, str)
        else part.render(document)
        if isinstance(part, Range)
        else " ".join(map(_printed, part.find(document)))
        for part in parts
    )


def parse_template(text: str) -> Template:
    """Read a template. Raises ValueError with the part that cannot be read, or is not supported."""
    parts, ended = _nested(_pieces(text))
    if ended:
        raise ValueError("{end} without a {range PATH} before it")
    if all(isinstance(part, str) for part in parts):
        raise ValueError("name a path in braces: jsonpath='{.metadata.name}', or '{.items[*].metadata.name}' of a list")
    return Template(parts)


def _pieces(text: str) -> Iterator[str]:
    """Yield text, and the parts in braces with their braces. Raises ValueError."""
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None:
            raise ValueError(f"{text[position:]!r}: an opening and a closing brace belong together")
        yield found[0]
        position = found.end()


def _nested(pieces: Iterator[str]) -> tuple[Parts, bool]:
    """Return the parts up to an ``{end}``, and whether there was one. Raises ValueError for a range without an end."""
    parts: list[str | Path | Range] = []
    for piece in pieces:
        ranged = _RANGE.fullmatch(piece)
        if ranged is None:
            parts.append(_part(piece))
        elif ranged[1] is None:
            return tuple(parts), True
        else:
            inner, ended = _nested(pieces)
            if not ended:
                raise ValueError(f"{piece!r} has no {{end}}")
            parts.append(Range(parse_path(f"{{{ranged[1]}}}"), inner))
    return tuple(parts), False


def _part(text: str) -> str | Path:
    if not text.startswith("{"):
        return text
    if quoted := _TEXT.fullmatch(text):
        inner = quoted[1] if quoted[1] is not None else quoted[2]
        return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inner)
    return Path(text, ()) if _WHOLE.fullmatch(text) else parse_path(text)


def _printed(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text_of(value)
