"""Events of pods that are gone, from this machine's journal, for as long as kubectl's users expect events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.worker_process import serving
from syncpod.cli.view.event_lines import PodEvent
from syncpod.journal.reading import NoJournal, happenings_of_gone
from syncpod.node.read_socket import settle_journal

KEPT: Final = timedelta(hours=1)
"""How long a kube-apiserver keeps an event (--event-ttl)."""


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
    settle_journal(settings().state_dir)
    try:
        found = happenings_of_gone(settings().state_dir, now - KEPT, namespace)
    except NoJournal:
        return [*events]
    known = {event.key for event in events}
    gone = [
        PodEvent(life.namespace, life.name, life.uid, worker.node, "", happening, is_gone=True)
        for life, happening in found
        if not names or life.name in names
    ]
    return [*events, *(event for event in gone if event.key not in known)]
