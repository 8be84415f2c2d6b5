"""The log of one instance of a container, however long ago it ended: its file, or the end that the journal keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from syncpod.cli.failure import BadInput, Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncpod.journal.reading import LifeRecords
    from syncpod.journal.records import Instance, Life


@dataclass(frozen=True)
class JournaledLog:
    """Where an instance's log is, or was."""

    records: LifeRecords
    """The life of the pod that it belongs to."""
    is_newest: bool
    """Whether no later life of the name is known."""
    instance: Instance
    path: Path
    """The file, if it is there."""

    @property
    def life(self) -> Life:
        """The life of the pod that it belongs to."""
        return self.records.life

    @property
    def has_file(self) -> bool:
        """Whether the file is still there. Blocks."""
        return self.path.is_file()


def journaled_log(
    state_dir: Path, log_dir: Path, namespace: str, name: str, container: str, restart: int, *, uid: str
) -> JournaledLog:
    """Return the log of the instance with this number, of the newest life of the pod that had one. Blocks.

    `container` "" = the only one that the journal knows of the pod. `uid` names the life; "" = any. Raises Failure, and
    BadInput if there are several containers.
    """
    from syncpod.journal.reading import NoJournal, lives_of

    try:
        lives = lives_of(state_dir, namespace, name)
    except NoJournal as why:
        raise Failure(str(why)) from None
    if not lives:
        raise Failure(f"the journal of this node ({state_dir}) has no pod {name} in namespace {namespace}")
    newest, lives = lives[-1], lives_with_uid(lives, uid)
    container = container or _only_container(lives, name)
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
    """Return why an instance could not be started, as the journal knows; "" if it ran, or nothing is known. Blocks.

    `life` is the pod's namespace, name and uid.
    """
    from syncpod.journal.reading import NoJournal, lives_of

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


def lives_with_uid(lives: Sequence[LifeRecords], uid: str) -> list[LifeRecords]:
    """Return the lives of a name that have a uid; "" = all. Raises Failure if none has it.

    A static pod has the same uid in each of its lives.
    """
    chosen = [each for each in lives if uid in ("", each.life.uid)]
    if lives and not chosen:
        name, known = lives[-1].life.name, dict.fromkeys(each.life.uid for each in lives)
        raise Failure(f'the journal has no life of pod "{name}" with the uid {uid}: it has {", ".join(known)}')
    return chosen


def _only_container(lives: Sequence[LifeRecords], name: str) -> str:
    names = sorted({instance.container for records in lives for instance in records.instances})
    if not names:
        raise Failure(f'the journal knows of no container of pod "{name}" that was ever started')
    if len(names) > 1:
        raise BadInput(f'name a container of pod "{name}" with -c: {", ".join(names)}')
    return names[0]


def _known(lives: Sequence[LifeRecords], container: str) -> str:
    numbers = sorted({one.restart for each in lives for one in each.instances if one.container == container})
    return f": it has {numbers[0]} to {numbers[-1]}" if numbers else ""
