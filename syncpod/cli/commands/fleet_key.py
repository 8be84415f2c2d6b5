"""``syncpod fleet key``: the keys that sign a fleet's commands and encrypt its histories, and its sealing keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.views.durations import age
from syncpod.api.views.text import columns
from syncpod.cli.actions import fleet_sealing_key
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.cli.manual import Group, Page

if TYPE_CHECKING:
    from temporalio.client import Client

    from syncpod.signing.keys import SigningKeys

app = typer.Typer(
    cls=Group,
    help="Show and change the keys that a fleet signs its commands and encrypts its histories with, and those that it "
    "seals with.",
    no_args_is_help=True,
)

Sealing = Annotated[
    bool, typer.Option("--sealing", help="Use the keys that seal messages between the fleet and its nodes.")
]


@app.command("list", cls=Page)
def list_(state_dir: StateDir = "") -> None:
    """List the fleet's keys by their ids: those that sign and encrypt, and then those that seal, each the oldest first.

    One key signs the fleet's commands and encrypts its histories; all keys of this kind verify and decrypt. One sealing
    key seals; all sealing keys open.
    """
    from syncpod.cli.actions.fleet_key import fleet_keys
    from syncpod.messages.signature import key_id

    keys = fleet_keys(state_dir)
    current = key_id(keys.current)
    rows = [("ID", "AGE", "USE")]
    for named in _by_age(keys):
        use = "signs and encrypts" if named == current else "verifies and decrypts"
        rows.append((named, age(datetime.fromtimestamp(keys.made_at(named), UTC)), use))
    for named, made, use in fleet_sealing_key.listed(state_dir):
        rows.append((named, age(made), use))
    say("\n".join(columns(rows)))


@app.command("rotate", cls=Page)
def rotate(sealing: Sealing = False, state_dir: StateDir = "") -> None:
    """Make a new key, which signs and encrypts from now on, or with --sealing seals.

    Use it if all of the fleet's workers run on this machine, and you run its commands only here. If there are other
    machines, use `fleet key create`, copy the key there, and then use `fleet key use`: without the key they could not
    read new data, and would refuse new commands.
    """
    if sealing:
        fleet_sealing_key.use(state_dir, fleet_sealing_key.create(state_dir))
        return
    from syncpod.cli.actions.fleet_key import create_key, fleet_keys, use_key

    keys = fleet_keys(state_dir)
    use_key(keys, create_key(keys), state_dir)


@app.command("create", cls=Page)
def create(sealing: Sealing = False, state_dir: StateDir = "") -> None:
    """Make a new key, which is not used yet.

    Copy its file to the `keys` directory, or with --sealing to the `sealing` directory, of every other machine where
    the fleet's workers run, or where you run its commands. Then put it to use: `syncpod fleet key use ID`.
    """
    if sealing:
        named = fleet_sealing_key.create(state_dir)
        path = fleet_sealing_key.directory(state_dir) / f"{named}.key"
        say(f"key/{named} opens from now on")
        remark(f"copy {path} to the fleet's other machines; then it may seal: `{program()} fleet key use {named}`")
        return
    from syncpod.cli.actions.fleet_key import create_key, fleet_keys

    keys = fleet_keys(state_dir)
    named = create_key(keys)
    say(f"key/{named} verifies and decrypts from now on")
    path = keys.directory / f"{named}.key"
    remark(f"copy {path} to the fleet's other machines; then it may sign: `{program()} fleet key use {named}`")


@app.command("use", cls=Page)
def use(
    key: Annotated[str, typer.Argument(metavar="ID", hidden=True, show_default=False)], state_dir: StateDir = ""
) -> None:
    """Use a key from now on, named by its id.

    The fleet's worker starts to use it within a second or two, without a restart. Older data is still read with the
    earlier keys. All workflows of the fleet continue as new, so that soon they need only this key: then `syncpod fleet
    key remove` removes the others. A sealing key is sent to all nodes, and all ConfigMaps and Secrets are sealed anew.
    If this command was interrupted, repeat it. Afterwards copy `keys/current`, or `sealing/current`, to the fleet's
    other machines: until then they use the earlier key.
    """
    from syncpod.cli.actions.fleet_key import fleet_keys, use_key

    keys, named = fleet_keys(state_dir), key.removeprefix("key/")
    if fleet_sealing_key.has(state_dir, named):
        fleet_sealing_key.use(state_dir, named)
        return
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    use_key(keys, named, state_dir)


@app.command("remove", cls=Page)
def remove(
    key: Annotated[str, typer.Argument(metavar="ID", hidden=True, show_default=False)],
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also if closed runs need it: nobody can read those any more. A sealing key also if nodes trust no "
            "other: those are cut off.",
        ),
    ] = False,
    state_dir: StateDir = "",
) -> None:
    """Remove a key that nothing needs any more, named by its id.

    Commands that it has signed are refused from then on. The histories of all open workflows are searched for the
    key. The server keeps closed runs for its retention time. A backup of the fleet's database from the time of the key
    needs it too: keep a copy of the key as long as the backup.

    A sealing key is also needed by ConfigMaps and Secrets that are sealed for it, and by nodes that have been away, and
    know no other key.
    """
    from syncpod.cli.actions.fleet_key import fleet_keys, superseded_at
    from syncpod.cli.temporal import fleet
    from syncpod.cli.temporal.key_uses import ended_before, workflows_with_key
    from syncpod.messages.fleet import FLEET_QUEUE
    from syncpod.messages.signature import key_id
    from syncpod.signing.keys import remove_signing_key

    keys, named = fleet_keys(state_dir), key.removeprefix("key/")
    if fleet_sealing_key.has(state_dir, named):
        fleet_sealing_key.remove(state_dir, named, force=force)
        return
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    if named == key_id(keys.current):
        raise BadInput(f"key {named} signs and encrypts: make another one first with `{program()} fleet key rotate`")
    superseded = superseded_at(keys, named)

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


def _by_age(keys: SigningKeys) -> list[str]:
    return sorted(keys.by_id, key=lambda named: (keys.made_at(named), named))
