"""Events of pods that are gone, from the node's journal, for as long as kubectl's users expect events.

Commands read them without the API's handlers, whose models take longer to load than such a command to answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from syncpod.api.views.events import PodEvent
from syncpod.journal.reading import NoJournal, events_of_gone

KEPT: Final = timedelta(hours=1)
"""How long a kube-apiserver keeps an event (--event-ttl)."""


def gone_events(
    state_dir: Path, node: str, present: Sequence[PodEvent], namespace: str | None, now: datetime
) -> list[PodEvent]:
    """Return the events of the last hour of pods that are gone from a node, without those that are `present`. Blocks.

    `namespace`: None = all. Without a journal there are none.
    """
    try:
        found = events_of_gone(state_dir, now - KEPT, namespace)
    except NoJournal:
        return []
    known = {event.key for event in present}
    gone = [
        PodEvent(life.namespace, life.name, life.uid, node, "", happening, is_gone=True) for life, happening in found
    ]
    return [event for event in gone if event.key not in known]
