"""Patterns among the ends of a container's instances, as sentences. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Final

from syncpod.journal.causes import OOM_WITHIN, End

_FEW: Final = 3
"""The fewest ends that show a pattern in their times, or something that most ends have in common."""
_TWO: Final = 2
"""The fewest ends that can be alike."""
_MOSTLY: Final = 0.8
"""If at least this fraction of all ends has something in common, that counts as usual."""
_OTHERS: Final = 2
"""How many unusual last lines are named, at most."""
_REGULAR: Final = 0.15
"""How far each gap may differ from the usual gap, as a fraction of the usual gap."""
_LATELY: Final = 4
"""The number of newest gaps between ends that show a regular interval if the earlier ones do not."""
_CLIP: Final = 100
"""How many characters of a last line are shown: a whole log may be one line."""
_REQUESTED: Final = frozenset({"update", "resize", "operator", "deleted", "finished", "rule", "deadline"})
"""Ends that somebody, or the pod itself, asked for. They do not show that something is wrong."""
_ONE: Final = timedelta(seconds=1)


def patterns(
    ends: Sequence[End],
    *,
    changed: Sequence[datetime] = (),
    span: Callable[[timedelta], str],
    clock: Callable[[datetime], str],
) -> list[str]:
    """Return a sentence for each pattern among a container's ends.

    One end only shows that memory ran out. Two may have the same cause or last line; patterns of time need three.

    `changed` are the times at which the pod was changed. `span` and `clock` format a duration and a time.
    """
    found, every = [_since_change(ends, changed, clock)], len(ends)
    ends = [end for end in ends if end.cause.kind not in _REQUESTED]
    same = "" if all(end.cause.kind == "oom" for end in ends) else _same_cause(ends)
    if same and len(ends) < every:
        same = f"{same} (without the {every - len(ends)} that {'was' if every - len(ends) == 1 else 'were'} asked for)"
    found += [_out_of_memory(ends), same]
    found += [_same_run_time(ends, span), _regular(ends, span), _last_lines(ends)]
    return [sentence for sentence in found if sentence]


def _same_cause(ends: Sequence[End]) -> str:
    if len(ends) < _TWO:
        return ""
    kinds = Counter(end.cause.kind for end in ends)
    kind, often = kinds.most_common(1)[0]
    words = _words([end for end in ends if end.cause.kind == kind])
    if often == len(ends):
        return f"always the same{_so_far(len(ends))}: {words}"
    if often >= _FEW and often / len(ends) >= _MOSTLY:
        return f"mostly the same, {often} of {len(ends)} times: {words}"
    last = [end.cause.kind for end in ends[-_FEW:]]
    if len(set(last)) == 1:
        return f"the same for the last {_FEW} times: {_words(ends[-_FEW:])}"
    return ""


def _so_far(often: int) -> str:
    return ", both times" if often == _TWO else ""


def _words(ends: Sequence[End]) -> str:
    """Return the cause of ends of the same kind, with their text only if it was the same for all."""
    words = ends[-1].cause.words
    return words if all(end.cause.words == words for end in ends) else words.partition(": ")[0]


def _out_of_memory(ends: Sequence[End]) -> str:
    hit = [end for end in ends if end.cause.kind in ("oom", OOM_WITHIN)]
    if not hit:
        return ""
    times = "once" if len(hit) == 1 else f"{len(hit)} times"
    limit = hit[-1].memory_limit
    return f"out of memory {times}" + (f", at the limit of {limit}" if limit else ", though the container has no limit")


def _since_change(ends: Sequence[End], changed: Sequence[datetime], clock: Callable[[datetime], str]) -> str:
    """Name the change of the pod after which a container that had run well began to fail."""
    bad = [end for end in ends if end.cause.kind not in _REQUESTED | {"exit 0"}]
    for at in reversed(changed):
        after = [end for end in bad if _began(end) is not None and _began(end) >= at - _ONE]  # type: ignore[operator]
        before = [end for end in bad if end not in after]
        if len(after) >= 2 and len(after) > 2 * len(before):
            none = "none before" if not before else f"{len(before)} before"
            return f"since the change of {clock(at)}: {len(after)} ends, {none}"
    return ""


def _began(end: End) -> datetime | None:
    return end.instance.started_at


def _same_run_time(ends: Sequence[End], span: Callable[[timedelta], str]) -> str:
    ran = [end.instance.ran_for for end in ends[-10:] if end.instance.ran_for is not None]
    if len(ran) < _FEW or not _alike(ran):
        return ""
    return f"it runs for {span(_usual(ran))} each time"


def _regular(ends: Sequence[End], span: Callable[[timedelta], str]) -> str:
    """Name a regular interval between ends that a growing back-off does not explain."""
    at = [end.instance.ended_at for end in ends[-10:] if end.instance.ended_at is not None]
    gaps = [after - before for before, after in pairwise(at)]
    if len(gaps) >= _FEW and _alike(gaps):
        return f"it ends about every {span(_usual(gaps))}"
    gaps = gaps[-_LATELY:]  # a back-off grows until it reaches its maximum
    if len(gaps) < _LATELY or not _alike(gaps):
        return ""
    return f"its last {_LATELY + 1} ends came about every {span(_usual(gaps))}"


def _last_lines(ends: Sequence[End]) -> str:
    """Name the last line of all logs if they agree. Otherwise name that of most logs, and the two newest others."""
    last = [
        (end.instance.restart, lines[-1].strip())
        for end in ends[-10:]
        if (lines := end.instance.log_end.strip().splitlines())
    ]
    if len(last) < min(_FEW, max(_TWO, len(ends))):
        return ""
    usual, often = Counter(line for _, line in last).most_common(1)[0]
    if often == len(last):
        return f'its log always ends with "{_clipped(usual)}"{_so_far(often)}'
    if often < _FEW or often / len(last) < _MOSTLY:
        return ""
    others = [f'that of restart {restart} with "{_clipped(line)}"' for restart, line in last if line != usual]
    return f'its log mostly ends with "{_clipped(usual)}", {", ".join(others[-_OTHERS:])}'


def _clipped(line: str) -> str:
    """Return a line for display. If the line is too long, only its end is kept, which is the most useful part."""
    return line if len(line) <= _CLIP else f"…{line[1 - _CLIP :]}"


def _alike(spans: Sequence[timedelta]) -> bool:
    usual = _usual(spans)
    return all(abs(each - usual) <= max(usual * _REGULAR, _ONE) for each in spans)


def _usual(spans: Sequence[timedelta]) -> timedelta:
    return timedelta(seconds=median(each.total_seconds() for each in spans))
