r"""The templates of ``-o jsonpath=``: text with paths in braces, ``{.metadata.name}{"\n"}``.

Mirrors client-go's util/jsonpath and cli-runtime's JSONPathPrinter, v1.36: the values of a path are separated by
blanks, objects and lists are JSON, a path without a value prints nothing, and only the template itself ends lines.
Differences: an index beyond the end of a list has no value; ``range``, what `.jsonpath` does not support, and a
template without any path are refused.
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
_RANGE: Final = re.compile(r"\{\s*(?:range\b.*|end\s*)\}", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Template:
    """Text and paths, in order."""

    parts: tuple[str | Path, ...]

    def render(self, document: Any) -> str:
        """Return the text with each path replaced by its values."""
        return "".join(
            part if isinstance(part, str) else " ".join(map(_printed, part.find(document))) for part in self.parts
        )


def parse_template(text: str) -> Template:
    """Read a template. Raises ValueError with the part that cannot be read, or is not supported."""
    parts = tuple(_parts(text))
    if not any(isinstance(part, Path) for part in parts):
        raise ValueError("name a path in braces: jsonpath='{.metadata.name}', or '{.items[*].metadata.name}' of a list")
    return Template(parts)


def _parts(text: str) -> Iterator[str | Path]:
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None:
            raise ValueError(f"{text[position:]!r}: an opening and a closing brace belong together")
        yield _part(found[0])
        position = found.end()


def _part(text: str) -> str | Path:
    if not text.startswith("{"):
        return text
    if quoted := _TEXT.fullmatch(text):
        inner = quoted[1] if quoted[1] is not None else quoted[2]
        return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), inner)
    if _RANGE.fullmatch(text):
        raise ValueError(f"{text!r} is not supported: name each path by itself, as '{{.items[*].metadata.name}}'")
    return Path(text, ()) if _WHOLE.fullmatch(text) else parse_path(text)


def _printed(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text_of(value)
