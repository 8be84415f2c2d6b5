"""Finds the log of one instance of a container, even long after its end: its file, or its last part in the journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.api.client import settle_journal
from syncpod.cli.failure import Failure
from syncpod.cli.machine.containers import chosen_container, note_default
from syncpod.cli.machine.own_journal import lives_with_uid
from syncpod.journal.reading import NoJournal, lives_of

if TYPE_CHECKING:
    from syncpod.journal.reading import LifeRecords
    from syncpod.journal.records import Instance, PodLife
    from syncpod.pod import Pod


@dataclass(frozen=True)
class JournaledLog:
    """Where an instance's log is, or was."""

    records: LifeRecords
    """The records of the pod's life that the instance belongs to."""
    is_newest: bool
    """Whether this is the journal's last life of the pod's name."""
    instance: Instance
    path: Path
    """Where the log's file is, or was."""

    @property
    def life(self) -> PodLife:
        """The pod's life that the instance belongs to."""
        return self.records.life

    @property
    def has_file(self) -> bool:
        """Whether the file is still there. Blocks."""
        return self.path.is_file()


def journaled_log(
    state_dir: Path,
    log_dir: Path,
    namespace: str,
    name: str,
    container: str,
    restart: int,
    *,
    uid: str,
    pod_of: Callable[[PodLife], Pod | None],
) -> JournaledLog:
    """Return the log of the instance with this number, in the pod's newest life with such an instance.

    Blocks. If `container` is "", the only container in the journal's records is taken; if there are several, the
    default one, with a note. `uid` selects the life; "" = any. `pod_of` returns the pod of a life; None if this machine
    no longer has it. Raises Failure.
    """
    settle_journal(state_dir)
    try:
        lives = lives_of(state_dir, namespace, name)
    except NoJournal as why:
        raise Failure(str(why)) from None
    if not lives:
        raise Failure(f"the journal of this node ({state_dir}) has no pod {name} in namespace {namespace}")
    newest, lives = lives[-1], lives_with_uid(lives, uid)
    container = container or _default_container(lives, name, restart, pod_of)
    for records in reversed(lives):
        for instance in records.instances:
            if (instance.container, instance.restart) == (container, restart):
                life = records.life
                pod = log_dir / f"{life.namespace}_{life.name}_{life.uid}"
                return JournaledLog(records, records is newest, instance, pod / container / f"{restart}.log")
    raise Failure(
        f'the journal has no restart {restart} of container "{container}" of pod "{name}"{_known(lives, container)}'
    )


def why_never_ran(state_dir: Path, life: tuple[str, str, str], container: str, restart: int) -> str:
    """Return the journal's reason why an instance could not be started; "" if it ran, or has no record. Blocks.

    `life` is the pod's namespace, name and uid.
    """
    namespace, name, uid = life
    try:
        lives = lives_of(state_dir, namespace, name)
    except NoJournal:
        return ""
    for records in lives:
        for one in records.instances:
            if (records.life.uid, one.container, one.restart) == (uid, container, restart) and one.never_ran:
                return one.message or one.reason
    return ""


def _default_container(
    lives: Sequence[LifeRecords], name: str, restart: int, pod_of: Callable[[PodLife], Pod | None]
) -> str:
    """Return the only container that was ever started, or else the default one, with a note.

    The default of a pod that is gone is its first main container: the journal records neither annotations nor which
    containers are ephemeral. Raises Failure if no container was ever started.
    """
    names = sorted({instance.container for records in lives for instance in records.instances})
    if not names:
        raise Failure(f'the journal records no start of a container of pod "{name}"')
    if len(names) == 1:
        return names[0]

    with_number = [each for each in lives if any(one.restart == restart for one in each.instances)]
    newest = (with_number or lives)[-1]
    if (pod := pod_of(newest.life)) is not None:
        return chosen_container(pod, "")
    known = newest.present.get("containers", ())
    main = [each["name"] for each in known if not each.get("init")] or names
    note_default(main[0], [*main, *(f"{each['name']} (init)" for each in known if each.get("init"))])
    return str(main[0])


def _known(lives: Sequence[LifeRecords], container: str) -> str:
    numbers = sorted({one.restart for each in lives for one in each.instances if one.container == container})
    return f": it has {numbers[0]} to {numbers[-1]}" if numbers else ""
