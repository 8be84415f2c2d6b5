"""Words that no text of the runtime may repeat: values of Secrets that containers were given.

A runtime quotes what it was asked for in its errors: a command that is not there, with a Secret's value expanded into
it; a path that cannot be mounted. Those texts become events and statuses, and would lie in the pod's history for good.
"""

import json
import re
from collections.abc import Iterable

from syncpod.pod.go_text import go_quote

_MOST_WORDS = 4096
_SHORT = 4
"""Fewer characters are hidden only where they stand alone, or every text would be riddled with holes."""
_SHORTEST = 3
"""Fewer are never hidden: everybody could guess them, and exit codes are numbers as short."""
_MASK = "***"


class Unspeakable:
    """What must not be said, as far as this process has learned it; the longest-known words go when there are many."""

    def __init__(self) -> None:
        self._words: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, words: Iterable[str]) -> None:
        """Take in words that were not known, in each way in which a runtime would write them."""
        forms = [form for word in words for form in _forms(word) if form not in self._words]
        if forms:
            self._words.update(dict.fromkeys(forms))
            for oldest in list(self._words)[: max(0, len(self._words) - _MOST_WORDS)]:
                del self._words[oldest]
            self._pattern = _pattern(self._words)

    def without(self, text: str) -> str:
        """Return the text with ``***`` for every word that it repeats."""
        return self._pattern.sub(_MASK, text) if self._pattern is not None and text else text


def _forms(word: str) -> tuple[str, ...]:
    """Return a word as it is, as Go quotes it, and as JSON does."""
    lines = word.strip()
    forms = dict.fromkeys((word, lines, go_quote(lines)[1:-1], json.dumps(lines)[1:-1]))
    return tuple(form for form in forms if len(form.strip()) >= _SHORTEST)


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    """Match any of the words, a longer one before one that it begins with."""
    ordered = sorted(words, key=len, reverse=True)
    parts = (re.escape(word) if len(word) >= _SHORT else rf"(?<!\w){re.escape(word)}(?!\w)" for word in ordered)
    return re.compile("|".join(parts))
