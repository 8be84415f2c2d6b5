"""Redaction of the values of Secrets in all messages of a runtime.

A runtime quotes requests in its errors: a missing command with a Secret's value expanded into it, or a path that cannot
be mounted. Such texts become events and statuses, and would stay in the pod's history.
"""

import json
import re
from collections.abc import Iterable

from syncpod.pod.go_text import go_quote

_MOST_WORDS = 4096
_SHORT = 4
"""Shorter values are hidden only as whole words; otherwise parts of many other words would be hidden."""
_SHORTEST = 3
"""Shorter values are never hidden: they can be guessed, and exit codes are as short."""
_MASK = "***"


class Redactor:
    """The values of Secrets that this process knows. When there are too many, the oldest are dropped."""

    def __init__(self) -> None:
        self._words: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def add(self, words: Iterable[str]) -> None:
        """Add words, in each form in which a runtime would write them."""
        forms = [form for word in words for form in _forms(word) if form not in self._words]
        if forms:
            self._words.update(dict.fromkeys(forms))
            for oldest in list(self._words)[: max(0, len(self._words) - _MOST_WORDS)]:
                del self._words[oldest]
            self._pattern = _pattern(self._words)

    def redact(self, text: str) -> str:
        """Return the text with each known word replaced by ``***``."""
        return self._pattern.sub(_MASK, text) if self._pattern is not None and text else text


def _forms(word: str) -> tuple[str, ...]:
    """Return a word as it is, as Go quotes it, and as JSON does."""
    lines = word.strip()
    forms = dict.fromkeys((word, lines, go_quote(lines)[1:-1], json.dumps(lines)[1:-1]))
    return tuple(form for form in forms if len(form.strip()) >= _SHORTEST)


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of the words, the longest first."""
    ordered = sorted(words, key=len, reverse=True)
    parts = (re.escape(word) if len(word) >= _SHORT else rf"(?<!\w){re.escape(word)}(?!\w)" for word in ordered)
    return re.compile("|".join(parts))
