"""``syncpod fleet key``: the keys that what a fleet's server keeps is encrypted with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.cli.console import columns, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from datetime import datetime

    from temporalio.client import Client

    from syncpod.signing.keys import SigningKeys

app = typer.Typer(
    cls=Group, help="Show and change the keys that a fleet's histories are encrypted with.", no_args_is_help=True
)


@app.command("list", cls=Page)
def list_(state_dir: StateDir = "") -> None:
    """List the fleet's keys by their ids, the oldest first.

    One encrypts; all of them decrypt.
    """
    from datetime import UTC, datetime

    from syncpod.cli.view.durations import age
    from syncpod.messages.signature import key_id

    keys = _of(state_dir)
    current = key_id(keys.current)
    rows = [("ID", "AGE", "USE")]
    for named in _by_age(keys):
        use = "encrypts and decrypts" if named == current else "decrypts"
        rows.append((named, age(datetime.fromtimestamp(keys.made_at(named), UTC)), use))
    say("\n".join(columns(rows)))


@app.command("rotate", cls=Page)
def rotate(state_dir: StateDir = "") -> None:
    """Make a new key, with which the fleet encrypts from now on.

    Its worker takes it up by itself. The earlier keys go on to decrypt what histories have. The fleet's
    workflows continue as new, so that they come to need the new key alone: then `syncpod fleet key remove` takes the
    others away. Where the fleet has workers, or is commanded, on other machines too, copy the new key there at once:
    until then they cannot read what is new.
    """
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.key_uses import renew_workflows
    from syncpod.messages.fleet import FLEET_QUEUE
    from syncpod.messages.signature import key_id
    from syncpod.settings.errors import SettingsInvalid
    from syncpod.signing.keys import LOOK_SECONDS, add_signing_key

    keys = _of(state_dir)
    before = key_id(keys.current)
    try:
        after = key_id(add_signing_key(keys.directory.parent).current)
    except SettingsInvalid as wrong:
        raise Failure(str(wrong)) from None
    say(f"key/{after} encrypts from now on")
    remark(f"key/{before} decrypts what it has encrypted, until it is removed: `{program()} fleet key remove {before}`")

    async def work(client: Client) -> None:
        import asyncio

        # A workflow that continued as new before its worker has looked would begin with the earlier key again.
        await asyncio.sleep(2 * LOOK_SECONDS)
        await renew_workflows(client, FLEET_QUEUE)

    fleet.run(work, state_dir=state_dir)


@app.command("remove", cls=Page)
def remove(
    key: Annotated[str, typer.Argument(metavar="ID", hidden=True, show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Also if runs that have ended need it: nobody reads those any more.")
    ] = False,
    state_dir: StateDir = "",
) -> None:
    """Remove a key, named by its id, that no history needs.

    Open workflows are read to see whether they do. Runs that have ended are kept by the server as long as its retention
    says. A backup of the fleet's database from before needs the key too: keep a copy as long as the backup.
    """
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.key_uses import ended_before, workflows_with_key
    from syncpod.messages.fleet import FLEET_QUEUE
    from syncpod.messages.signature import key_id
    from syncpod.signing.keys import remove_signing_key

    keys, named = _of(state_dir), key.removeprefix("key/")
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    if named == key_id(keys.current):
        raise BadInput(f"key {named} encrypts: make another one first with `{program()} fleet key rotate`")
    superseded = _superseded(keys, named)

    async def work(client: Client) -> tuple[list[str], int]:
        return await workflows_with_key(client, FLEET_QUEUE, named), await ended_before(client, FLEET_QUEUE, superseded)

    needing, ended = fleet.run(work, state_dir=state_dir)
    if needing:
        more = f" and {len(needing) - 3} more" if len(needing) > 3 else ""
        raise Failure(
            f"key {named}: {', '.join(needing[:3])}{more} could no longer be replayed without it: "
            f"`{program()} fleet key rotate` has them continue as new"
        )
    if ended and not force:
        raise Failure(
            f"key {named}: {ended} runs that have ended need it to be read, until the server's retention lets them go; "
            "--force removes it now"
        )
    remove_signing_key(keys.directory.parent, named)
    say(f"key/{named} removed")


def _by_age(keys: SigningKeys) -> list[str]:
    return sorted(keys.by_id, key=lambda named: (keys.made_at(named), named))


def _superseded(keys: SigningKeys, named: str) -> datetime:
    """Return when nothing was encrypted with a key any more."""
    from datetime import UTC, datetime

    from syncpod.signing.keys import LOOK_SECONDS

    later = [each for each in map(keys.made_at, keys.by_id) if each > keys.made_at(named)]
    return datetime.fromtimestamp(min(later, default=datetime.now(UTC).timestamp()) + 2 * LOOK_SECONDS, UTC)


def _of(state_dir: str) -> SigningKeys:
    """Return the fleet's keys. Raises BadInput."""
    from syncpod.cli.commands.fleet_certificates import open_here
    from syncpod.settings.errors import SettingsInvalid
    from syncpod.signing.keys import make_signing_keys

    try:
        return make_signing_keys(open_here(state_dir).directory)
    except SettingsInvalid as wrong:
        raise BadInput(str(wrong)) from None
