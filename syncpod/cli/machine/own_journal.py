"""Reads this machine's journal, about the last worker, and about pods whose workflows the server no longer keeps."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from syncpod.api import client
from syncpod.api.views.events import PodEvent, gone_events
from syncpod.cli.failure import Failure
from syncpod.cli.input.kubectl_words import no_such_pod
from syncpod.cli.machine.settings import settings
from syncpod.cli.machine.state_directory import full_disk, memory_directory_of
from syncpod.journal.reading import LifeRecords, NoJournal, last_sign_of, lives_of
from syncpod.settings.node import NodeSettings
from syncpod.settings.table import MEMORY_DIR
from syncpod.settings.worker_record import serving


def last_life(server: tuple[str, str], namespace: str, name: str) -> LifeRecords | None:
    """Return the journal's records of the last life of a pod; None if it has none. Blocks.

    The result is None, too, if the node's worker serves another Temporal server than `server` (address and namespace).
    """
    worker = serving(settings().state_dir)
    if worker is not None and (worker.address, worker.namespace) != server:
        return None
    try:
        lives = lives_of(settings().state_dir, namespace, name)
    except NoJournal:
        return None
    return lives[-1] if lives else None


def lives_with_uid(lives: Sequence[LifeRecords], uid: str) -> list[LifeRecords]:
    """Return the lives with this UID among those of one name; "" = all. Raises Failure if there is none.

    A static pod has the same uid in each of its lives.
    """
    chosen = [each for each in lives if uid in ("", each.life.uid)]
    if lives and not chosen:
        name, known = lives[-1].life.name, dict.fromkeys(each.life.uid for each in lives)
        raise Failure(f'the journal has no life of pod "{name}" with the uid {uid}: it has {", ".join(known)}')
    return chosen


def missing(server: tuple[str, str], namespace: str, name: str) -> str:
    """Return the sentence that there is no pod of this name, and how to read about a pod that is gone. Blocks."""
    said = no_such_pod(name, namespace)
    if last_life(server, namespace, name) is None:
        return said
    return f"{said}; `syncpod explain -n {namespace} {name}` says what became of it"


def with_gone(
    events: Sequence[PodEvent],
    server: tuple[str, str],
    namespace: str | None,
    names: Collection[str],
    now: datetime,
) -> list[PodEvent]:
    """Return these events, and the last hour's events about pods that are gone from this machine's node.

    `namespace` None = all. With `names`, only gone pods of these names count. Events that are given are not repeated.
    Nothing is added unless a worker of the node runs and serves `server` (address and namespace).
    """
    worker = serving(settings().state_dir)
    if worker is None or (worker.address, worker.namespace) != server:
        return [*events]
    client.settle_journal(settings().state_dir)
    gone = gone_events(settings().state_dir, worker.node, events, namespace, now)
    return [*events, *(event for event in gone if not names or event.pod in names)]


def settled(state_dir: Path) -> str:
    """Have this machine's worker bring the journal up to date; return why the journal lacks the newest records.

    Returns "" if it has them, or if no worker runs. On a full disk a Temporal server there also fails, so that pods'
    workflows publish nothing: the journal then has nothing to write, and would seem to be up to date. Blocks.
    """
    why = client.settle_journal(state_dir)
    full = full_disk(state_dir)
    return "" if serving(state_dir) is None else full or (why and f"the journal cannot be written: {why}")


def last_sign(here: NodeSettings) -> datetime | None:
    """Return when the node's worker last gave a sign of life; None if not known. Blocks.

    After a reboot, the time may be up to a minute too early.
    """
    return last_sign_of(here.state_dir, memory_directory_of(here, is_named=bool(os.environ.get(MEMORY_DIR.variable))))
