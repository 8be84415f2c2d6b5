"""Shows and changes a fleet's keys: those that sign its commands and encrypt its histories, and those that seal."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.api.views.durations import age
from syncpod.api.views.text import columns
from syncpod.cli.actions import fleet_sealing_key
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import open_here
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.key_uses import ended_before, renew_workflows, workflows_with_key
from syncpod.messages.fleet import FLEET_QUEUE
from syncpod.messages.signature import key_id
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import (
    LOOK_SECONDS,
    create_signing_key,
    make_signing_keys,
    remove_signing_key,
    use_signing_key,
)

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.signing.keys import SigningKeys


def print_keys(state_dir: str) -> None:
    """Print a table of all keys: first those that sign and encrypt, then those that seal. Raises BadInput."""
    keys = _fleet_keys(state_dir)
    current = key_id(keys.current)
    rows = [("ID", "AGE", "USE")]
    for named in sorted(keys.by_id, key=lambda named: (keys.made_at(named), named)):
        use = "signs and encrypts" if named == current else "verifies and decrypts"
        rows.append((named, age(datetime.fromtimestamp(keys.made_at(named), UTC)), use))
    for named, made, use in fleet_sealing_key.sealing_keys(state_dir):
        rows.append((named, age(made), use))
    say("\n".join(columns(rows)))


def rotate_key(state_dir: str, *, sealing: bool) -> None:
    """Make a key and put it to use. Raises BadInput, Failure."""
    if sealing:
        fleet_sealing_key.use(state_dir, fleet_sealing_key.create(state_dir))
        return
    keys = _fleet_keys(state_dir)
    _use(keys, _create(keys), state_dir)


def create_key(state_dir: str, *, sealing: bool) -> None:
    """Make a key that is not used yet, and print what to do with it. Raises BadInput, Failure."""
    if sealing:
        named = fleet_sealing_key.create(state_dir)
        path = fleet_sealing_key.directory(state_dir) / f"{named}.key"
        say(f"key/{named} opens from now on")
        remark(f"copy {path} to the fleet's other machines; then it may seal: `{program()} fleet key use {named}`")
        return
    keys = _fleet_keys(state_dir)
    named = _create(keys)
    say(f"key/{named} verifies and decrypts from now on")
    path = keys.directory / f"{named}.key"
    remark(f"copy {path} to the fleet's other machines; then it may sign: `{program()} fleet key use {named}`")


def use_key(named: str, state_dir: str) -> None:
    """Put the key of this id to use. May be repeated. Raises BadInput, and Failure if there is no such key."""
    keys = _fleet_keys(state_dir)
    if fleet_sealing_key.has(state_dir, named):
        fleet_sealing_key.use(state_dir, named)
        return
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    _use(keys, named, state_dir)


def remove_key(named: str, state_dir: str, *, force: bool) -> None:
    """Remove the key of this id; with `force`, also if closed runs, or nodes that trust no other key, need it.

    Raises BadInput for a key that is used for new data, and Failure for one that is needed, or does not exist.
    """
    keys = _fleet_keys(state_dir)
    if fleet_sealing_key.has(state_dir, named):
        fleet_sealing_key.remove(state_dir, named, force=force)
        return
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    if named == key_id(keys.current):
        raise BadInput(f"key {named} signs and encrypts: make another one first with `{program()} fleet key rotate`")
    superseded = _superseded_at(keys, named)

    async def work(client: Client) -> tuple[list[str], int]:
        return await workflows_with_key(client, FLEET_QUEUE, named), await ended_before(client, FLEET_QUEUE, superseded)

    needing, ended = fleet.run(work, state_dir=state_dir)
    if needing:
        raise Failure(
            f"key {named}: {first_few(needing)} could no longer be replayed without it: "
            f"`{program()} fleet key use {key_id(keys.current)}` has them continue as new"
        )
    if ended and not force:
        raise Failure(
            f"key {named}: {ended} closed runs cannot be read without it; the server deletes them after its retention "
            "time; --force removes the key now"
        )
    remove_signing_key(keys.directory.parent, named)
    say(f"key/{named} removed")


def _create(keys: SigningKeys) -> str:
    """Make a key, and return its id. Raises Failure."""
    try:
        return create_signing_key(keys.directory.parent)
    except SettingsInvalid as wrong:
        raise Failure(str(wrong)) from None


def _use(keys: SigningKeys, after: str, state_dir: str) -> None:
    """Sign and encrypt with a key, and let all workflows continue as new, so that they need only this key.

    May be repeated. Raises Failure.
    """
    before = key_id(keys.current)
    try:
        use_signing_key(keys.directory.parent, after)
    except SettingsInvalid as wrong:
        raise Failure(str(wrong)) from None
    say(f"key/{after} signs and encrypts from now on")
    if before != after:
        remark(
            f"key/{before} still verifies and decrypts, until it is removed: `{program()} fleet key remove {before}`"
        )

    async def work(client: Client) -> None:
        # A worker that has not read the new key yet would start the continued runs with the earlier key.
        await asyncio.sleep(2 * LOOK_SECONDS)
        await renew_workflows(client, FLEET_QUEUE)

    fleet.run(work, state_dir=state_dir)


def _superseded_at(keys: SigningKeys, named: str) -> datetime:
    """Return the time by which a newer key had replaced this key: nothing was encrypted with this key later."""
    later = [each for each in map(keys.made_at, keys.by_id) if each > keys.made_at(named)]
    return datetime.fromtimestamp(min(later, default=datetime.now(UTC).timestamp()) + 2 * LOOK_SECONDS, UTC)


def _fleet_keys(state_dir: str) -> SigningKeys:
    """Return the keys that sign and encrypt. Raises BadInput."""
    try:
        return make_signing_keys(open_here(state_dir).directory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
