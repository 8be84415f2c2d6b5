"""The work of ``syncpod fleet key``: the keys that sign a fleet's commands and encrypt its histories."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from syncpod.cli.console import program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.machine.fleet_home import open_here
from syncpod.cli.temporal import fleet
from syncpod.cli.temporal.key_uses import renew_workflows
from syncpod.messages.fleet import FLEET_QUEUE
from syncpod.messages.signature import key_id
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import LOOK_SECONDS, create_signing_key, make_signing_keys, use_signing_key

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.signing.keys import SigningKeys


def create_key(keys: SigningKeys) -> str:
    """Make a new key, and return its id. Raises Failure."""
    try:
        return create_signing_key(keys.directory.parent)
    except SettingsInvalid as wrong:
        raise Failure(str(wrong)) from None


def use_key(keys: SigningKeys, after: str, state_dir: str) -> None:
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


def superseded_at(keys: SigningKeys, named: str) -> datetime:
    """Return the time by which a newer key had replaced this key: nothing was encrypted with this key later."""
    later = [each for each in map(keys.made_at, keys.by_id) if each > keys.made_at(named)]
    return datetime.fromtimestamp(min(later, default=datetime.now(UTC).timestamp()) + 2 * LOOK_SECONDS, UTC)


def fleet_keys(state_dir: str) -> SigningKeys:
    """Return the fleet's keys. Raises BadInput."""
    try:
        return make_signing_keys(open_here(state_dir).directory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
