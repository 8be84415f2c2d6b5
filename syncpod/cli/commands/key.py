"""``syncpod key``: the keys that sign the commands to this machine's node."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from syncpod.api.views.durations import age
from syncpod.api.views.text import columns
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.input.options import StateDir
from syncpod.cli.manual import Group, Page
from syncpod.settings.values import SettingsInvalid

if TYPE_CHECKING:
    from temporalio.client import Client


app = typer.Typer(cls=Group, help="Show and change the keys of this machine's node.", no_args_is_help=True)


@app.command("list", cls=Page)
def list_(state_dir: StateDir = "") -> None:
    """List the keys of the state directory by their ids, the oldest first.

    One key signs; all of them verify.
    """
    from syncpod.cli.actions.key import node_and_keys
    from syncpod.messages.signature import key_id

    _, keys = node_and_keys(state_dir)
    current = key_id(keys.current)
    made = {named: keys.made_at(named) for named in keys.by_id}
    rows = [("ID", "AGE", "USE")]
    for named in sorted(made, key=lambda named: (made[named], named)):
        use = "signs and verifies" if named == current else "verifies"
        rows.append((named, age(datetime.fromtimestamp(made[named], UTC)), use))
    say("\n".join(columns(rows)))


@app.command("rotate", cls=Page)
def rotate(state_dir: StateDir = "") -> None:
    """Make a new key, which signs from now on.

    The worker starts to use it by itself. The earlier keys still verify the signatures in histories. The node's
    workflows continue as new, so that soon they need only the new key: then `syncpod key remove` removes the others.
    Copy the new key to every other machine from which you command the node.
    """
    from syncpod.cli.actions.key import node_and_keys
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.key_uses import renew_workflows
    from syncpod.messages.identity import node_task_queue
    from syncpod.messages.signature import key_id
    from syncpod.signing.keys import add_signing_key

    here, keys = node_and_keys(state_dir)
    before = key_id(keys.current)
    try:
        after = key_id(add_signing_key(here.state_dir).current)
    except SettingsInvalid as wrong:
        raise Failure(str(wrong)) from None
    say(f"key/{after} signs from now on")
    remark(f"key/{before} verifies what it has signed, until it is removed: `{program()} key remove {before}`")

    async def work(client: Client) -> None:
        await renew_workflows(client, node_task_queue(here.node))

    session.run(work, state_dir=state_dir)


@app.command("remove", cls=Page)
def remove(
    key: Annotated[str, typer.Argument(metavar="ID", hidden=True, show_default=False)],
    state_dir: StateDir = "",
) -> None:
    """Remove a key, named by its id, that no open workflow of the node needs.

    Commands that it has signed are refused from then on, so a stolen copy of the key is useless.
    """
    from syncpod.cli.actions.key import node_and_keys
    from syncpod.cli.temporal import session
    from syncpod.cli.temporal.key_uses import workflows_with_key
    from syncpod.messages.identity import node_task_queue
    from syncpod.messages.signature import key_id
    from syncpod.signing.keys import remove_signing_key

    here, keys = node_and_keys(state_dir)
    named = key.removeprefix("key/")
    if named not in keys.by_id:
        raise Failure(f'keys "{named}" not found')
    if named == key_id(keys.current):
        raise BadInput(f"key {named} signs: make another one first with `{program()} key rotate`")

    async def work(client: Client) -> list[str]:
        return await workflows_with_key(client, node_task_queue(here.node), named)

    if needing := session.run(work, state_dir=state_dir):
        raise Failure(
            f"key {named}: {first_few(needing)} could no longer be replayed without it: "
            f"`{program()} key rotate` has them continue as new"
        )
    remove_signing_key(here.state_dir, named)
    say(f"key/{named} removed")
