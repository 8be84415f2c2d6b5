"""Changes the keys that sign the commands to this machine's node, as its open workflows permit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from syncpod.cli.actions.key import node_and_keys
from syncpod.cli.console import first_few, program, remark, say
from syncpod.cli.failure import BadInput, Failure
from syncpod.cli.temporal import session
from syncpod.cli.temporal.key_uses import renew_workflows, workflows_with_key
from syncpod.messages.identity import node_task_queue
from syncpod.messages.signature import key_id
from syncpod.settings.values import SettingsInvalid
from syncpod.signing.keys import add_signing_key, remove_signing_key

if TYPE_CHECKING:
    from temporalio.client import Client


def rotate_key(state_dir: str) -> None:
    """Make a new key, which signs from now on, and have the node's workflows continue as new.

    Raises BadInput if there are no keys, and Failure.
    """
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


def remove_key(state_dir: str, named: str) -> None:
    """Remove the key of this id.

    Raises BadInput if it is the one that signs, and Failure if there is none or an open workflow needs it.
    """
    here, keys = node_and_keys(state_dir)
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
