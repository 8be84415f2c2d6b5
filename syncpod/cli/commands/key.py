"""``syncpod key``: the keys that sign the commands to this machine's node."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import StateDir
from syncpod.cli.manual import Group, Page

app = typer.Typer(cls=Group, help="Show and change the keys of this machine's node.", no_args_is_help=True)


@app.command("list", cls=Page)
def list_(state_dir: StateDir = "") -> None:
    """List the keys of the state directory by their ids, the oldest first.

    One key signs; all of them verify.
    """
    from syncpod.cli.actions.key import list_keys

    list_keys(state_dir)


@app.command("rotate", cls=Page)
def rotate(state_dir: StateDir = "") -> None:
    """Make a new key, which signs from now on.

    The worker starts to use it by itself. The earlier keys still verify the signatures in histories. The node's
    workflows continue as new, so that soon they need only the new key: then `syncpod key remove` removes the others.
    Copy the new key to every other machine from which you command the node.
    """
    from syncpod.cli.actions.key_change import rotate_key

    rotate_key(state_dir)


@app.command("remove", cls=Page)
def remove(
    key: Annotated[str, typer.Argument(metavar="ID", hidden=True, show_default=False)],
    state_dir: StateDir = "",
) -> None:
    """Remove a key, named by its id, that no open workflow of the node needs.

    Commands that it has signed are refused from then on, so a stolen copy of the key is useless.
    """
    from syncpod.cli.actions.key_change import remove_key

    remove_key(state_dir, key.removeprefix("key/"))
