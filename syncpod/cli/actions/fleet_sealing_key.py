"""Shows and changes the keys that seal messages between a fleet and its nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import issued_by, open_here
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.key_uses import ended_before
from syncpod.cli.temporal.sealing_keys import Certified, use_everywhere, what_needs, without_it
from syncpod.gate.sealing_key_files import SealingKeyFiles
from syncpod.gate.sealing_keys import LOOK_SECONDS
from syncpod.kernel.os_errors import sentence_of
from syncpod.messages.fleet import FLEET_QUEUE
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.cli.temporal.sealing_keys import Needs


_ANSWER_SECONDS: Final = 10.0
"""Seconds that `use` waits until the joined nodes trust the key."""


def directory(state_dir: str) -> Path:
    """Return the directory of the sealing keys. Raises BadInput."""
    return _files(state_dir).directory


def sealing_keys(state_dir: str) -> list[tuple[str, datetime, str]]:
    """Return each key's id, the time when it was made, and its use, the oldest first. Blocks. Raises BadInput."""
    files = _files(state_dir)
    with _readable():
        found = list(files.read())
        made = {named: datetime.fromtimestamp(files.made_at(named), UTC) for named in found}
    return [
        (named, made[named], "seals and opens" if named == found[0] else "opens")
        for named in sorted(found, key=lambda named: (made[named], named))
    ]


def has(state_dir: str, named: str) -> bool:
    """Return whether there is a sealing key of this id. Blocks. Raises BadInput."""
    with _readable():
        return named in _files(state_dir).read()


def create(state_dir: str) -> str:
    """Make a key that is not used yet; return its id. Blocks. Raises BadInput."""
    with _readable():
        return _files(state_dir).create()


def use(state_dir: str, after: str) -> None:
    """Seal with a key from now on: send it to the nodes, and seal the fleet's objects anew.

    May be repeated. Raises Failure, BadInput.
    """
    files = _files(state_dir)
    with _readable():
        before = next(iter(files.read()))
        files.use(after)
    say(f"key/{after} seals from now on")
    if before != after:
        remark(f"key/{before} still opens, until it is removed: `{program()} fleet key remove {before}`")
    sealing = fleet.object_sealing(state_dir)

    async def work(client: Client) -> list[str]:
        # A worker that has not read the new key yet would send nodes the earlier one.
        await asyncio.sleep(2 * LOOK_SECONDS)
        await use_everywhere(client, sealing)
        return await without_it(client, after, _ANSWER_SECONDS)

    if late := fleet.run(work, state_dir=state_dir):
        remark(f"not taken yet by {first_few(late)}: a node takes it when it is back")


def remove(state_dir: str, named: str, *, force: bool) -> None:
    """Remove a key that nothing needs. Raises Failure if something needs it, and BadInput for the key that seals."""
    files = _files(state_dir)
    with _readable():
        found = list(files.read())
        made = {each: files.made_at(each) for each in found}
    if named == found[0]:
        raise BadInput(f"key {named} seals: make another one first with `{program()} fleet key rotate --sealing`")
    # The times in certificates are whole seconds.
    used = datetime.fromtimestamp(int(made[found[0]]), UTC)
    later = min(each for each in made.values() if each > made[named] or each == made[found[0]])
    superseded = datetime.fromtimestamp(later, UTC) + timedelta(seconds=2 * LOOK_SECONDS)
    certified = _certified(state_dir)

    async def work(client: Client) -> tuple[Needs, int]:
        needs = await what_needs(client, named, certified, used)
        until = max(superseded, needs.until or superseded)
        return needs, await ended_before(client, FLEET_QUEUE, until)

    needs, ended = fleet.run(work, state_dir=state_dir)
    _require_unneeded(named, found[0], needs, ended, force=force)
    with _readable():
        files.remove(named)
    say(f"key/{named} removed")


def _require_unneeded(named: str, current: str, needs: Needs, ended: int, *, force: bool) -> None:
    """Raise Failure, with what to do, if a key is needed; with `force`, nodes and closed runs do not count."""
    anew = f"`{program()} fleet key use {current}`"
    if needs.nodes and not force:
        raise Failure(
            f"key {named}: {first_few(needs.nodes)} would refuse the fleet's requests without it: a node receives "
            "the new key when it is back, or in a new invitation; --force cuts these nodes off"
        )
    if needs.objects:
        raise Failure(f"key {named}: {first_few(needs.objects)} could not be read without it: {anew} seals them anew")
    if needs.workflows:
        raise Failure(
            f"key {named}: {first_few(needs.workflows)} could no longer be replayed without it: {anew} has them "
            "continue as new"
        )
    if ended and not force:
        raise Failure(
            f"key {named}: {ended} closed runs cannot be read without it; the server deletes them after its retention "
            "time; --force removes the key now"
        )


def _certified(state_dir: str) -> list[Certified]:
    """Return the nodes with a certificate that is valid, and when each was last invited. Blocks. Raises BadInput."""
    at, invited = datetime.now(UTC), dict[str, datetime]()
    for each in issued_by(open_here(state_dir)):
        if not each.revoked and each.not_after > at:
            invited[each.node] = max(each.issued, invited.get(each.node, each.issued))
    return [Certified(node, last) for node, last in invited.items()]


def _files(state_dir: str) -> SealingKeyFiles:
    return SealingKeyFiles(open_here(state_dir))


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Turn errors in reading or writing the keys into BadInput."""
    try:
        yield
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
    except OSError as wrong:
        raise BadInput(f"the fleet's keys cannot be read: {sentence_of(wrong)}") from None
