"""The output of ``syncpod explain POD --start --trace``: the traces of a start as trees. Values in, text out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from syncpod.cli.view.console_spans import Span

SYNC: Final = "sync_pod"
"""The name of the root span of a pod's trace: the work of the pod's workflow until it is idle again."""
_SHOWN: Final = ("syncpod.step", "syncpod.why", "k8s.container.name")
_NAME_WIDTH: Final = 34


class SpanTree:
    """The spans of one trace, as a tree below its sync."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Build the tree of `spans`, which all belong to one trace. One of them is a ``sync_pod``."""
        (self.root,) = [span for span in spans if span.name == SYNC]
        self._below: dict[str, list[Span]] = defaultdict(list)
        for span in sorted(spans, key=lambda each: each.begun):
            self._below[span.parent].append(span)

    def unaccounted(self, span: Span) -> int:
        """Return the nanoseconds of a span outside all spans below it."""
        reached, gaps = span.begun, 0
        for child in self._below[span.id]:
            gaps += max(0, child.begun - reached)
            reached = max(reached, child.ended)
        return gaps + max(0, span.ended - reached)

    @property
    def unaccounted_in_all(self) -> int:
        """The nanoseconds of the sync outside all spans: between its spans, and between the calls of a step."""
        steps = [span for span in self._below[self.root.id] if self._below[span.id]]
        return sum(map(self.unaccounted, (self.root, *steps)))

    @property
    def gaps(self) -> float:
        """The fraction of the sync outside all spans."""
        return self.unaccounted_in_all / self.root.took if self.root.took else 0.0

    def lines(self, since: int | None = None) -> list[str]:
        """Return one line per span. Times count from `since`, in nanoseconds since 1970; None = the tree's start."""
        head = f"{'':{_NAME_WIDTH}}{'at':>8}{'took':>8}{'gaps':>8}"
        return [head, *self._lines(self.root, 0, self.root.begun if since is None else since)]

    def _lines(self, span: Span, depth: int, since: int) -> Iterator[str]:
        said = ", ".join(span.attributes[name] for name in _SHOWN if span.attributes.get(name))
        gaps = f"{self.unaccounted(span) / 1e6:8.1f}" if self._below[span.id] else f"{'':8}"
        name = f"{'  ' * depth + span.name:{_NAME_WIDTH}}"
        yield f"{name}{(span.begun - since) / 1e6:8.1f}{span.took / 1e6:8.1f}{gaps}  {said}".rstrip()
        for each in self._below[span.id]:
            yield from self._lines(each, depth + 1, since)

    def document(self) -> list[dict[str, Any]]:
        """Return its spans as JSON, in the order of the lines. Times are in UTC, durations in milliseconds."""
        return list(self._documents(self.root))

    def _documents(self, span: Span) -> Iterator[dict[str, Any]]:
        yield {
            "name": span.name,
            "traceId": span.trace,
            "spanId": span.id,
            "parentId": span.parent,
            "at": datetime.fromtimestamp(span.begun / 1e9, UTC).isoformat(timespec="microseconds"),
            "tookMs": span.took / 1e6,
            "attributes": dict(span.attributes),
        }
        for each in self._below[span.id]:
            yield from self._documents(each)


def traces_of(spans: Sequence[Span], uid: str, begun: datetime, ended: datetime) -> list[SpanTree]:
    """Return the traces of a pod's syncs that were under way in this time, oldest first."""
    first, last = begun.timestamp() * 1e9, ended.timestamp() * 1e9
    syncs = [
        each
        for each in spans
        if (each.name, each.attributes.get("k8s.pod.uid")) == (SYNC, uid) and each.begun <= last and each.ended >= first
    ]
    of_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        of_trace[span.trace].append(span)
    # The trace of a Temporal client may have several syncs.
    trees = [SpanTree([each, *(it for it in of_trace[each.trace] if it.name != SYNC)]) for each in syncs]
    return sorted(trees, key=lambda tree: tree.root.begun)


def lines(trees: Sequence[SpanTree]) -> list[str]:
    """Return the lines of all trees, with times from the start of the first one, and the time outside all spans."""
    since = trees[0].root.begun
    whole = sum(tree.root.took for tree in trees)
    gaps = sum(tree.unaccounted_in_all for tree in trees)
    blocks = [line for tree in trees for line in (*tree.lines(since), "")]
    return [*blocks, f"no span accounts for {gaps / whole if whole else 0.0:.1%} of it"]
