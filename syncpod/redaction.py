"""Hides the values of Secrets in each text that leaves a node: in events, statuses, failures, logs, spans, the journal.

For example, a runtime quotes a command with an expanded value, a server's answer to a probe repeats the probe's header,
or a program's last line has its password. These texts would stay in a pod's history.

Texts are searched where they leave the process, in these few places: the texts that the process sends to Temporal
(`syncpod.temporal.hiding`), its log, its spans, the answers of the node's API, and its journal. Only
:meth:`Redactor.part` may shorten a text: after any other cut, the beginning of a value would not be recognised.

The time of a search grows with the text, but not with the number of values: two look-ups at each position decide
whether a value may begin there. No automaton is built, so a new value costs little, and no regular expression, which
would try each value at each position.
"""

from __future__ import annotations

import base64
import json
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, quote_plus

from syncpod.pod.go_text import go_json, go_quote

MASK: Final = "***"
"""The replacement of a value. It is shorter if a cut leaves fewer than three characters of the value."""
SHORT: Final = 4
"""Values with fewer characters are hidden only as whole words: they are parts of many other words."""
SHORTEST: Final = 3
"""Values with fewer characters are never hidden: they can be guessed, and exit codes are as short."""
HEAD: Final = 16
"""The first HEAD characters of a longer value are hidden even without the rest, which another program may have cut
off."""
OVERLAP: Final = HEAD - 1
"""Number of characters beyond a cut that :meth:`Redactor.part` reads, to recognise a value that the cut divides."""
_ENCODED: Final = 8
"""Values with fewer characters are not looked for in base64 or percent-encoded, since four letters of base64 occur in
many words."""
_KEPT: Final = 128
"""Number of characters of a form that are stored and compared. If all of them match, the rest of the form is hidden by
its length, without a comparison."""


@dataclass(frozen=True, slots=True)
class _Index:
    """Words that can be found by their beginnings.

    An index never changes, so threads may search it while a new one is made.
    """

    short: frozenset[str] = frozenset()
    """Words of less than HEAD characters, which are found as a whole."""
    heads: tuple[str, ...] = ()
    """The first `_KEPT` characters of each longer word, sorted."""
    lengths: dict[str, int] = field(default_factory=dict, repr=False)
    """By head: the length of the longest word that begins with it."""
    starts: frozenset[str] = frozenset()
    """The first SHORTEST characters of each short word, and the first HEAD characters of each longer word."""
    short_lengths: tuple[int, ...] = ()

    def with_words(self, words: Iterable[str]) -> _Index:
        short, lengths = set(self.short), dict(self.lengths)
        for word in words:
            if len(word) < HEAD:
                short.add(word)
            else:
                lengths[word[:_KEPT]] = max(len(word), lengths.get(word[:_KEPT], 0))
        return _Index(
            frozenset(short),
            tuple(sorted(lengths)),
            lengths,
            frozenset((*(word[:SHORTEST] for word in short), *(word[:HEAD] for word in lengths))),
            tuple(sorted({len(word) for word in short}, reverse=True)),
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of words, and of beginnings of words, in a text, in order; spans may overlap."""
        starts = self.starts
        begins = [at for at in range(len(text)) if text[at : at + SHORTEST] in starts or text[at : at + HEAD] in starts]
        return [(at, end) for at in begins if (end := self._end(text, at)) > at]

    def _end(self, text: str, at: int) -> int:
        """Return the end of the longest word that begins at a position; the position itself if no word begins there."""
        end = at
        for length in self.short_lengths:
            if text[at : at + length] in self.short and (length >= SHORT or _is_word(text, at, at + length)):
                end = at + length
                break
        begin = text[at : at + _KEPT]
        if len(begin) < HEAD or not self.heads:
            return end
        # The head that has the longest beginning in common with `begin` is next to the place where `begin` would be
        # inserted.
        place = bisect_left(self.heads, begin)
        for head in self.heads[max(0, place - 1) : place + 1]:
            common = _common(head, begin)
            if common >= HEAD:
                whole = self.lengths[head] if common == len(head) else common
                end = max(end, at + whole)
        return min(end, len(text))


class Redactor:
    """The values of Secrets that a process redacts, until `forget` is called. All methods are for any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._known: frozenset[str] = frozenset()
        self._words = self._reversed = _Index()

    def add(self, values: Iterable[str]) -> None:
        """Hide these values from now on, in each form that a program may print: quoted, percent-encoded, base64."""
        with self._changing:
            if new := frozenset(values) - self._known:
                self._known |= new
                self._words, self._reversed = _added(self._words, self._reversed, new)

    def known(self) -> frozenset[str]:
        """Return the values that are hidden."""
        return self._known

    def forget(self, values: Iterable[str]) -> None:
        """Stop hiding these values."""
        with self._changing:
            if gone := self._known.intersection(values):
                self._known -= gone
                self._words, self._reversed = _added(_Index(), _Index(), self._known)

    def redact(self, text: str) -> str:
        """Return the text with each known value replaced by ``***``."""
        return self.part(text)

    def part(self, text: str, start: int = 0, stop: int | None = None) -> str:
        """Return the characters from `start` to `stop` of a text, with each known value replaced by ``***``.

        A value that `start` or `stop` divides is hidden too. For that, `text` must go on for OVERLAP characters beyond
        the cut, or have the end of the whole text. Characters farther away are not read. With a `start`, the text may
        be the end of a longer one, and begin within a value.
        """
        stop = len(text) if stop is None else min(stop, len(text))
        text = text[: stop + OVERLAP]
        words = self._words
        if not words.starts or not text:
            return text[start:stop]
        spans = words.spans(text)
        if start:
            size = len(text)
            spans += [(size - end, size - at) for at, end in self._reversed.spans(text[::-1])]
        parts: list[str] = []
        at = start
        for begin, end in _merged(spans, start, stop):
            parts += (text[at:begin], MASK[: end - begin])
            at = end
        return "".join((*parts, text[at:stop])) if parts else text[start:stop]


of_process: Final = Redactor()
"""The redactor of this process. A process has one log, one exporter of spans, and serves one node."""


def _merged(spans: list[tuple[int, int]], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans between `start` and `stop`, in order, with overlapping and adjacent ones merged."""
    begin = end = start
    for each, its_end in sorted(spans):
        if each > end:
            if end > begin:
                yield begin, min(end, stop)
            if each >= stop:
                return
            begin = end = each
        end = max(end, its_end)
    if end > begin:
        yield begin, min(end, stop)


def _added(words: _Index, reversed_: _Index, values: Iterable[str]) -> tuple[_Index, _Index]:
    forms = {form for value in values for form in _forms(value)}
    long = (form[::-1] for form in forms if len(form) >= HEAD)
    return words.with_words(forms), reversed_.with_words(long)


def _forms(value: str) -> set[str]:
    """Return a value's forms: plain, quoted by Go, JSON and Python, percent-encoded, and in base64 at each offset."""
    plain = value.strip()
    data = plain.encode(errors="surrogateescape")
    forms = {
        plain,
        go_quote(plain)[1:-1],
        json.dumps(plain)[1:-1],
        go_json(plain)[1:-1],
        repr(plain)[1:-1],
        plain.lower(),  # programs print a URL's scheme and host in lower case
        plain.encode("ascii", errors="backslashreplace").decode(),
        data.decode("latin-1").encode("ascii", errors="backslashreplace").decode(),
        data.decode(errors="replace"),
    }
    if len(plain) >= _ENCODED:
        forms |= {quote(data), quote(data, safe=""), quote_plus(data)}
        for offset in range(3):
            # The first and the last character may also encode bits of the text beside the value.
            encoded = base64.b64encode(bytes(offset) + data).rstrip(b"=").decode()
            inside = encoded[(0, 2, 3)[offset] : -1 if (len(data) + offset) % 3 else None]
            forms |= {inside, inside.replace("+", "-").replace("/", "_")}
    return {form for form in forms if len(form.strip()) >= SHORTEST}


def _common(one: str, other: str) -> int:
    """Return the length of the beginning that two texts have in common."""
    if other.startswith(one):
        return len(one)
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))


def _is_word(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text is a whole word: no letter, digit or underscore is beside it."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return not any(each.isalnum() or each == "_" for each in (before, after))
