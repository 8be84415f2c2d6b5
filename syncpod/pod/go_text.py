"""Text as Go's standard library writes it, for kubelets, crictl and programs in containers that read it."""

import json
from typing import Any

_JSON_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_QUOTE_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def go_json(value: Any) -> str:
    r"""Return JSON as encoding/json marshals it: compact, keys in the order given, ``<``, ``>`` and ``&`` escaped."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_JSON_ESCAPES)


def go_quote(text: str) -> str:
    """Return the text in double quotes as strconv.Quote writes it, so that it stays on one line."""
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    if character in _QUOTE_ESCAPES:
        return _QUOTE_ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
