"""Events of pods that are gone, from this machine's journal, for as long as kubectl's users expect events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from syncpod.api import client
from syncpod.api.gone_events import gone_events
from syncpod.api.views.events import PodEvent
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import serving


def with_gone(
    events: Sequence[PodEvent],
    server: tuple[str, str],
    namespace: str | None,
    names: Collection[str],
    now: datetime,
) -> list[PodEvent]:
    """Return the events, and those of the last hour of pods that are gone from this machine's node.

    Of a namespace, None = of all; with `names`, of these alone. An event that is among those given is not repeated.
    If the node does not belong to `server` (its address and namespace), its journal has nothing of these pods.
    """
    worker = serving(settings().state_dir)
    if worker is None or (worker.address, worker.namespace) != server:
        return [*events]
    client.settle_journal(settings().state_dir)
    gone = gone_events(settings().state_dir, worker.node, events, namespace, now)
    return [*events, *(event for event in gone if not names or event.pod in names)]
