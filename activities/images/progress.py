"""The progress of a pull, shown on the pending step: in bytes if the runtime reports them, and in seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from activities.node.clock import monotonic
from activities.step_attempt import StepAttempt
from syncpod.cri.errors import CriError
from syncpod.cri.port import Ingest

LOOK_SECONDS = 1.0
"""Seconds between two progress requests to the runtime: a heartbeat is at most this much out of date."""

_LAYER = "layer-"
_MIB = 1 << 20


class Downloads:
    """The layers that have been downloading since a pull began.

    The runtime does not report to which pull a layer belongs, so these are the layers of all current pulls. A layer
    that an earlier pull left unfinished counts once it grows. A layer that is no longer listed is complete. A layer
    that has not begun is not counted, so the total may grow.
    """

    def __init__(self, before: Iterable[Ingest]) -> None:
        """Start from the downloads that were listed before the pull began."""
        self._left = {ingest.ref: ingest.done_bytes for ingest in before}
        self._layers: dict[str, tuple[int, int]] = {}

    def see(self, ingests: Iterable[Ingest]) -> None:
        """Update the progress from a new listing."""
        listed = {ingest.ref: ingest for ingest in ingests if ingest.ref.startswith(_LAYER)}
        for ref, ingest in listed.items():
            if ref in self._layers or ingest.done_bytes != self._left.get(ref):
                self._layers[ref] = (ingest.done_bytes, max(ingest.done_bytes, ingest.total_bytes))
        for ref, (_, total) in self._layers.items():
            if ref not in listed:
                self._layers[ref] = (total, total)

    def __str__(self) -> str:
        """`12.3 of 40.1 MiB`; "" until a layer has been seen."""
        if not self._layers:
            return ""
        done, total = (sum(numbers) / _MIB for numbers in zip(*self._layers.values(), strict=True))
        return f"{done:.1f} of {total:.1f} MiB"


@asynccontextmanager
async def watched(attempt: StepAttempt, image: str) -> AsyncIterator[None]:
    """Keep the progress of the pull in the step's `doing` during the block.

    The text is `pulls web:1: 12.3 of 40.1 MiB, 8 s`, without bytes if the runtime does not report them. The bytes
    include other pulls under way, and the text has their number: `pulls web:1 beside 2 others: …`.
    """
    attempt.doing = f"pulls {image}"
    watching = asyncio.create_task(_watch(attempt, image))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(attempt: StepAttempt, image: str) -> None:
    cri, pulls = attempt.node.cri, attempt.node.pulls
    began = monotonic()
    try:
        before = await cri.ingests() if pulls.tells_bytes else None
        pulls.tells_bytes = before is not None
        downloads = Downloads(before or ())
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if pulls.tells_bytes:
                downloads.see(await cri.ingests() or ())
            others = pulls.under_way - 1
            beside = f" beside {others} other{'s' if others > 1 else ''}" if others else ""
            seconds = f"{monotonic() - began:.0f} s"
            attempt.doing = f"pulls {image}{beside}: {', '.join(filter(None, (str(downloads), seconds)))}"
    except CriError:
        return  # the pull itself will fail with the same error
