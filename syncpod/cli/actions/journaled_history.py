"""The last life of a pod whose workflow Temporal has removed, from this machine's journal."""

from __future__ import annotations

from datetime import UTC, datetime

from syncpod.cli.actions.history import PodHistory
from syncpod.cli.console import remark
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine import own_journal
from syncpod.cli.node_api import NodeApi
from syncpod.cli.view.explanation import Clock, lifetime
from syncpod.journal.records import SENDER
from syncpod.messages.queries import write_history


def journaled_history(namespace: str, name: str) -> PodHistory:
    """Return the last life of a pod, and print a note. Raises Failure if the journal has no pod of the name.

    The journal counts only if its node's worker serves the same Temporal server as this command.
    """
    with NodeApi() as api:
        records = own_journal.last_life(api.server, namespace, name)
    if records is None:
        raise Failure(no_such_pod(name, namespace))
    lived = lifetime(records, Clock(datetime.now(UTC)))
    remark(
        f'Note: Temporal has nothing of pod "{name}" any more; this is what the node\'s journal has of its last life, '
        f"{lived}; `syncpod explain -n {namespace} {name}` says why it restarted"
    )
    entries = [line for line in records.entries if line.kind != SENDER]
    return PodHistory(write_history(entries), entries)
