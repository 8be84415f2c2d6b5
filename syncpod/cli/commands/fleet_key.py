"""``syncpod fleet key``: the keys that sign a fleet's commands and encrypt its histories, and its sealing keys."""

from __future__ import annotations

from typing import Annotated

import typer

from syncpod.cli.input.options import StateDir
from syncpod.cli.manual import Group, Page

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
    from syncpod.cli.actions.fleet_key import print_keys

    print_keys(state_dir)


@app.command("rotate", cls=Page)
def rotate(sealing: Sealing = False, state_dir: StateDir = "") -> None:
    """Make a new key, which signs and encrypts from now on, or with --sealing seals.

    Use it if all of the fleet's workers run on this machine, and you run its commands only here. If there are other
    machines, use `fleet key create`, copy the key there, and then use `fleet key use`: without the key they could not
    read new data, and would refuse new commands.
    """
    from syncpod.cli.actions.fleet_key import rotate_key

    rotate_key(state_dir, sealing=sealing)


@app.command("create", cls=Page)
def create(sealing: Sealing = False, state_dir: StateDir = "") -> None:
    """Make a new key, which is not used yet.

    Copy its file to the `keys` directory, or with --sealing to the `sealing` directory, of every other machine where
    the fleet's workers run, or where you run its commands. Then put it to use: `syncpod fleet key use ID`.
    """
    from syncpod.cli.actions.fleet_key import create_key

    create_key(state_dir, sealing=sealing)


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
    from syncpod.cli.actions.fleet_key import use_key

    use_key(key.removeprefix("key/"), state_dir)


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
    from syncpod.cli.actions.fleet_key import remove_key

    remove_key(key.removeprefix("key/"), state_dir, force=force)
